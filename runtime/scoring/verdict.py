"""Decide the verdict of a frame, and debounce verdicts into an alarm."""

from collections import deque
from dataclasses import dataclass

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Setting
from edgeseg.decision.judgement import is_alarming
from edgeseg.runtime.events.codes import Refusal
from edgeseg.runtime.events.records import FrameVerdict


def frame_verdict(verdict: FrameVerdict, refusal: Refusal | None) -> FrameVerdict:
    """Return the verdict for every output: without an approved model there is no inspection."""
    return verdict if refusal is None else "no_inspection"


@dataclass(frozen=True, kw_only=True)
class Debounce:
    """A rule: an alarm needs k of the last n verdicts to be neither good nor unsure."""

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
        """Take one verdict; return True when the alarm starts with it."""
        self._recent.append(is_alarming(verdict))
        before, self.active = self.active, sum(self._recent) >= self._needed
        return self.active and not before

    def forget(self) -> None:
        """Start again: frames before and after a lost connection are not neighbours."""
        self._recent.clear()
        self.active = False
