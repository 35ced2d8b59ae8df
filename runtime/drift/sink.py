"""Watch drift as a sink: watches of each source, an event per change, a picture of the cells."""

from collections.abc import Callable
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import RuntimeFailure
from edgeseg.modelfile.metadata import ModelMetadata
from edgeseg.runtime.drift.source_watches import SourceWatches
from edgeseg.runtime.drift.watch import WINDOW, DriftState, DriftWatch
from edgeseg.runtime.events.records import (
    SCHEMA,
    FrameResult,
    LoggedEvent,
    ModelChange,
    SourceEvent,
)
from edgeseg.vision.ignored import hidden_of

_MOST_SIDE = 480  # pixels of the picture
_RATIO_FULL = 3.0  # the strongest colour of the picture; 1 is the baseline and has none


@dataclass(frozen=True, kw_only=True)
class DriftChange(LoggedEvent):
    """An event: a drift warning has begun or ended."""

    result: FrameResult
    state: DriftState

    @property
    def message(self) -> str:
        """The change, and what to check."""
        return "; ".join(filter(None, (self.state.message, self.state.advice)))

    def facts(self) -> dict[str, object]:
        """Return its line of the event log."""
        result, state = self.result, self.state
        return {
            "schema": SCHEMA,
            "event": "drift_warning" if state.level == "warn" else "drift_over",
            "source": result.source,
            "source_index": result.source_index,
            "frame": result.frame_index,
            "wall_s": round(result.wall_s, 6),
            "monotonic_s": round(result.monotonic_s, 6),
            "kind": state.kind,
            "ratio": round(state.ratio, 4),
            "median_ratio": round(state.median_ratio, 4),
            "moved_share": round(state.moved_share, 4),
            "message": self.message,
        }


class DriftSink:
    """A sink that watches every source for a change of light, lens or camera.

    Publishes a DriftChange from the scoring thread when a warning begins and when it ends.
    """

    name = "drift"

    def __init__(
        self,
        metadata: ModelMetadata,
        *,
        window: int = WINDOW,
        publish: Callable[["DriftChange"], None] = lambda change: None,
    ) -> None:
        self._baseline = metadata.drift
        self._counted_hw, self._places = cells_that_count(metadata), metadata.looks.places
        DriftWatch(self._baseline, window=window)  # refuse a bad window now, not at the first frame
        self._window = window
        self._publish = publish
        self._watches: dict[int, SourceWatches] = {}
        self._watchable = True
        self._away: set[int] = set()  # sources that are lost
        self._of_models: dict[str, dict[int, SourceWatches]] = {}
        self.states: dict[int, DriftState] = {}  # by source index; any thread may read

    def change_model(self, change: ModelChange) -> None:
        """Watch by another model's baseline; what was learned under its key earlier is kept."""
        metadata = change.metadata
        self._baseline, self._counted_hw = metadata.drift, cells_that_count(metadata)
        self._places = metadata.looks.places
        self._watches = self._of_models.setdefault(change.key, {})
        sources, self.states = list(self.states), {}
        try:
            DriftWatch(self._baseline, window=self._window)
            self._watchable = True
        except RuntimeFailure:  # a baseline that nothing can be compared with
            self._watchable = False
            return
        for index in sources:
            self._show(index)

    def on_frame(self, result: FrameResult) -> None:
        """Take one scored frame; ignore one without a grid, as tiles give."""
        grid_hw = result.prediction.shown_hw
        if grid_hw is None or not self._watchable:
            return
        index, watches = result.source_index, self._watch(result.source_index)
        before = watches.state.level
        state = watches.update(
            grid_hw,
            variant=result.prediction.variant,
            anomalous=result.verdict != "good",
            frame_hwc=result.frame_hwc,
            pose=result.pose,
        )
        self._show(index)
        if "warn" in (state.level, before) and state.level != before:
            self._publish(DriftChange(result=result, state=state))

    def on_source(self, event: SourceEvent) -> None:
        """Note that a camera is lost or back. Nothing is reset: it is the same camera."""
        if event.kind == "source_lost":
            self._away.add(event.source_index)
        elif event.kind in ("source_open", "source_back"):
            self._away.discard(event.source_index)
        if self._watchable:
            self._show(event.source_index)

    def _watch(self, index: int) -> SourceWatches:
        watches = self._watches.get(index)
        if watches is None:
            baseline, counted_hw, places = self._baseline, self._counted_hw, self._places
            window = self._window
            watches = self._watches[index] = SourceWatches(
                lambda: DriftWatch(baseline, window=window, counted_hw=counted_hw, places=places),
                window=window,
            )
        return watches

    def _show(self, index: int) -> None:
        state = self._watch(index).state
        self.states[index] = state.without_camera() if index in self._away else state

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


def cells_that_count(metadata: ModelMetadata) -> NDArray[np.bool_] | None:
    """Return the cells (h, w) that are not ignored; ignored cells have no distance."""
    if metadata.tiles is not None:
        return None
    hidden = hidden_of(metadata.looks, metadata.size_hw)
    return None if hidden is None else hidden.kept_cells(metadata.grid_hw)


def drift_picture(frame_hwc: NDArray[np.uint8], state: DriftState) -> NDArray[np.uint8]:
    """Draw the frame in grey, with the cells in colour whose distances have stayed high."""
    height, width = frame_hwc.shape[:2]
    factor = min(1.0, _MOST_SIDE / max(height, width))
    size_wh = (max(1, round(width * factor)), max(1, round(height * factor)))
    small = cv2.resize(frame_hwc, size_wh, interpolation=cv2.INTER_AREA)
    grey = cv2.cvtColor(cv2.cvtColor(small, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB)
    risen_hw = np.clip((state.ratio_hw - 1.0) / (_RATIO_FULL - 1.0), 0.0, 1.0)
    # Nearest: cells are what was measured, and their edges should show.
    risen = cv2.resize(risen_hw, size_wh, interpolation=cv2.INTER_NEAREST)[..., None]
    alpha = 0.75 * np.sqrt(risen)
    colour = np.array([255.0, 170.0, 0.0]) + risen * np.array([-40.0, -140.0, 140.0])
    picture = grey * (1.0 - alpha) * 0.85 + colour * alpha
    return np.asarray(np.clip(picture, 0, 255), dtype=np.uint8)
