"""The scores of maps that are all there at once."""

from collections.abc import Iterable
from typing import Any

from numpy.typing import NDArray

from edgeseg.decision.pro import MapEvaluator, MapScores


def map_scores(maps: Iterable[NDArray[Any]], masks: Iterable[NDArray[Any] | None]) -> MapScores:
    """PRO and pixel AUROC; a mask is None where nobody has marked a defect."""
    evaluator = MapEvaluator()
    for map_hw, mask_hw in zip(maps, masks, strict=True):
        evaluator.add(map_hw, mask_hw)
    return evaluator.result()
