"""Reasons why a frame gave no verdict to trust: a kind that decides, and its sentence."""

from dataclasses import dataclass
from enum import Enum

from edgeseg.vision.locate import Found


class DoubtKind(str, Enum):
    """The kinds of doubt; a new one needs its sentence in SENTENCES."""

    NO_SCORE = "no_score"
    DARK = "dark"
    BRIGHT = "bright"
    BLURRED = "blurred"
    FOREIGN = "foreign"  # another product, an empty belt, a covered lens
    NOT_FOUND = "not_found"
    PARTS = "parts"  # of several in one picture


SENTENCES: dict[DoubtKind, str] = {
    DoubtKind.NO_SCORE: "the model gave no finite score",
    DoubtKind.DARK: "the picture is far darker than the good images, all of it or a part",
    DoubtKind.BRIGHT: "the picture is far brighter than the good images, all of it or a part",
    DoubtKind.BLURRED: "the picture is blurred, or has far less contrast than the good images",
    DoubtKind.FOREIGN: "the picture is not of this part: it is unlike the good images everywhere",
    DoubtKind.NOT_FOUND: "the part is not where it may be, or does not look like one",
    DoubtKind.PARTS: "not all parts of the picture can be judged",
}


@dataclass(frozen=True, kw_only=True)
class Doubt:
    """The reason why a frame is `invalid` or its part `not_found`."""

    kind: DoubtKind
    detail: str = ""  # what was found instead

    def __str__(self) -> str:
        sentence = SENTENCES[self.kind]
        return f"{sentence}: {self.detail}" if self.detail else sentence


def doubt_on(
    verdict: str, invalid: DoubtKind | None, *, found: Found | None = None
) -> Doubt | None:
    """Return why a verdict is not about the part; `invalid` is what is wrong with the frame."""
    if verdict == "not_found":
        return Doubt(kind=DoubtKind.NOT_FOUND, detail="" if found is None else found.reason)
    if verdict != "invalid" or invalid is None:
        return None
    return Doubt(kind=invalid)
