"""Regions that are ignored where a graph runs: what is stored beside it, and what follows from it.

The grids of the good images stay with the fit. What their floors do without these cells is told by
the typical good image, of which a graph carries the distance of every cell.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from edgeseg.base.errors import UsageError
from edgeseg.decision.foreign import map_floor
from edgeseg.modelfile.metadata import ModelMetadata, ScoreRule
from edgeseg.vision.geometry import Polygon
from edgeseg.vision.ignored import MapRule, hidden_of


def ignoring_here(
    metadata: ModelMetadata,
    regions: Sequence[Polygon],
    *,
    rule: ScoreRule,
    camera_hw: tuple[int, int],
) -> ModelMetadata:
    """What a graph says of itself once these regions are ignored beside those of its export.

    They replace what was ignored here before. The score's threshold stays; the limit of the map's
    floor moves with the floor of the typical good image, or parts without a plain background that
    is ignored would look foreign.
    """
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
    """The floor of a map whose cells are at the distances of good images."""
    shape = MapRule(
        size_hw=metadata.size_hw, grid_hw=metadata.grid_hw, sigma=rule.sigma, top=rule.top
    )
    hidden = hidden_of(metadata.looks, metadata.size_hw)
    kept_hw = (
        np.ones(shape.grid_hw, np.bool_) if hidden is None else hidden.kept_cells(shape.grid_hw)
    )
    return map_floor(shape.map_of(np.sqrt(metadata.drift.mean_hw), kept_hw))
