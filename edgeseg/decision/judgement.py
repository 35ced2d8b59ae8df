"""Judge a prediction by the thresholds of its model: verdict, p-value and regions."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.messages import Message
from edgeseg.base.plain import finite
from edgeseg.decision.doubt import Doubt, DoubtKind, doubt_on
from edgeseg.decision.foreign import map_floor
from edgeseg.decision.kinds import Severity
from edgeseg.decision.operating_point import oddness, p_value
from edgeseg.decision.prediction import (
    Prediction,
    Region,
    above,
    is_anomalous,
    place_of_score,
    regions_of,
)
from edgeseg.decision.score_statistics import ScoreStatistics
from edgeseg.decision.thresholds import Thresholds
from edgeseg.vision.appearance import Appearance
from edgeseg.vision.geometry import Found, Pose, View

# unsure: between two thresholds, where a second one is stored; neither good nor an alarm
# invalid: the part cannot be judged by this frame, doubt.py says why
# not_found: the part is not where it may be, or does not look like one; never good
Verdict = Literal["good", "unsure", "defect", "invalid", "not_found"]


def invalid_kind(
    score: float,
    thresholds: Thresholds,
    *,
    map_hw: NDArray[np.float32] | None = None,
    appearance: Appearance | None = None,
) -> DoubtKind | None:
    """Return why a part cannot be judged by a frame; None if it can.

    A frame that is both foreign and blurred counts as foreign: another product may be smooth.
    """
    if not math.isfinite(score):
        return DoubtKind.NO_SCORE
    limits, limit = thresholds.appearance, thresholds.foreign
    fault = None if limits is None or appearance is None else limits.fault_in(appearance)
    if fault in ("dark", "bright"):
        return DoubtKind(fault)
    if limit is not None and map_hw is not None and map_floor(map_hw) > limit:
        return DoubtKind.FOREIGN
    return None if fault is None else DoubtKind(fault)


def verdict_on(
    score: float,
    thresholds: Thresholds,
    *,
    map_hw: NDArray[np.float32] | None = None,
    found: Found | None = None,
    appearance: Appearance | None = None,
) -> Verdict:
    """Judge a frame: the one rule for all; without map and appearance the score alone decides.

    A frame that does not show the part is recognised before its score counts: a covered lens may
    have no high pixel at all, and is not good for that. A part that looks odd at a place of good
    parts is `not_found`, unless its score makes it a defect.
    """
    lost = found is not None and not found.ok
    if found is not None and lost and not found.placed:
        return "not_found"
    if invalid_kind(score, thresholds, map_hw=map_hw, appearance=appearance) is not None:
        return "not_found" if lost else "invalid"
    if is_anomalous(score, thresholds.score):
        return "defect"
    if lost:
        return "not_found"
    if thresholds.unsure is not None and is_anomalous(score, thresholds.unsure):
        return "unsure"
    return "good"


def verdicts_in_words(counts: Mapping[str, int]) -> str:
    """Write how often each verdict was given, the good ones first."""
    known = {verdict: counts.get(verdict, 0) for verdict in get_args(Verdict)}
    given = [f"{count} {verdict}" for verdict, count in {**known, **counts}.items() if count]
    return ", ".join(given) or "none"


def is_alarming(verdict: str) -> bool:
    """Return whether a part may not pass: a doubt alone is no alarm, an unknown verdict is one."""
    return verdict not in ("good", "unsure")


MAJOR_PEAK = 2.0  # times the pixel threshold: from here on a region is major
MAJOR_SHARE = 0.01  # of the picture that is looked at: as large a region is major too


def severity_of(region: Region, *, pixel_threshold: float, picture_px: int) -> Severity:
    """Rate a region by its kind where that has a severity, else by its peak and its area.

    One that is not a number is major.
    """
    if region.kind is not None and region.kind.severity is not None and region.peak == region.peak:
        return region.kind.severity
    strong = not region.peak < MAJOR_PEAK * pixel_threshold
    return "major" if strong or region.area_px >= MAJOR_SHARE * picture_px else "minor"


def chance(score: float, good: ScoreStatistics) -> float | None:
    """Return how often a good part looks this odd; None where the good scores are not known."""
    return p_value(score, good.values) if good.scores else None


def oddness_of(p: float | None, parts: int | None, *, doubt: Doubt | None = None) -> Message | None:
    """Write a p-value in words; None where there is none, or the frame does not show the part.

    How odd good parts look says nothing of a covered lens or of another product.
    """
    return None if p is None or parts is None or doubt is not None else oddness(p, parts)


def mark_pixels(
    prediction: Prediction, verdict: Verdict, pixel_threshold: float
) -> NDArray[np.bool_]:
    """Mark pixels above the pixel threshold; what is not good has at least the place of its score.

    The score may be above its threshold while no pixel is above the pixel threshold: the two are
    chosen separately, from the scores and from the highest pixels of good images. And the map may
    be made of other distances, which are high elsewhere alone.
    """
    above_hw = above(prediction.map_hw, pixel_threshold)
    if verdict == "good":
        return above_hw
    place_hw = place_of_score(prediction)
    return above_hw if (above_hw & place_hw).any() else above_hw | place_hw


def marked_regions(
    prediction: Prediction,
    verdict: Verdict,
    pixel_threshold: float,
    *,
    view: View,
    min_area: float = 0.0,
) -> tuple[tuple[Region, ...], int]:
    """Return the marked regions of at least `min_area`, and how many there are.

    Boxes are in pixels of what the view shows: its region, or the camera's whole picture.
    """
    marked_hw = mark_pixels(prediction, verdict, pixel_threshold)
    return regions_of(
        prediction.map_hw,
        marked_hw,
        size_hw=view.shown_hw,
        view=view,
        min_area=min_area,
        describe=prediction.describe,
    )


@dataclass(frozen=True, kw_only=True)
class Areas:
    """A verdict that takes the area of regions into account."""

    verdict: Verdict
    regions: tuple[Region, ...]  # strongest first, at most MAX_REGIONS of them
    count: int  # before that limit


def judge_areas(
    prediction: Prediction,
    verdict: Verdict,
    pixel_threshold: float,
    *,
    view: View,
    min_area: float,
    found: Found | None = None,
) -> Areas:
    """Judge by regions of at least `min_area`: a part without one is good.

    All regions are considered, however many there are. Only alarms of the score are taken back: an
    invalid frame and a part that is not found stay so, with all their regions.
    """
    by_score = verdict in ("defect", "unsure")
    least = min_area if by_score else 0.0
    regions, count = marked_regions(prediction, verdict, pixel_threshold, view=view, min_area=least)
    if by_score and least and not count:
        verdict = "good" if found is None or found.ok else "not_found"
    return Areas(verdict=verdict, regions=regions, count=count)


@dataclass(frozen=True, kw_only=True)
class JudgedPart:
    """One of several parts in a picture, with a verdict of its own."""

    box_xywh: tuple[int, int, int, int]  # around it, in pixels of the picture
    degrees: float  # turned so far from upright, anticlockwise as people see it
    score: float | None  # None: it is no whole part, and not judged
    verdict: Verdict
    doubt: Doubt | None = None  # why it is invalid

    def facts(self) -> dict[str, object]:
        """Return plain values, for events and messages."""
        return {
            "box": list(self.box_xywh),
            "degrees": round(self.degrees, 1),
            "score": finite(self.score),
            "verdict": self.verdict,
            "reason": "" if self.doubt is None else str(self.doubt),
        }


def parts_facts(parts: Sequence[JudgedPart]) -> dict[str, object]:
    """Return the parts of a picture under their key; nothing of a picture of one part."""
    return {"parts": [part.facts() for part in parts]} if parts else {}


@dataclass(frozen=True, kw_only=True)
class JudgedFrame:
    """A prediction with its verdict, its regions, and the parts where it shows several."""

    prediction: Prediction
    areas: Areas
    doubt: Doubt | None  # why it is invalid or not_found
    parts: tuple[JudgedPart, ...] = ()


@dataclass(frozen=True, kw_only=True)
class JudgedPrediction(Prediction):
    """A prediction with its verdict: what `predict` returns.

    `verdict` is good, unsure, defect, invalid (the picture does not show the part) or not_found;
    `anomalous` is whether the part may not pass. The map and what is marked of it cover the frame
    that was given, at the resolution of the model's input; regions are in pixels of that frame.
    """

    threshold: float  # of the score, which alone decides
    pixel_threshold: float  # of the map: what is marked
    verdict: Verdict
    p_value: float | None  # share of good parts that look this odd; None: not known
    regions: tuple[Region, ...]  # strongest first, at most MAX_REGIONS of them
    marked_hw: NDArray[np.bool_]  # (H, W): pixels of the map that belong to a region
    pose: Pose | None = None  # where the part lies, if it is looked for
    doubt: Doubt | None = None  # why it is invalid or not_found
    good_parts: int | None = None  # behind the p-value; None: not known
    path: Path | None = None  # of the picture, where it was a file
    parts: tuple[JudgedPart, ...] = ()  # of a picture of several, from top to bottom

    @property
    def anomalous(self) -> bool:
        """Whether the verdict is neither good nor unsure."""
        return is_alarming(self.verdict)

    @property
    def oddness(self) -> str | None:
        """The p-value in words: "odder than all 40 good parts"; None where it means nothing."""
        words = oddness_of(self.p_value, self.good_parts, doubt=self.doubt)
        return None if words is None else str(words)


def judge(
    prediction: Prediction,
    *,
    thresholds: Thresholds,
    good: ScoreStatistics | None = None,
    view: View,
    found: Found | None = None,
) -> JudgedPrediction:
    """Judge a prediction by the thresholds; `good` are the scores of good parts, where known."""
    score, map_hw, appearance = prediction.score, prediction.map_hw, prediction.appearance
    verdict = verdict_on(score, thresholds, map_hw=map_hw, found=found, appearance=appearance)
    invalid = invalid_kind(score, thresholds, map_hw=map_hw, appearance=appearance)
    marked_hw = mark_pixels(prediction, verdict, thresholds.pixel)
    describe = prediction.describe
    regions, _ = regions_of(map_hw, marked_hw, size_hw=view.shown_hw, view=view, describe=describe)
    return JudgedPrediction(
        map_hw=view.over_frame(map_hw),
        score=score,
        grid_hw=prediction.grid_hw,
        map_grid_hw=prediction.map_grid_hw,
        appearance=appearance,
        marked_hw=view.over_frame(marked_hw.astype(np.float32)) >= 0.5,
        variant=prediction.variant,
        threshold=thresholds.score,
        pixel_threshold=thresholds.pixel,
        verdict=verdict,
        doubt=doubt_on(verdict, invalid, found=found),
        p_value=None if good is None else chance(score, good),
        good_parts=None if good is None else good.count,
        pose=None if found is None else found.pose,
        regions=tuple(region.shift(*view.corner_xy) for region in regions),
    )
