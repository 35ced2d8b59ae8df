"""Defects that another threshold or another version of the model would no longer find.

One picture that is called good by mistake raises the threshold to its own score, and all defects
below that are lost. They are counted on planted defects and on known ones.
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
    """The defects lost between the threshold in use and the proposed one."""

    threshold_old: float
    threshold_new: float
    planted_found: int = 0  # planted defects that are found now
    planted_lost: int = 0  # of these, not any more
    known_found: int = 0  # the same of known bad parts
    known_lost: int = 0
    earlier_share: float = 0.0  # lost by earlier versions that needed no second person
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
        """Whether there are enough planted defects to estimate such a share."""
        return self.planted_found >= FEWEST and self.planted_found * (self.may_lose or 1) >= 1

    @property
    def share(self) -> float | None:
        """The share of the planted defects found now that is lost; None with too few of them."""
        return self.planted_lost / self.planted_found if self.enough else None

    @property
    def rise(self) -> float:
        """The new threshold as a multiple of the old one; infinite where it is not known."""
        old, new = self.threshold_old, self.threshold_new
        if not (math.isfinite(old) and math.isfinite(new)):
            return math.inf
        return 1.0 if new <= old else new / old if old > 0 else math.inf

    @property
    def total_share(self) -> float:
        """This share added to that of earlier versions; an unknown share counts as 0."""
        return self.earlier_share + (self.share or 0.0)

    @property
    def total_rise(self) -> float:
        """This rise multiplied with that of earlier versions."""
        return self.earlier_rise * self.rise

    @property
    def asks(self) -> bool:
        """Whether a second person has to agree."""
        if self.known_lost > self.may_lose * self.known_found:
            return True
        if self.share is None:
            return self.rise > 1.0 and self.total_rise > MAY_RISE
        return self.planted_lost > 0 and self.total_share > self.may_lose

    @property
    def sentence(self) -> Message:
        """A sentence for people."""
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
    """Compare two thresholds on the same scores; a known part without a score is always found."""
    (planted_found, planted_lost), (known_found, known_lost) = (
        _count_lost(scores, old, new) for scores in (planted, known)
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
    """Refuse a value that is not a share of defects, or that is all of them."""
    if not 0 <= share < 1:
        raise UsageError(
            f"may_lose={share}: expected a share from 0 to below 1, such as {MAY_LOSE}"
        )


def _count_lost(scores: Sequence[float], old: float, new: float) -> tuple[int, int]:
    """Count the scores found at the old threshold, and those of them not found at the new one."""
    values = np.asarray(scores, np.float64)
    found = above(values, old)
    return int(found.sum()), int((found & ~above(values, new)).sum())
