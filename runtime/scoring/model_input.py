"""Convert captured frames to the model's input, and predictions back to the frame.

frame --InputMaker.view--> View --into--> a slot of the model's input
prediction --InputMaker.mask_ignored--> map and score of the cells that count
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import RuntimeFailure, UsageError
from edgeseg.base.messages import Setting
from edgeseg.decision.explain import with_explanation
from edgeseg.decision.prediction import Prediction
from edgeseg.decision.several import PartLooks
from edgeseg.modelfile.metadata import ModelMetadata
from edgeseg.vision.appearance import Appearance, appearance_of
from edgeseg.vision.geometry import PLAIN, Found, Geometry, Pose, Roi, View
from edgeseg.vision.ignored import Hidden, MapRule, hidden_of
from edgeseg.vision.images import resize_image
from edgeseg.vision.tiles import Tiling


class InputMaker:
    """Makes inputs of one model as its fit did."""

    def __init__(self, metadata: ModelMetadata, *, roi: Roi | None = None) -> None:
        self._metadata = metadata
        self.geometry = _where(metadata, roi)
        self._size_hw = metadata.size_hw if metadata.tiling is None else metadata.tiling.frame_hw
        if metadata.ignored_here and not self._can_count:
            raise RuntimeFailure(
                f"model {metadata.name}: regions are ignored since its export, and the file does "
                "not give the grid that this needs; export it again, with its grid"
            )

    @property
    def _can_count(self) -> bool:
        meta = self._metadata
        return "grid" in meta.outputs and meta.tiles is None

    def view(self, frame_hw: tuple[int, int], pose: Pose | None = None) -> View:
        """Return the view of a frame of this size."""
        return self.geometry.view(frame_hw, self._size_hw, pose)

    def find_part(self, image_hwc: NDArray[np.uint8]) -> Found | None:
        """Find the part; None for a model that does not follow its parts."""
        return self.geometry.find(image_hwc)

    def find_parts(self, image_hwc: NDArray[np.uint8]) -> PartLooks | None:
        """Find all parts; None for a model that judges one part in a picture."""
        return PartLooks.of(image_hwc, self.geometry, self._size_hw)

    def into(
        self, image_hwc: NDArray[np.uint8], slot_hwc: NDArray[np.uint8], *, view: View, swap: bool
    ) -> None:
        """Fill a slot of the model's input; `swap` turns BGR to RGB."""
        place(view.picture(image_hwc), slot_hwc, swap=swap)
        if self._hidden is not None:
            self._hidden.paint(slot_hwc)

    def mask_ignored(self, prediction: Prediction, view: View) -> Prediction:
        """Recompute map and score without cells that are ignored or outside the picture.

        Cells that were ignored at the export are masked inside the graph.
        """
        inside_hw = view.inside(self._metadata.grid_hw)
        if inside_hw is None and not self._metadata.ignored_here:
            return prediction
        rule, grid_hw = self._rule, prediction.grid_hw
        if grid_hw is None:
            raise RuntimeFailure(
                f"model {self._metadata.name}: a part reaches beyond the picture, and the file "
                "does not give the grid that this needs; export it again, with its grid"
            )
        kept_hw = np.ones(rule.grid_hw, np.bool_) if inside_hw is None else inside_hw
        if self._hidden is not None:
            kept_hw = kept_hw & self._hidden.kept_cells(rule.grid_hw)
        own_hw = prediction.map_grid_hw
        map_hw, score = rule.judge(grid_hw, kept_hw, shown_hw=own_hw)
        return Prediction(
            map_hw=map_hw,
            score=score,
            grid_hw=np.where(kept_hw, grid_hw, 0),
            map_grid_hw=None if own_hw is None else np.where(kept_hw, own_hw, 0),
            variant=prediction.variant,
            apart_pk=prediction.apart_pk,
        )

    def explain(self, prediction: Prediction, input_hwc: NDArray[np.uint8]) -> Prediction:
        """Return a prediction that describes its regions, as far as the model can."""
        meta = self._metadata
        return with_explanation(
            prediction, input_hwc, grid_hw=meta.grid_hw, kinds=meta.kinds, reasons=meta.reasons
        )

    def count_parts(
        self, predictions: Sequence[Prediction], inputs_nhwc: NDArray[np.uint8], looks: PartLooks
    ) -> list[Prediction]:
        """Return the predictions of several parts, of cells that count, with their appearance."""
        return [
            replace(
                self.explain(self.mask_ignored(prediction, view), input_hwc),
                appearance=appearance_of(input_hwc),
            )
            for prediction, view, input_hwc in zip(
                predictions, looks.views, inputs_nhwc, strict=True
            )
        ]

    @cached_property
    def _hidden(self) -> Hidden | None:
        return hidden_of(self.geometry, self._size_hw)

    @cached_property
    def _rule(self) -> MapRule:
        meta = self._metadata
        return MapRule(
            size_hw=meta.size_hw, grid_hw=meta.grid_hw, sigma=meta.rule.sigma, top=meta.rule.top
        )


def _where(metadata: ModelMetadata, roi: Roi | None) -> Geometry:
    """Return the model's own geometry; refuse a region that contradicts it."""
    if roi is None or metadata.looks.roi == roi:
        return metadata.looks
    if metadata.looks != PLAIN:
        raise UsageError(
            Setting("roi", roi),
            f": model {metadata.name} was fitted on {metadata.looks.words} of the camera's "
            "picture, and always looks there; leave it out",
        )
    return Geometry(roi=roi)


def fit_into(image_hwc: NDArray[np.uint8], out_hwc: NDArray[np.uint8], *, swap: bool) -> None:
    """Resize into a preallocated array, as for the fit; `swap` turns BGR to RGB."""
    height, width = out_hwc.shape[:2]
    place(resize_image(image_hwc, (height, width)), out_hwc, swap=swap)


def place(input_hwc: NDArray[np.uint8], out_hwc: NDArray[np.uint8], *, swap: bool) -> None:
    """Copy an input into its slot; channels are swapped here, where there are fewest pixels."""
    if swap:
        cv2.cvtColor(input_hwc, cv2.COLOR_BGR2RGB, dst=out_hwc)
    else:
        out_hwc[:] = input_hwc


def cut(image_hwc: NDArray[np.uint8], tiling: Tiling) -> list[NDArray[np.uint8]]:
    """Resize a frame to the size that tiles are cut from, and cut it."""
    return tiling.cut(resize_image(image_hwc, tiling.frame_hw))


def look_over(image_hwc: NDArray[np.uint8], tiling: Tiling, *, swap: bool) -> Appearance:
    """Measure the appearance of the frame that tiles are cut from; `swap` turns BGR to RGB."""
    whole_hwc = resize_image(image_hwc, tiling.frame_hw)
    if swap:
        whole_hwc = np.asarray(cv2.cvtColor(whole_hwc, cv2.COLOR_BGR2RGB), np.uint8)
    return appearance_of(np.ascontiguousarray(whole_hwc))
