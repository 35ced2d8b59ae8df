"""Watch for a change of the light, the focus or the camera since the fit.

A defect is local and comes and goes with its part. A moved lamp, lens or camera raises the
distances of many grid cells, and stays. So every cell follows the median over time of
d^2 / (mean d^2 on good images): an event in fewer than half of the views leaves no trace.
A part that stands still is one view, however many frames show it: a line that stops at a defect
must not look like drift.
The warning depends on how many cells have risen, and how far the median cell has. A few cells are
enough when they alarm in most views, as dirt on the lens does. Less light or less focus can also
lower distances and hide defects, and a camera that has moved a little may not raise them: so
brightness, sharpness and position of the picture are watched too. Where the model follows its
parts, a moved camera is told from moved parts.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import RuntimeFailure, UsageError
from edgeseg.modelfile.metadata import DriftBaseline
from edgeseg.runtime.drift.appearance import Look, LookWatch, look_at, same_view
from edgeseg.runtime.drift.following import FollowingWatch
from edgeseg.runtime.drift.position import Movement, PositionWatch, picture_of
from edgeseg.vision.places import Places
from edgeseg.vision.pose import Pose

# unseen: fewer frames than the figures look back on, and nothing that warns already
# lost: no camera shows whether anything has changed
DriftLevel = Literal["unseen", "lost", "ok", "warn"]
DriftKind = Literal["none", "light", "focus", "position", "camera", "parts", "spot", "unknown"]
DRIFT_KINDS: tuple[DriftKind, ...] = get_args(DriftKind)

WINDOW = 200  # frames that the smoothed figures look back on
_EVERY = 8  # frames between evaluations and looks: the tracked medians cannot move much within
# Limits: of the median, of the cells that have risen as a share, and of a cell that counts as one.
_MEDIAN_SIGMAS, _MOST_RISEN, _CELL_SIGMAS = 3.0, 0.3, 1.5
_CALM = 0.8  # a warning ends when all figures are below this part of their limits
_BASE_FLOOR = 0.05  # of the frame-wide mean: saturated background has almost no distance at all
_SPREAD_FLOOR = 0.1  # the same for its standard deviation, in units of the baseline
_SLEW = 4.0  # spreads that a tracked median can travel within one window
_STILL = 0.01  # what a frame counts while nothing moves: in a scene at rest drift takes minutes

# A spot: this many cells, this many spreads up, while most frames are anomalous.
_SPOT_CELLS, _SPOT_SPREADS, _SPOT_FRAMES = 2, 3.0, 0.5

_HEADLINES: dict[DriftKind, str] = {
    "none": "as on the good images",
    "light": "the light has changed",
    "focus": "the focus has changed",
    "position": "the camera or the parts have moved",
    "camera": "the camera has moved",
    "parts": "the parts lie elsewhere",
    "spot": "the same spot is anomalous in most views",
    "unknown": "the picture is not as on the good images",
}
LOST = "not known: the camera is lost"
_ADVICE: dict[DriftKind, str] = {
    "none": "",
    "light": "check lamps, exposure and stray light",
    "focus": "check the lens: focus, dirt, condensation",
    "position": "check the mounting of the camera and the position of the parts",
    "camera": "check the mounting of the camera",
    "parts": "check the feeder, stops and fixtures",
    "spot": "look there for dirt on the lens, a fixture in view, or the same defect in every part",
    "unknown": "compare light, focus and position with the images the model was fitted on",
}


@dataclass(frozen=True, kw_only=True)
class DriftState:
    """The result of the drift watch after some frames."""

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
    movement: Movement | None  # of the view since the first good ones; None: not known
    parts: Movement | None = None  # of the parts, where they are followed
    headline: str
    message: str  # the headline and its evidence
    advice: str  # what to check; empty when all is well

    @property
    def known(self) -> bool:
        """Whether enough frames were seen, and the camera is there, to say what has changed."""
        return self.level in ("ok", "warn")

    def without_camera(self) -> "DriftState":
        """Return this state for a lost camera: earlier frames say nothing about now."""
        return replace(self, level="lost", kind="none", headline=LOST, message=LOST, advice="")

    def facts(self) -> dict[str, object]:
        """Return everything but the map, as plain values."""
        values: dict[str, object] = {k: v for k, v in vars(self).items() if k != "ratio_hw"}
        moves = {"movement": self.movement, "parts": self.parts}
        return values | {name: move and dict(vars(move)) for name, move in moves.items()}


class DriftWatch:
    """The drift of one camera; constant memory, some ten microseconds per frame."""

    def __init__(
        self,
        baseline: DriftBaseline,
        *,
        window: int = WINDOW,
        counted_hw: NDArray[np.bool_] | None = None,  # cells that are not ignored; None: all
        places: Places | None = None,  # where good parts lay; None: they are not followed
    ) -> None:
        if window < 2 * _EVERY:
            raise UsageError(f"drift window: got {window} frames, expected {2 * _EVERY} or more")
        if not (baseline.frame_mean > 0 and baseline.frame_std > 0):
            raise RuntimeFailure(
                f"drift baseline with frame_mean {baseline.frame_mean} and frame_std "
                f"{baseline.frame_std}, expected both above 0; fit on more good images"
            )
        base_hw = np.maximum(baseline.mean_hw, np.float32(_BASE_FLOOR * baseline.frame_mean))
        spread_hw = np.maximum(baseline.std_hw / base_hw, np.float32(_SPREAD_FLOOR))
        self._base_hw = base_hw
        self._step_hw = (_SLEW / window) * spread_hw
        self._weight = 1.0  # of a frame
        self._view: Look | None = None  # the last one that was new
        self._limit_hw = 1.0 + _CELL_SIGMAS * spread_hw
        self._spot_hw = 1.0 + _SPOT_SPREADS * spread_hw
        self._typical_hw = np.ones_like(base_hw)  # no evidence yet: as on good images
        self._counted = slice(None) if counted_hw is None else counted_hw.ravel()
        self._frame_mean = baseline.frame_mean
        if counted_hw is not None:  # cells that are ignored since the baseline was taken
            rest = (baseline.mean_hw * counted_hw).sum() / max(baseline.mean_hw.sum(), 1e-12)
            self._frame_mean *= max(float(rest), 1e-6)
        # Frames of one part that stays in view are all alike, so a window of them can be as far
        # off as a single good image: the limit is in deviations of single images.
        self._median_limit = 1.0 + _MEDIAN_SIGMAS * baseline.frame_std / baseline.frame_mean
        self._window = window
        self._frames = 0
        self._mean = 0.0  # of d^2 over the frame, smoothed
        self._anomalous = 0.0
        looks = window // _EVERY
        self._looks = LookWatch(reference=looks, recent=max(2, looks // 4))
        self._position = PositionWatch(reference=looks, recent=looks)
        self._following = (
            None if places is None else FollowingWatch(places, reference=looks, recent=looks)
        )
        self._state = self._evaluate("unseen")

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
        pose: Pose | None = None,  # of a part that was found
    ) -> DriftState:
        """Take one frame's distances d.

        The frame itself shows what has moved, and whether the line stands still.
        """
        if grid_hw.shape != self._base_hw.shape:
            raise RuntimeFailure(
                f"drift: a grid of {grid_hw.shape}, expected {self._base_hw.shape} as in the "
                "model's metadata; export the model again"
            )
        mean = float(np.vdot(grid_hw, grid_hw)) / grid_hw.size  # of d^2, faster than mean()
        if not math.isfinite(mean):
            return self._state  # an invalid frame says nothing about the camera
        self._frames += 1
        # A plain mean until the window is full, then an exponential one.
        alpha = 1.0 / min(self._frames, self._window)
        self._mean += alpha * (mean - self._mean)
        self._anomalous += alpha * (float(anomalous) - self._anomalous)
        # Stochastic median: one step towards each sample, whatever its size.
        above_hw = np.sign(grid_hw * grid_hw / self._base_hw - self._typical_hw)
        self._typical_hw += (self._weight * self._step_hw) * above_hw
        if self._frames % _EVERY == 0:
            if frame_hwc is not None:
                good = self._state.level != "warn" and not anomalous
                self._look(look_at(frame_hwc), good=good)
                self._place(frame_hwc, pose, good=good)
            self._state = self._evaluate(self._state.level)
        return self._state

    def _look(self, look: Look, *, good: bool) -> None:
        """Compare with the last view, and learn or judge how the picture looks."""
        if self._view is None or not same_view(look, self._view):
            self._view, self._weight = look, 1.0
        else:
            self._weight = _STILL
        self._looks.update(look, good=good, weight=self._weight)

    def _place(self, frame_hwc: NDArray[np.uint8], pose: Pose | None, *, good: bool) -> None:
        picture, weight = picture_of(frame_hwc), self._weight
        if self._following is None:
            self._position.update(picture, good=good, weight=weight)
        else:
            height, width = frame_hwc.shape[:2]
            self._following.update(
                picture, pose, frame_hw=(height, width), good=good, weight=weight
            )

    def _kind(self, *, evidence: bool, limit: float) -> DriftKind:
        """Return what has changed, or "none"."""
        place = self._following or self._position
        moved = place.pressure()
        if not evidence and max(self._looks.pressure(), moved) < limit:
            return "none"
        kind: DriftKind = self._looks.kind(moved=moved)
        if kind == "position" and self._following is not None:
            return self._following.cause(limit=limit) or "unknown"
        return kind

    def _evaluate(self, level: DriftLevel) -> DriftState:
        typical = self._typical_hw.ravel()[self._counted]
        middle = typical.size // 2  # np.median takes five times as long
        median = float(np.partition(typical, middle)[middle])
        limits = self._limit_hw.ravel()[self._counted]
        share = np.count_nonzero(typical > limits) / typical.size
        limit = _CALM if level == "warn" else 1.0
        # Only the rise above the baseline is drift, so hysteresis acts on that.
        broad = max((median - 1.0) / (self._median_limit - 1.0), share / _MOST_RISEN) >= limit
        spot = self._anomalous > _SPOT_FRAMES * limit and self._spot_cells() >= _SPOT_CELLS
        kind = self._kind(evidence=broad or spot, limit=limit)
        if spot and not broad and kind in ("position", "unknown"):
            kind = "spot"
        brightness, sharpness = self._looks.change() if self._looks.ready else (None, None)
        level = self._level(kind)
        headline = _HEADLINES[kind] if level != "unseen" else self._not_yet()
        state = DriftState(
            level=level,
            kind=kind,
            frames=self._frames,
            ratio=self._mean / self._frame_mean if self._frames else 1.0,
            median_ratio=median,
            median_limit=self._median_limit,
            moved_share=share,
            share_limit=_MOST_RISEN,
            anomalous_share=self._anomalous,
            ratio_hw=self._typical_hw.copy(),
            brightness=brightness,
            sharpness=sharpness,
            movement=self._movement(),
            parts=self._following.parts if self._following and self._following.ready else None,
            headline=headline,
            message=headline,
            advice=_ADVICE[kind],
        )
        facts = _evidence(state, broad=broad, spot=spot, apart=self._apart())
        return replace(state, message=f"{state.headline}: {facts}") if facts else state

    def _level(self, kind: DriftKind) -> DriftLevel:
        if kind != "none":
            return "warn"
        return "ok" if self._frames >= self._window else "unseen"

    def _not_yet(self) -> str:
        return f"not yet known: {self._frames} of {self._window} frames"

    def _movement(self) -> Movement | None:
        if self._following is not None:
            return self._following.surroundings
        return self._position.movement if self._position.ready else None

    def _apart(self) -> bool:
        return self._following is not None and self._following.apart

    def _spot_cells(self) -> int:
        return int(np.count_nonzero(self._typical_hw > self._spot_hw))


def _evidence(state: DriftState, *, broad: bool, spot: bool, apart: bool) -> str:
    """Return the figures behind a warning."""
    facts = []
    if state.kind == "none":
        return ""
    if state.kind == "light" and state.brightness is not None:
        facts.append(f"brightness x{state.brightness:.2f}")
    if state.kind == "focus" and state.sharpness is not None:
        facts.append(f"sharpness x{state.sharpness:.2f}")
    facts += _moves(state, apart=apart)
    if state.kind == "spot":
        facts.append(f"{state.anomalous_share:.0%} of the frames are anomalous")
    if state.moved_share > 0 and (broad or spot):
        facts.append(f"{state.moved_share:.0%} of the cells have risen and stayed high")
    if not (broad or spot):
        hidden = state.kind in ("light", "focus")  # less of them lowers distances
        facts.append(
            f"distances have not risen{', so defects may be missed' if hidden else ' yet'}"
        )
    if broad and state.median_ratio > 1.0:
        facts.append(f"d^2 of the median cell is x{state.median_ratio:.2f} of its good level")
    return ", ".join(facts)


def _moves(state: DriftState, *, apart: bool) -> list[str]:
    """Describe what has moved, and how far."""
    view, parts = state.movement, state.parts
    if state.kind == "parts":
        return [f"they {parts}, and their surroundings stay"]
    if state.kind == "camera":
        own = f", and the parts {parts}" if apart else ", and the parts with them"
        return [f"the surroundings {view}{own}"]
    if state.kind != "position":
        return []
    if parts is not None:
        return [f"the parts {parts}, and no surroundings tell whether the camera did"]
    return [] if view is None else [str(view)]
