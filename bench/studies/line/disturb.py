"""What happens to an inspection camera over months, applied to images of good parts."""

from collections.abc import Callable
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

Frame = NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True)
class Disturbance:
    """One change of one strength."""

    family: str  # brightness, side light, blur, shift, rotation
    strength: str
    expected_kind: str  # what the drift watch should call it
    apply: Callable[[Frame], Frame]


def disturbances() -> tuple[Disturbance, ...]:
    """From hardly visible to gross."""
    changes = [_light(f"x{gain:g}", gain) for gain in (0.5, 0.7, 0.8, 0.9, 1.1, 1.2, 1.5)]
    changes += [_side_light(f"to x{gain:g}", gain) for gain in (0.9, 0.7, 0.5)]
    changes += [_blur(sigma) for sigma in (0.7, 1.0, 1.5, 2.0, 3.0)]
    # Whole pixels: interpolation would blur as well, which a moved camera does not.
    changes += [_move(f"{x},{y} px", x, y, 0.0) for x, y in ((2, 1), (4, 3), (8, 6), (16, 12))]
    changes += [_move(f"{angle:g} deg", 0, 0, angle) for angle in (1.0, 2.0, 4.0, 7.0)]
    return tuple(changes)


def _light(name: str, gain: float) -> Disturbance:
    return Disturbance(
        family="brightness",
        strength=name,
        expected_kind="light",
        apply=lambda frame: cv2.convertScaleAbs(frame, alpha=gain).astype(np.uint8),
    )


def _side_light(name: str, gain: float) -> Disturbance:
    def apply(frame: Frame) -> Frame:
        ramp = np.linspace(1.0, gain, frame.shape[1], dtype=np.float32)[None, :, None]
        return np.asarray(np.rint(frame * ramp), np.uint8)

    return Disturbance(family="side light", strength=name, expected_kind="light", apply=apply)


def _blur(sigma: float) -> Disturbance:
    return Disturbance(
        family="blur",
        strength=f"sigma {sigma:g}",
        expected_kind="focus",
        apply=lambda frame: cv2.GaussianBlur(frame, (0, 0), sigma).astype(np.uint8),
    )


def _move(name: str, x: int, y: int, angle: float) -> Disturbance:
    def apply(frame: Frame) -> Frame:
        height, width = frame.shape[:2]
        matrix = cv2.getRotationMatrix2D(((width - 1) / 2, (height - 1) / 2), angle, 1.0)
        matrix[:, 2] += (x, y)
        moved = cv2.warpAffine(
            frame,
            matrix,
            (width, height),
            flags=cv2.INTER_LANCZOS4,  # the kernel that blurs least
            borderMode=cv2.BORDER_REFLECT_101,
        )
        return moved.astype(np.uint8)

    family = "rotation" if angle else "shift"
    return Disturbance(family=family, strength=name, expected_kind="position", apply=apply)
