"""What another threshold or another version loses: defects that are found now, and then no more.

One picture that is called good by mistake lifts the threshold to its own score, and takes with it
all defects below that. How many these are is counted on planted defects and on known ones.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Message
from edgeseg.decision.prediction import above

# Of 48 planted defects, which a fit makes, two may go and the third asks: a threshold that is made
# anew from a few more good images moves by less than that, a wrong mark by far more.
MAY_LOSE = 0.05
FEWEST = 20  # planted defects, of which one is such a share: fewer cannot tell it
# Where planted defects cannot tell: by how much a threshold may rise. Good parts that alarm score
# a little above the threshold; the wrong mark that led to this rule raised it by three quarters.
MAY_RISE = 1.2


@dataclass(frozen=True, kw_only=True)
class Loss:
    """From what runs to what would run."""

    threshold_old: float
    threshold_new: float
    planted_found: int = 0  # planted defects that are found now
    planted_lost: int = 0  # of these, not any more
    known_found: int = 0  # the same of known bad parts
    known_lost: int = 0
    earlier_share: float = 0.0  # lost by versions that nobody was asked about, since the fit
    earlier_rise: float = 1.0
    may_lose: float = MAY_LOSE

    def __post_init__(self) -> None:
        check_may_lose(self.may_lose)
        for found, lost in (
            (self.planted_found, self.planted_lost),
            (self.known_found, self.known_lost),
        ):
            if not 0 <= lost <= found:
                raise UsageError(f"{lost} of {found} defects lost: expected none to all of them")

    @property
    def enough(self) -> bool:
        """Whether there are so many planted defects that they can tell a share like this."""
        return self.planted_found >= FEWEST and self.planted_found * (self.may_lose or 1) >= 1

    @property
    def share(self) -> float | None:
        """Of the planted defects that are found now; None: too few of them to say."""
        return self.planted_lost / self.planted_found if self.enough else None

    @property
    def rise(self) -> float:
        """The new threshold as a multiple of the old one; infinite where neither can tell."""
        old, new = self.threshold_old, self.threshold_new
        if not (math.isfinite(old) and math.isfinite(new)):
            return math.inf
        return 1.0 if new <= old else new / old if old > 0 else math.inf

    @property
    def total_share(self) -> float:
        """With what versions of before have lost; where it is not known, only those."""
        return self.earlier_share + (self.share or 0.0)

    @property
    def total_rise(self) -> float:
        """With what versions of before have raised."""
        return self.earlier_rise * self.rise

    @property
    def asks(self) -> bool:
        """Whether one person alone must not decide it."""
        if self.known_lost > self.may_lose * self.known_found:
            return True
        if self.share is None:
            return self.rise > 1.0 and self.total_rise > MAY_RISE
        return self.planted_lost > 0 and self.total_share > self.may_lose

    @property
    def sentence(self) -> Message:
        """For people."""
        if self.share is None:
            told = Message("loss_few", n=self.planted_found, n_rise=self.rise)
        else:
            lost, found = self.planted_lost, self.planted_found
            told = Message("loss_share", n=lost, n_all=found, n_share=100 * self.share)
        if self.share is not None and self.earlier_share:
            told = Message("loss_earlier", loss=told, n=100 * self.total_share)
        if not self.known_lost:
            return told
        return Message("loss_and_known", loss=told, n=self.known_lost, n_all=self.known_found)


def loss_between(
    old: float,
    new: float,
    *,
    planted: Sequence[float],
    known: Sequence[float] = (),
    may_lose: float = MAY_LOSE,
) -> Loss:
    """Of another threshold for the same scores; a known part without a score is always found."""
    (planted_found, planted_lost), (known_found, known_lost) = (
        _lost(scores, old, new) for scores in (planted, known)
    )
    return Loss(
        threshold_old=old,
        threshold_new=new,
        planted_found=planted_found,
        planted_lost=planted_lost,
        known_found=known_found,
        known_lost=known_lost,
        may_lose=may_lose,
    )


def check_may_lose(share: float) -> None:
    """A share of defects, and not all of them."""
    if not 0 <= share < 1:
        raise UsageError(
            f"may_lose={share}: expected a share from 0 to below 1, such as {MAY_LOSE}"
        )


def _lost(scores: Sequence[float], old: float, new: float) -> tuple[int, int]:
    """How many are found at the old threshold, and how many of these not at the new one."""
    values = np.asarray(scores, np.float64)
    found = above(values, old)
    return int(found.sum()), int((found & ~above(values, new)).sum())
