"""Explain found regions: the kind that each is like, and why it is odd.

    prediction, input --with_explanation--> a prediction that can describe its regions
    region of the map --describe--> KindGuess and Why

Only regions are looked at, so that a good frame costs nothing. What a graph or a model does not
give is not said: then there is no kind, no layer or no change.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.plain import JsonObject
from edgeseg.decision.kinds import KindGuess, KnownKinds
from edgeseg.decision.prediction import Prediction
from edgeseg.decision.why import Reasons, Why

CORE = 0.6  # of a region's highest value: around it the map is blurred, and the part is good


@dataclass(frozen=True, kw_only=True)
class Explainer:
    """What describes the regions of one input."""

    map_hw: NDArray[np.float32]
    apart_pk: NDArray[np.float32] | None  # cells' embeddings minus the mean of their place
    grid_hw: tuple[int, int]
    input_hwc: NDArray[np.uint8]
    kinds: KnownKinds | None
    reasons: Reasons | None

    def __call__(self, region_hw: NDArray[np.bool_]) -> tuple[KindGuess | None, Why | None]:
        """Describe a region of the map."""
        core_hw, cells = core_of(self.map_hw, region_hw), self.cells(region_hw)
        kind = None
        if self.kinds is not None and cells is not None:
            kind = self.kinds.nearest(cells.mean(axis=0))
        return kind, self._why(cells, core_hw)

    def cells(self, region_hw: NDArray[np.bool_]) -> NDArray[np.float32] | None:
        """Return z (c, k) of a region's cells; None where the graph does not give it."""
        if self.apart_pk is None:
            return None
        core_hw = core_of(self.map_hw, region_hw)
        return self.apart_pk[cells_of(self.map_hw, core_hw, self.grid_hw)]

    def _why(self, cells: NDArray[np.float32] | None, core_hw: NDArray[np.bool_]) -> Why | None:
        reasons = self.reasons
        if reasons is None:
            return None
        layer, share = (None, None) if cells is None else reasons.layer(cells)
        change = None if reasons.look is None else reasons.look.change(self.input_hwc, core_hw)
        return Why(layer=layer, share=share, change=change)


def core_of(map_hw: NDArray[np.float32], region_hw: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the pixels of a region around its highest value."""
    peak = float(np.max(map_hw, where=region_hw, initial=-np.inf))
    core: NDArray[np.bool_] = region_hw & (map_hw >= CORE * peak)
    return core if core.any() else region_hw  # of values that are no numbers


def cells_of(
    map_hw: NDArray[np.float32], core_hw: NDArray[np.bool_], grid_hw: tuple[int, int]
) -> NDArray[np.bool_]:
    """Return the cells (P,) of a core: those it covers by half, or else the one of its peak."""
    (height, width), (rows, columns) = map_hw.shape, grid_hw
    down, right = height // rows, width // columns
    blocks = core_hw[: rows * down, : columns * right].reshape(rows, down, columns, right)
    covered: NDArray[np.bool_] = blocks.mean(axis=(1, 3)) >= 0.5
    if not covered.any():
        peak = int(np.where(core_hw, np.nan_to_num(map_hw, nan=np.inf), -np.inf).argmax())
        y, x = divmod(peak, width)
        covered[min(y // down, rows - 1), min(x // right, columns - 1)] = True
    return covered.ravel()


def with_explanation(
    prediction: Prediction,
    input_hwc: NDArray[np.uint8],
    *,
    grid_hw: tuple[int, int],
    kinds: KnownKinds | None,
    reasons: Reasons | None,
) -> Prediction:
    """Return a prediction that describes its regions, as far as the model can."""
    if kinds is None and reasons is None:
        return prediction
    explainer = Explainer(
        map_hw=prediction.map_hw,
        apart_pk=prediction.apart_pk,
        grid_hw=grid_hw,
        input_hwc=input_hwc,
        kinds=kinds,
        reasons=reasons,
    )
    return replace(prediction, describe=explainer)


def without_explanation(prediction: Prediction) -> Prediction:
    """Return a prediction to keep: without what described its regions, which is large."""
    parts = tuple(map(without_explanation, prediction.of_parts))
    return replace(prediction, apart_pk=None, describe=None, of_parts=parts)


def explained_facts(reasons: Reasons | None, kinds: KnownKinds | None) -> JsonObject:
    """Return what people are shown of reasons and kinds, without their packed numbers."""
    facts: JsonObject = {}
    if reasons is not None:
        facts["reasons"] = {"layers": list(reasons.layers), "usual": list(reasons.usual)}
    if kinds is not None:
        facts["kinds"] = kinds.facts()
    return facts
