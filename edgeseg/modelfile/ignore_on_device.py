"""Regions that are ignored where a graph runs: stored beside it, with their effect on its limits.

The grids of the good images stay with the fit. How ignored cells change the floor of a map is
estimated by the typical good image: a graph carries the distance of each of its cells.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from edgeseg.base.errors import UsageError
from edgeseg.decision.foreign import map_floor
from edgeseg.modelfile.metadata import ModelMetadata, ScoreRule
from edgeseg.vision.geometry import Polygon
from edgeseg.vision.ignored import MapRule, hidden_of, refuse_several


def with_regions_ignored(
    metadata: ModelMetadata,
    regions: Sequence[Polygon],
    *,
    rule: ScoreRule,
    camera_hw: tuple[int, int],
) -> ModelMetadata:
    """Return the metadata of a graph that ignores these regions beside those of its export.

    They replace what was ignored on the device before. The score's threshold stays. The limit of
    the map's floor moves with the floor of the typical good image: without a plain background
    parts would look foreign otherwise.
    """
    refuse_several(metadata.looks)
    changed = replace(metadata, ignored_here=tuple(regions), camera_hw=camera_hw)
    hidden = hidden_of(changed.looks, metadata.size_hw)
    if regions and (hidden is None or not hidden.kept_cells(metadata.grid_hw).any()):
        raise UsageError("region: nothing or everything would be ignored; expected a part of it")
    limit = metadata.threshold.foreign
    before, after = (_typical_floor(each, rule) for each in (metadata, changed))
    if limit is None or not before:
        return changed
    return replace(changed, threshold=replace(metadata.threshold, foreign=limit * after / before))


def _typical_floor(metadata: ModelMetadata, rule: ScoreRule) -> float:
    """Return the floor of a map whose cells are at the distances of good images."""
    shape = MapRule(
        size_hw=metadata.size_hw, grid_hw=metadata.grid_hw, sigma=rule.sigma, top=rule.top
    )
    hidden = hidden_of(metadata.looks, metadata.size_hw)
    kept_hw = (
        np.ones(shape.grid_hw, np.bool_) if hidden is None else hidden.kept_cells(shape.grid_hw)
    )
    return map_floor(shape.map_of(np.sqrt(metadata.drift.mean_hw), kept_hw))
