"""Judge a picture of several parts: each part by the one model, and one verdict for all.

    parts, their predictions --judge_parts--> a verdict and the regions of each part
                                          --> those of the picture, and one map over it

A picture with a defective part is a defect; else one with a part that cannot be judged, or with
another number of parts than expected, is invalid; else it is good. Its score is the highest.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.decision.doubt import Doubt, DoubtKind, doubt_on
from edgeseg.decision.explain import without_explanation
from edgeseg.decision.judgement import (
    Areas,
    JudgedFrame,
    JudgedPart,
    JudgedPrediction,
    Verdict,
    chance,
    invalid_kind,
    judge_areas,
    mark_pixels,
    verdict_on,
)
from edgeseg.decision.prediction import MAX_REGIONS, Prediction, Region
from edgeseg.decision.score_statistics import ScoreStatistics
from edgeseg.decision.thresholds import Thresholds
from edgeseg.vision.blobs import PartFound, PartsFound
from edgeseg.vision.geometry import Geometry, View
from edgeseg.vision.pose import for_opencv

_FALLING: tuple[Verdict, ...] = ("defect", "invalid", "unsure", "good")
_MOST_SIDE = 1024  # pixels of the longer side of a map over the whole picture


@dataclass(frozen=True, kw_only=True)
class PartLooks:
    """The parts of one picture, and how those that can be judged become inputs."""

    seen: PartsFound
    frame_hw: tuple[int, int]
    views: tuple[View, ...]  # of the parts that are judged, in their order

    @classmethod
    def of(
        cls, image_hwc: NDArray[np.uint8], geometry: Geometry, size_hw: tuple[int, int]
    ) -> "PartLooks | None":
        """Find the parts of a picture; None for a model that judges one part in a picture."""
        if geometry.several is None:
            return None
        height, width = image_hwc.shape[:2]
        seen = geometry.several.find_parts(image_hwc)
        views = [geometry.part_view((height, width), size_hw, part) for part in seen.judged]
        return cls(seen=seen, frame_hw=(height, width), views=tuple(views))


@dataclass(frozen=True, kw_only=True)
class JudgedParts(JudgedFrame):
    """The result of a picture with several parts: the highest score, and a map over all of it."""

    marked_hw: NDArray[np.bool_]  # of the map


def judge_parts(
    looks: PartLooks,
    predictions: Sequence[Prediction],
    thresholds: Thresholds,
    *,
    min_area: float = 0.0,
) -> JudgedParts:
    """Judge every part by its prediction, and the picture by its parts."""
    whole = whole_prediction(looks, predictions)
    marked_hw = np.zeros(whole.map_hw.shape, np.bool_)
    parts: list[JudgedPart] = []
    regions: list[Region] = []
    count = 0
    ahead = zip(predictions, looks.views, strict=True)
    for found in looks.seen.parts:
        if found.found.look is None:
            doubt = doubt_on("not_found", None, found=found.found)
            parts.append(_part(found, score=None, verdict="invalid", doubt=doubt))
            continue
        prediction, view = next(ahead)
        verdict, doubt, areas = _judge_part(prediction, view, found, thresholds, min_area)
        parts.append(_part(found, score=prediction.score, verdict=verdict, doubt=doubt))
        regions += areas.regions
        count += areas.count
        _lay(marked_hw, mark_pixels(prediction, areas.verdict, thresholds.pixel), view)
    verdict = _verdict_of(parts, looks.seen)
    if verdict == "invalid":  # where it cannot be judged is what people have to look at
        doubted = [_box_region(part) for part in parts if part.score is None]
        regions, count = [*doubted, *regions], count + len(doubted)
    strongest = tuple(sorted(regions, key=_weakness)[:MAX_REGIONS])
    return JudgedParts(
        prediction=whole,
        areas=Areas(verdict=verdict, regions=strongest, count=count),
        doubt=_doubt_of(parts, looks.seen) if verdict == "invalid" else None,
        parts=tuple(parts),
        marked_hw=marked_hw,
    )


def judge_picture(
    looks: PartLooks,
    predictions: Sequence[Prediction],
    thresholds: Thresholds,
    good: ScoreStatistics | None,
) -> JudgedPrediction:
    """Judge a picture of several parts, as `predict` returns it."""
    judged = judge_parts(looks, predictions, thresholds)
    whole = judged.prediction
    return JudgedPrediction(
        map_hw=whole.map_hw,
        score=whole.score,
        of_parts=tuple(map(without_explanation, whole.of_parts)),
        marked_hw=judged.marked_hw,
        threshold=thresholds.score,
        pixel_threshold=thresholds.pixel,
        verdict=judged.areas.verdict,
        doubt=judged.doubt,
        p_value=None if good is None else chance(whole.score, good),
        good_parts=None if good is None else good.count,
        regions=judged.areas.regions,
        parts=judged.parts,
    )


def whole_prediction(looks: PartLooks, predictions: Sequence[Prediction]) -> Prediction:
    """Return the highest score of the parts, and their maps laid over the picture.

    The map is 0 beside the parts; without a part that is judged the score is NaN.
    """
    map_hw = np.zeros(_map_size(looks), np.float32)
    for prediction, view in zip(predictions, looks.views, strict=True):
        _lay(map_hw, prediction.map_hw, view)
    scores = [prediction.score for prediction in predictions]
    unknown = not scores or not all(map(math.isfinite, scores))
    return Prediction(
        map_hw=map_hw,
        score=math.nan if unknown else max(scores),
        of_parts=tuple(predictions),
    )


def _judge_part(
    prediction: Prediction, view: View, part: PartFound, thresholds: Thresholds, min_area: float
) -> tuple[Verdict, Doubt | None, Areas]:
    """Judge a part as a picture of it alone; what is no whole part is invalid."""
    score, map_hw, look = prediction.score, prediction.map_hw, prediction.appearance
    verdict = verdict_on(score, thresholds, map_hw=map_hw, found=part.found, appearance=look)
    invalid = invalid_kind(score, thresholds, map_hw=map_hw, appearance=look)
    areas = judge_areas(
        prediction, verdict, thresholds.pixel, view=view, min_area=min_area, found=part.found
    )
    doubt = doubt_on(areas.verdict, invalid, found=part.found)
    return "invalid" if areas.verdict == "not_found" else areas.verdict, doubt, areas


def _part(
    part: PartFound, *, score: float | None, verdict: Verdict, doubt: Doubt | None
) -> JudgedPart:
    pose = part.found.pose
    return JudgedPart(
        box_xywh=part.box_xywh,
        degrees=0.0 if pose is None else pose.degrees,
        score=score,
        verdict=verdict,
        doubt=doubt,
    )


def _verdict_of(parts: Sequence[JudgedPart], seen: PartsFound) -> Verdict:
    given = {part.verdict for part in parts}
    if seen.lacking or not parts:
        given.add("invalid")
    return next(verdict for verdict in _FALLING if verdict in given)


def _doubt_of(parts: Sequence[JudgedPart], seen: PartsFound) -> Doubt:
    doubted = [(number, part) for number, part in enumerate(parts, 1) if part.doubt is not None]
    words = [seen.lacking] if seen.lacking else []
    for number, part in doubted[:1]:
        x, y, _, _ = part.box_xywh
        why = "" if part.doubt is None else part.doubt.detail or str(part.doubt)
        words.append(f"part {number} of {len(parts)} at {x},{y}: {why}")
    if len(doubted) > 1:
        words.append(f"and {len(doubted) - 1} more")
    return Doubt(kind=DoubtKind.PARTS, detail="; ".join(words))


def _box_region(part: JudgedPart) -> Region:
    w, h = part.box_xywh[2:]
    return Region(box_xywh=part.box_xywh, area_px=w * h, peak=math.nan)


def _weakness(region: Region) -> float:
    return -math.inf if math.isnan(region.peak) else -region.peak


def _map_size(looks: PartLooks) -> tuple[int, int]:
    """Return the size of a map over the picture: as fine as that of its parts, within limits."""
    height, width = looks.frame_hw
    finest = [view.size_hw[0] / view.roi.h for view in looks.views if view.roi is not None]
    finer = min([1.0, _MOST_SIDE / max(height, width), *finest])
    return max(1, round(height * finer)), max(1, round(width * finer))


def _lay(whole_hw: NDArray[Any], values_hw: NDArray[Any], view: View) -> None:
    """Lay values of an input over those of the picture, in place; the higher one stays."""
    height, width = whole_hw.shape
    (rows, columns), scale = view.size_hw, np.diag([width, height] / np.array(view.frame_hw[::-1]))
    matrix = scale @ view.to_frame
    corners = np.array([[0, 0, 1], [columns, 0, 1], [0, rows, 1], [columns, rows, 1]]) @ matrix.T
    left, top = np.clip(np.floor(corners.min(axis=0)), 0, (width, height)).astype(int).tolist()
    right, bottom = np.clip(np.ceil(corners.max(axis=0)), 0, (width, height)).astype(int).tolist()
    if left >= right or top >= bottom:
        return
    matrix[:, 2] -= (left, top)
    laid = cv2.warpAffine(
        values_hw.astype(np.float32),
        for_opencv(matrix),
        (right - left, bottom - top),
        flags=cv2.INTER_LINEAR,
    )
    window = whole_hw[top:bottom, left:right]
    np.maximum(window, laid if window.dtype != np.bool_ else laid >= 0.5, out=window)
