"""Compare a live master part with its approved frames, in light, focus and position."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgeseg.runtime.drift.appearance import Look, LookWatch, look_at
from edgeseg.runtime.drift.position import Movement, PositionWatch, picture_of
from edgeseg.runtime.recipes.recipe import GoldenBounds

Frame = NDArray[np.uint8]  # (H, W, 3) RGB, cut to the region of interest
_VIEWS = 4  # that the watch of the position learns from at least


@dataclass(frozen=True, kw_only=True)
class MasterLook:
    """The differences between live and approved frames."""

    brightness: float  # factor
    sharpness: float  # factor
    movement: Movement
    problems: tuple[str, ...] = ()


def compare_master(
    approved: Sequence[Frame], live: Sequence[Frame], bounds: GoldenBounds
) -> MasterLook:
    """Compare live frames with approved ones, by the measures of the drift watch."""
    sizes = {frame.shape[:2] for frame in approved}
    odd = next((frame.shape[:2] for frame in live if frame.shape[:2] not in sizes), None)
    if odd is not None:
        height, width = next(iter(sizes))
        still = Movement(right=0.0, down=0.0, turn=0.0)
        problem = f"frames of {odd[1]}x{odd[0]}, approved {width}x{height}"
        return MasterLook(brightness=1.0, sharpness=1.0, movement=still, problems=(problem,))
    brightness, sharpness = _looks(approved, live)
    movement = _movement(approved, live)
    return MasterLook(
        brightness=brightness,
        sharpness=sharpness,
        movement=movement,
        problems=tuple(_problems(brightness, sharpness, movement, bounds)),
    )


def _looks(approved: Sequence[Frame], live: Sequence[Frame]) -> tuple[float, float]:
    watch = LookWatch(reference=len(approved), recent=1)
    for frame in approved:
        watch.update(look_at(frame), good=True, weight=1.0)
    watch.update(_mean_look([look_at(frame) for frame in live]), good=False, weight=1.0)
    return watch.change()


def _mean_look(looks: Sequence[Look]) -> Look:
    return Look(
        thumb=looks[0].thumb,
        brightness=np.mean([look.brightness for look in looks], axis=0),
        sharpness=float(np.mean([look.sharpness for look in looks])),
    )


def _movement(approved: Sequence[Frame], live: Sequence[Frame]) -> Movement:
    pictures = [picture_of(frame) for frame in approved]
    watch = PositionWatch(reference=max(len(pictures), _VIEWS), recent=1)
    for index in range(max(len(pictures), _VIEWS)):
        watch.update(pictures[index % len(pictures)], good=True, weight=1.0)
    mean = np.mean([picture_of(frame) for frame in live], axis=0)
    watch.update(np.asarray(mean, np.float32), good=False, weight=1.0)
    return watch.movement


def _problems(
    brightness: float, sharpness: float, movement: Movement, bounds: GoldenBounds
) -> list[str]:
    problems = []
    if not abs(math.log(brightness)) <= bounds.light:
        problems.append(f"the light has changed: brightness x{brightness:.2f}")
    if not -math.log(sharpness) <= bounds.focus:
        problems.append(f"the focus has changed: sharpness x{sharpness:.2f}")
    far = max(abs(movement.right), abs(movement.down)) > bounds.shift
    if far or abs(movement.turn) > bounds.turn:
        problems.append(f"the camera or the part has {movement}")
    return problems
