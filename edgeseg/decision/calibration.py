"""A threshold with a stated rate, from scores of good images that the model has not seen."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import DatasetError
from edgeseg.decision.foreign import foreign_limit, no_floors
from edgeseg.decision.metrics import best_f1_threshold
from edgeseg.decision.operating_point import rate_threshold
from edgeseg.decision.prediction import above
from edgeseg.decision.score_origin import Promise, ScoreOrigin, ThresholdChoice
from edgeseg.decision.score_statistics import ScoreStatistics
from edgeseg.decision.thresholds import Thresholds
from edgeseg.vision.appearance import GoodAppearance
from edgeseg.vision.part_groups import Grouping, highest_of_parts

GRID_BYTES = 16 << 20  # of the grids of good images that a file keeps: 8,000 images of 32x32 cells
NO_LOOKS = GoodAppearance()


def no_groups() -> NDArray[np.float32]:
    """Return the groups of images that all show different parts."""
    return np.empty(0, np.float32)


@dataclass(frozen=True, kw_only=True)
class GoodImageScores:
    """Scores of good images by models that were fitted without them."""

    scores: NDArray[np.float32]  # (n,)
    peaks: NDArray[np.float32]  # (n,): highest value of each map
    # Of the map's cells, as the drift watch follows them.
    frame_d2: NDArray[np.float32]  # (n,): mean of d^2 over each frame
    d2_mean: NDArray[np.float32]  # (h, w): mean of d^2 over images
    d2_std: NDArray[np.float32]  # (h, w)
    # (n, h, w) float16: each cell's distance, ignored ones too; None: too many, or not known.
    # Regions that are ignored later take their threshold from here.
    grids: NDArray[np.float16] | None = None
    shown_grids: NDArray[np.float16] | None = None  # the map's own; None: it has none of its own
    # (n,): what three quarters of each map exceed; empty: not known
    floors: NDArray[np.float32] = field(default_factory=no_floors)
    # (n,): which part each shows, in whole numbers; empty: each another one
    groups: NDArray[np.float32] = field(default_factory=no_groups)
    images: tuple[str, ...] = ()  # where each is, as long as a fit knows it; no file keeps them
    variants: tuple[tuple[int, int], ...] = ()  # which each shows, and which was named; the same

    def __post_init__(self) -> None:
        if self.groups.size not in (0, self.count):
            raise ValueError(f"groups: {self.groups.size}, expected one for each of {self.count}")

    @property
    def count(self) -> int:
        """The number of images."""
        return int(self.scores.size)

    @property
    def parts(self) -> int:
        """The number of different parts that they show."""
        return int(np.unique(self.groups).size) if self.groups.size else self.count

    @property
    def leading(self) -> list[int]:
        """The image with the highest score of each part, the highest first."""
        falling = np.argsort(-self.scores, kind="stable")
        if not self.groups.size:
            return [int(place) for place in falling]
        _, first = np.unique(self.groups[falling], return_index=True)
        return [int(place) for place in falling[np.sort(first)]]

    def by_picture(self) -> "GoodImageScores":
        """Return one row for each picture that shows several parts, with the highest of theirs.

        A picture alarms if one of its parts does; its distances are those of its mean part.
        """
        names = list(dict.fromkeys(self.images))
        at = {name: number for number, name in enumerate(names)}
        of_each = np.array([at[name] for name in self.images], np.intp)
        _, first = np.unique(of_each, return_index=True)
        shown = self.groups[first] if self.groups.size else self.groups
        return GoodImageScores(
            scores=highest_of_parts(self.scores, of_each),
            peaks=highest_of_parts(self.peaks, of_each),
            floors=highest_of_parts(self.floors, of_each),
            frame_d2=(np.bincount(of_each, self.frame_d2) / np.bincount(of_each)).astype(
                np.float32
            ),
            d2_mean=self.d2_mean,
            d2_std=self.d2_std,
            groups=no_groups() if np.unique(shown).size == shown.size else shown,
            images=tuple(names),
        )

    @property
    def of_parts(self) -> "PartScores":
        """One score per part, the highest of its images: a part alarms if one image does."""
        return PartScores(
            scores=highest_of_parts(self.scores, self.groups),
            peaks=highest_of_parts(self.peaks, self.groups),
            floors=highest_of_parts(self.floors, self.groups),
        )


@dataclass(frozen=True, kw_only=True)
class PartScores:
    """Scores that a threshold may count: of parts, not of images."""

    scores: NDArray[np.float32]
    peaks: NDArray[np.float32]
    floors: NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class CalibrationFacts:
    """The thresholds and how they came about, as the header stores them."""

    score_threshold: float
    pixel_threshold: float
    requested_rate: float
    answered_rate: float
    origin: ScoreOrigin  # of the good scores
    images: int  # good images behind them
    parts: int  # different parts that they show
    expected_d2: float  # of d^2 on the fitted images, from the moments
    measured_d2: float  # the same, from the images themselves
    appearance: GoodAppearance  # of all images of the fit
    choice: ThresholdChoice | None = None  # what was chosen later, by `edgeseg threshold`
    unsure_threshold: float | None = None  # the same
    unsure_rate: float | None = None
    foreign_limit: float | None = None  # of the map's floor; None: the good images were fitted on
    grouping: Grouping | None = None  # who told near-copies apart; None: there are none
    promise: Promise = "conformal"  # how the rate became thresholds; files of 0.2.0 do not say it

    def __post_init__(self) -> None:
        _ = self.thresholds  # which check themselves

    @property
    def thresholds(self) -> Thresholds:
        """The thresholds for the metadata of a graph."""
        return Thresholds(
            score=self.score_threshold,
            pixel=self.pixel_threshold,
            false_alarm_rate=self.answered_rate,
            requested_rate=self.requested_rate,
            origin=self.origin,
            choice=self.choice,
            unsure=self.unsure_threshold,
            unsure_rate=self.unsure_rate,
            foreign=self.foreign_limit,
            appearance=self.appearance.limits,
            images=self.images,
            parts=self.parts,
            grouping=self.grouping,
            promise=self.promise,
        )

    @property
    def method(self) -> str:
        """How they came about, in words."""
        return self.thresholds.method


@dataclass(frozen=True, kw_only=True)
class Calibration(CalibrationFacts):
    """The facts of a calibration with the statistics behind them."""

    good: GoodImageScores

    @property
    def statistics(self) -> ScoreStatistics:
        """The good scores for the metadata of a graph; scores of fitted images are left out."""
        of_parts = self.good.of_parts
        images = self.good.count if self.good.count > of_parts.scores.size else None
        statistics = ScoreStatistics.of(of_parts.scores, of_parts.peaks, images=images)
        return statistics if self.answered_rate < 1 else replace(statistics, scores=(), peaks=())

    def header(self) -> dict[str, Any]:
        """Return the plain values; the arrays are stored as tensors."""
        return {
            "score_threshold": self.score_threshold,
            "pixel_threshold": self.pixel_threshold,
            "requested_rate": self.requested_rate,
            "answered_rate": self.answered_rate,
            "unsure_threshold": self.unsure_threshold,
            "unsure_rate": self.unsure_rate,
            "foreign_limit": self.foreign_limit,
            "appearance": self.appearance.to_dict(),
            "origin": asdict(self.origin),
            "choice": None if self.choice is None else asdict(self.choice),
            "expected_d2": self.expected_d2,
            "measured_d2": self.measured_d2,
            "images": self.images,
            "parts": self.parts,
            "grouping": self.grouping,
            "promise": self.promise,
        }


def calibrate(
    good: GoodImageScores,
    *,
    false_alarm_rate: float,
    promise: Promise,
    origin: ScoreOrigin,
    expected_d2: float,
    measured_d2: float,
    unseen: bool = True,
    anomaly_scores: Sequence[float] = (),
    planted_floors: Sequence[float] | NDArray[np.float32] = (),
    appearance: GoodAppearance = NO_LOOKS,
    grouping: Grouping = "pictures",
) -> Calibration:
    """Choose both thresholds from good images, or the image threshold by F1 if anomalies are given.

    Each part counts once. Images that were fitted on too (`unseen` is false) are no evidence of
    what others will score.
    """
    if not good.count:
        raise DatasetError("no good images to calibrate on; expected at least one")
    parts = good.of_parts
    count = int(parts.scores.size)
    score, peak = (
        rate_threshold(values.tolist(), false_alarm_rate=false_alarm_rate, promise=promise)
        for values in (parts.scores, parts.peaks)
    )
    promises = unseen and (count > 1 or good.count == 1)  # one part says nothing of another
    value, rate = score.value, score.rate if promises else 1.0
    if anomaly_scores:
        scores = np.concatenate([parts.scores, np.asarray(anomaly_scores, np.float32)])
        labels = np.repeat([0, 1], [count, len(anomaly_scores)])
        value = best_f1_threshold(scores, labels)
        # Chosen on these very images, so an estimate: no guarantee is left.
        rate = float(1 + np.count_nonzero(above(parts.scores, value))) / (count + 1)
        origin = ScoreOrigin(kind="best_f1", anomalies=len(anomaly_scores))
    return Calibration(
        score_threshold=float(value),
        pixel_threshold=peak.value,
        requested_rate=false_alarm_rate,
        answered_rate=rate,
        origin=origin,
        expected_d2=expected_d2,
        measured_d2=measured_d2,
        good=good,
        foreign_limit=foreign_limit(
            parts.floors if unseen else (), planted=planted_floors, threshold=peak.value
        ),
        appearance=appearance,
        images=good.count,
        parts=count,
        grouping=grouping if count < good.count else None,
        promise=promise,
    )
