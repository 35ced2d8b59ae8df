"""Has the light, the focus or the camera moved since the model was fitted?

A defect is local and comes and goes with its part. A moved lamp, lens or camera raises the
distances of many grid cells and stays. So every cell follows the median over time of
d^2 / (mean d^2 on good images): what happens in fewer than half of the views leaves no trace.
A part that stands still is one view, however many frames show it: a line that stops at a defect
must not look like drift.
The warning asks how many cells have risen, and how far the median cell has. Less light or less
focus can also lower distances and hide defects, so brightness and sharpness are followed too.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.errors import RuntimeFailure, UsageError
from edgeseg.metadata import ModelMetadata
from edgeseg.runtime.looks import LookWatch, look_at

DriftLevel = Literal["ok", "warn"]
DriftKind = Literal["none", "light", "focus", "position", "unknown"]

_EVERY = 8  # frames between evaluations and looks: the tracked medians cannot move much within
_CALM = 0.8  # a warning ends when all figures are below this part of their limits
_BASE_FLOOR = 0.05  # of the frame-wide mean: saturated background has almost no distance at all
_SPREAD_FLOOR = 0.1  # the same for its standard deviation, in units of the baseline
_SLEW = 4.0  # spreads that a tracked median can travel within one window
# A frame is a new view when its cells differ from the last view's by this much, on average, in
# spreads of log(ratio + 1/4). Two parts of MVTec AD bottle or cable differ by .6 to 1.0, two
# exposures of one part, good or not, by .1 to .4 (noise of 1 to 3 grey levels).
_NEW_VIEW, _LOG_FLOOR = 0.5, np.float32(0.25)
_STILL = 0.02  # what a frame of the same view counts: in a scene at rest drift shows after minutes

_ADVICE = {
    "light": "check lamps, exposure and stray light",
    "focus": "check the lens: focus, dirt, condensation",
    "position": "check the mounting of the camera and the position of the parts",
    "unknown": "check light, focus and position against the images the model was fitted on",
}


@dataclass(frozen=True, kw_only=True)
class DriftState:
    """What the drift watch knows after some frames."""

    level: DriftLevel
    kind: DriftKind
    frames: int
    ratio: float  # frame-wide mean of d^2 over its mean on good images, smoothed over the window
    median_ratio: float  # the median cell's typical d^2 over its baseline
    median_limit: float
    moved_share: float  # part of the cells whose typical d^2 is above their own limit
    share_limit: float
    anomalous_share: float  # part of the window's frames that were not good
    ratio_hw: NDArray[np.float32]  # (h, w): each cell's typical d^2 over its baseline
    brightness: float | None  # mean grey level now over that of the first good window
    sharpness: float | None
    message: str
    advice: str  # what to check; empty when all is well


@dataclass(frozen=True, kw_only=True)
class DriftBaseline:
    """Statistics of d^2 on good images that were not used for their own fit."""

    mean_hw: NDArray[np.float32]
    std_hw: NDArray[np.float32]
    frame_mean: float  # of the mean of d^2 over a frame
    frame_std: float
    source: str  # the model's name, for errors

    def __post_init__(self) -> None:
        for name, value_hw in (("d2_mean", self.mean_hw), ("d2_std", self.std_hw)):
            usable = value_hw.ndim == 2 and np.isfinite(value_hw).all() and (value_hw >= 0).all()
            if not usable or value_hw.shape != self.mean_hw.shape:
                raise RuntimeFailure(
                    f"{self.source}: drift baseline {name} of shape {value_hw.shape}, expected a "
                    "grid of finite values from 0; export the model again"
                )
        if not (self.frame_mean > 0 and self.frame_std > 0):
            raise RuntimeFailure(
                f"{self.source}: drift baseline with frame_mean {self.frame_mean} and frame_std "
                f"{self.frame_std}, expected both above 0; fit on more good images"
            )

    @classmethod
    def of(cls, metadata: ModelMetadata) -> "DriftBaseline":
        """What an exported model carries."""
        drift = metadata.drift
        missing = {"d2_mean", "d2_std", "frame_mean", "frame_std"} - set(drift)
        if missing:
            raise RuntimeFailure(
                f"{metadata.name}: drift baseline without {sorted(missing)}; export the model again"
            )
        return cls(
            mean_hw=np.asarray(drift["d2_mean"], np.float32),
            std_hw=np.asarray(drift["d2_std"], np.float32),
            frame_mean=float(drift["frame_mean"]),
            frame_std=float(drift["frame_std"]),
            source=f"model {metadata.name}",
        )


class DriftWatch:
    """Follows one camera; constant memory, some ten microseconds per frame."""

    def __init__(
        self,
        baseline: DriftBaseline,
        *,
        window: int = 200,
        median_sigmas: float = 3.0,
        share: float = 0.3,
        cell_sigmas: float = 1.5,
    ) -> None:
        if window < 2 * _EVERY:
            raise UsageError(f"drift window: got {window} frames, expected {2 * _EVERY} or more")
        base_hw = np.maximum(baseline.mean_hw, np.float32(_BASE_FLOOR * baseline.frame_mean))
        spread_hw = np.maximum(baseline.std_hw / base_hw, np.float32(_SPREAD_FLOOR))
        self._base_hw = base_hw
        self._step_hw = (_SLEW / window) * spread_hw
        self._still_step_hw = _STILL * self._step_hw
        self._view_hw = np.full_like(base_hw, -np.inf)  # of the last view that was new
        self._new_view = _NEW_VIEW * float(spread_hw.sum() / (1.0 + _LOG_FLOOR))
        self._limit_hw = 1.0 + cell_sigmas * spread_hw
        self._typical_hw = np.ones_like(base_hw)  # no evidence yet: as on good images
        self._frame_mean = baseline.frame_mean
        # Frames of one part that stays in view are all alike, so a window of them can be as far
        # off as a single good image: the limit is in deviations of single images.
        self._median_limit = 1.0 + median_sigmas * baseline.frame_std / baseline.frame_mean
        self._share_limit = share
        self._window = window
        self._frames = 0
        self._mean = 0.0  # of d^2 over the frame, smoothed
        self._anomalous = 0.0
        self._looks = LookWatch(reference=window // _EVERY, recent=max(2, window // (4 * _EVERY)))
        self._state = self._evaluate("ok")

    @property
    def state(self) -> DriftState:
        """The last evaluation."""
        return self._state

    def update(
        self,
        grid_hw: NDArray[np.float32],
        *,
        anomalous: bool,
        frame_hwc: NDArray[np.uint8] | None = None,
    ) -> DriftState:
        """Take one frame's distances d; the frame itself helps to guess what has moved."""
        if grid_hw.shape != self._base_hw.shape:
            raise RuntimeFailure(
                f"drift: a grid of {grid_hw.shape}, expected {self._base_hw.shape} as in the "
                "model's metadata; export the model again"
            )
        mean = (
            float(np.vdot(grid_hw, grid_hw)) / grid_hw.size
        )  # of d^2; ten times as fast as mean()
        if not math.isfinite(mean):
            return self._state  # an invalid frame says nothing about the camera
        self._frames += 1
        # A plain mean until the window is full, then an exponential one.
        alpha = 1.0 / min(self._frames, self._window)
        self._mean += alpha * (mean - self._mean)
        self._anomalous += alpha * (float(anomalous) - self._anomalous)
        self._track((grid_hw * grid_hw / self._base_hw).astype(np.float32, copy=False))
        if self._frames % _EVERY == 0:
            if frame_hwc is not None:
                good = self._state.level == "ok" and not anomalous
                self._looks.update(look_at(frame_hwc), good=good)
            self._state = self._evaluate(self._state.level)
        return self._state

    def _track(self, ratio_hw: NDArray[np.float32]) -> None:
        """Stochastic median: one step towards each sample, whatever its size."""
        log_hw = np.log(ratio_hw + _LOG_FLOOR)  # so that the noise of a strong defect is no news
        if cv2.norm(log_hw, self._view_hw, cv2.NORM_L1) >= self._new_view:
            self._view_hw, step_hw = log_hw, self._step_hw
        else:
            step_hw = self._still_step_hw
        self._typical_hw += step_hw * np.sign(ratio_hw - self._typical_hw)

    def _evaluate(self, level: DriftLevel) -> DriftState:
        middle = self._typical_hw.size // 2  # np.median takes five times as long
        median = float(np.partition(self._typical_hw, middle, axis=None)[middle])
        share = np.count_nonzero(self._typical_hw > self._limit_hw) / self._typical_hw.size
        # Only the rise above the baseline is drift, so hysteresis acts on that.
        risen = max((median - 1.0) / (self._median_limit - 1.0), share / self._share_limit)
        limit = _CALM if level == "warn" else 1.0
        warn = max(risen, self._looks.pressure()) >= limit
        kind: Any = self._looks.kind() if warn else "none"
        brightness, sharpness = self._looks.change() if self._looks.ready else (None, None)
        return DriftState(
            level="warn" if warn else "ok",
            kind=kind,
            frames=self._frames,
            ratio=self._mean / self._frame_mean if self._frames else 1.0,
            median_ratio=median,
            median_limit=self._median_limit,
            moved_share=share,
            share_limit=self._share_limit,
            anomalous_share=self._anomalous,
            ratio_hw=self._typical_hw.copy(),
            brightness=brightness,
            sharpness=sharpness,
            message=_message(
                kind,
                share=share if risen >= limit else None,
                median=median,
                looks=(brightness, sharpness),
            ),
            advice=_ADVICE.get(kind, ""),
        )


def _message(
    kind: DriftKind, *, share: float | None, median: float, looks: tuple[float | None, float | None]
) -> str:
    """One sentence; a share of None means that distances have not risen."""
    if kind == "none":
        return "as on the good images"
    what = "something" if kind == "unknown" else kind
    brightness, sharpness = looks
    facts = []
    if kind == "light" and brightness is not None:
        facts.append(f"brightness x{brightness:.2f}")
    if kind == "focus" and sharpness is not None:
        facts.append(f"sharpness x{sharpness:.2f}")
    if share is None:
        facts.append("distances have not risen, so defects may be missed")
    else:
        facts.append(f"{share:.0%} of the cells have risen and stayed high")
        if median > 1.0:
            facts.append(f"d^2 of the median cell is x{median:.2f} of its good level")
    return f"{what} has moved: {', '.join(facts)}"
