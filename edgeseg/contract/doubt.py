"""Why a frame gave no verdict to trust: a word that decides, and its sentence for people."""

import math
from dataclasses import dataclass
from enum import Enum

from edgeseg.contract.locate import Found


class DoubtKind(str, Enum):
    """What speaks against a verdict; a new one needs its sentence in SENTENCES."""

    NO_SCORE = "no_score"
    FOREIGN = "foreign"
    NOT_FOUND = "not_found"


SENTENCES: dict[DoubtKind, str] = {
    DoubtKind.NO_SCORE: "the model gave no finite score",
    DoubtKind.FOREIGN: "the picture is not of this part: it is unlike the good images everywhere",
    DoubtKind.NOT_FOUND: "the part is not where it may be, or does not look like one",
}


@dataclass(frozen=True, kw_only=True)
class Doubt:
    """Why a frame is `invalid` or its part `not_found`."""

    kind: DoubtKind
    detail: str = ""  # what was found instead

    def __str__(self) -> str:
        sentence = SENTENCES[self.kind]
        return f"{sentence}: {self.detail}" if self.detail else sentence


def doubt_on(verdict: str, score: float, *, found: Found | None = None) -> Doubt | None:
    """Why a verdict is no verdict on the part; None: it is one."""
    if verdict == "not_found":
        return Doubt(kind=DoubtKind.NOT_FOUND, detail="" if found is None else found.reason)
    if verdict != "invalid":
        return None
    return Doubt(kind=DoubtKind.FOREIGN if math.isfinite(score) else DoubtKind.NO_SCORE)
