"""The drift of one camera: a watch for each variant of the product that it shows.

Variants look unlike each other: a change from one to the next is no change of light, focus or
place. What is shown is the drift of the newest variant, unless an earlier one warned lately: then
the warning stays, so that parts that take turns do not end and begin it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgeseg.runtime.drift.watch import DriftState, DriftWatch
from edgeseg.vision.pose import Pose


@dataclass
class _Watched:
    watch: DriftWatch
    last: int = 0  # number of its newest frame, of all of the camera


class SourceWatches:
    """The watches of one camera; a model of one product has one."""

    def __init__(self, make: Callable[[], DriftWatch], *, window: int) -> None:
        self._make, self._window = make, window
        self._frames = 0
        self._none = make().state  # before the first frame
        self._watched: dict[str | None, _Watched] = {}

    @property
    def state(self) -> DriftState:
        """The state of the newest variant, or of one that has warned within the window."""
        if not self._watched:
            return self._none
        by_age = sorted(self._watched.values(), key=lambda each: -each.last)
        oldest = self._frames - self._window
        warned = (
            each for each in by_age if each.watch.state.level == "warn" and each.last > oldest
        )
        return next(warned, by_age[0]).watch.state

    def update(
        self,
        grid_hw: NDArray[np.float32],
        *,
        variant: str | None,
        anomalous: bool,
        frame_hwc: NDArray[np.uint8] | None = None,
        pose: Pose | None = None,
    ) -> DriftState:
        """Take one frame of a variant."""
        self._frames += 1
        watched = self._watched.get(variant)
        if watched is None:
            watched = self._watched[variant] = _Watched(self._make())
        watched.last = self._frames
        watched.watch.update(grid_hw, anomalous=anomalous, frame_hwc=frame_hwc, pose=pose)
        return self.state
