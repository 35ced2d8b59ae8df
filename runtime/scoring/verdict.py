"""What a frame is called, and from verdicts to a debounced alarm."""

from collections import deque
from dataclasses import dataclass

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Setting
from edgeseg.decision.judgement import is_alarming
from edgeseg.runtime.events.codes import Refusal
from edgeseg.runtime.events.records import FrameVerdict


def called(verdict: FrameVerdict, refusal: Refusal | None) -> FrameVerdict:
    """The one rule for every output: without an approved model nothing is good, nor a defect."""
    return verdict if refusal is None else "no_inspection"


@dataclass(frozen=True, kw_only=True)
class Debounce:
    """An alarm needs k verdicts of the last n that are neither good nor unsure."""

    k: int = 1
    n: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.k <= self.n:
            raise UsageError(Setting("debounce", f"{self.k}/{self.n}"), ": expected 1 <= k <= n")

    @classmethod
    def parse(cls, text: str) -> "Debounce":
        """Read `k/n`."""
        try:
            k, n = (int(part) for part in text.split("/"))
        except ValueError:
            raise UsageError(
                Setting("debounce", repr(text)), ": expected k/n, for example 3/5"
            ) from None
        return cls(k=k, n=n)


class SourceAlarm:
    """The alarm of one source."""

    def __init__(self, debounce: Debounce) -> None:
        self._needed = debounce.k
        self._recent: deque[bool] = deque(maxlen=debounce.n)
        self.active = False

    def update(self, verdict: FrameVerdict) -> bool:
        """Take one verdict; true when the alarm starts with it."""
        self._recent.append(is_alarming(verdict))
        before, self.active = self.active, sum(self._recent) >= self._needed
        return self.active and not before

    def forget(self) -> None:
        """Start anew: frames on both sides of a lost connection are not neighbours."""
        self._recent.clear()
        self.active = False
