"""Measure on small pictures how far the view has moved since the first good frames."""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

SIDE = 32  # of a picture: coarse enough that a move of some percent is a small one
_SAMPLED = 256  # longest side looked at: a 4K frame costs as little as a small one


@dataclass(frozen=True, kw_only=True)
class Movement:
    """A shift of the view and a turn about its centre."""

    right: float  # share of the frame's width
    down: float  # share of its height
    turn: float  # degrees, anticlockwise

    def __str__(self) -> str:
        sides = (
            f"{abs(self.right):.1%} to the {'right' if self.right > 0 else 'left'}",
            f"{abs(self.down):.1%} {'down' if self.down > 0 else 'up'}",
        )
        way = "anticlockwise" if self.turn > 0 else "clockwise"
        return f"moved {sides[0]} and {sides[1]}, turned {abs(self.turn):.1f} degrees {way}"


def picture_of(frame_hwc: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return a grey picture (32, 32) of an RGB frame."""
    height, width = frame_hwc.shape[:2]
    step = max(1, max(height, width) // _SAMPLED)
    grey = cv2.cvtColor(np.ascontiguousarray(frame_hwc[::step, ::step]), cv2.COLOR_RGB2GRAY)
    return cv2.resize(grey, (SIDE, SIDE), interpolation=cv2.INTER_AREA).astype(np.float32)


class PositionWatch:
    """The mean picture of different good views, and how far later views have moved from it.

    A moved picture is p(x) = m(x - t), to first order m - t . grad m, so shift and turn are three
    coefficients of a least-squares fit of p - m. Gain, offset and a ramp of the light are fitted
    beside them and ignored. Parts never lie quite alike: the first views show how much single views
    scatter, and only a mean that this scatter does not explain is a movement.
    """

    # Shares of the frame and degrees, and deviations of the mean. Five of them make chance rare in
    # the long run; what remains is a first window whose views happened to lie too much alike.
    SHIFT, TURN, DEVIATIONS = 0.01, 1.0, 5.0

    def __init__(self, *, reference: int, recent: int) -> None:
        self._wanted = max(reference, 4)
        self._alpha = 1.0 / recent
        self._views: list[NDArray[np.float32]] = []
        self._mean: NDArray[np.float32] | None = None
        self._solve = np.zeros((3, SIDE * SIDE))
        self._recent = np.zeros(3)
        self._limit = np.array([self.SHIFT, self.SHIFT, self.TURN])

    @property
    def ready(self) -> bool:
        """Whether there were enough different good views to compare with."""
        return self._mean is not None

    @property
    def movement(self) -> Movement:
        """Movement of the mean of recent views."""
        right, down, turn = self._recent.tolist()
        return Movement(right=right, down=down, turn=turn)

    def pressure(self) -> float:
        """Return how near the movement is to a warning; 1 is the limit."""
        return float(np.max(np.abs(self._recent) / self._limit))

    def update(self, picture: NDArray[np.float32], *, good: bool, weight: float) -> None:
        """Take one picture; a view that stays has less than full weight and is not learned."""
        if self._mean is not None:
            moved = self._movement_of(picture - self._mean)
            self._recent += weight * self._alpha * (moved - self._recent)
        elif good and weight == 1.0:
            self._views.append(picture)
            if len(self._views) == self._wanted:
                self._learn()

    def _learn(self) -> None:
        views = np.stack(self._views)  # (n, 32, 32)
        self._views = []
        self._mean = views.mean(axis=0)
        self._solve = _solver(self._mean.astype(np.float64))
        single = np.stack([self._movement_of(view - self._mean) for view in views])  # (n, 3)
        spread = single.std(axis=0, ddof=1)
        # Errors of the reference's own mean and of the exponential mean of as many as count in it.
        counted = (2 - self._alpha) / self._alpha
        chance = self.DEVIATIONS * spread * np.sqrt(1 / self._wanted + 1 / counted)
        self._limit = np.maximum(self._limit, chance)

    def _movement_of(self, change: NDArray[np.float32]) -> NDArray[np.float64]:
        moved: NDArray[np.float64] = self._solve @ change.ravel()
        return moved


def _solver(mean: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the rows (3, pixels) that give right, down and turn of a change of the picture."""
    columns, units = movement_columns(mean)
    inside = np.zeros((SIDE, SIDE), bool)
    inside[1:-1, 1:-1] = True  # a one-sided gradient is a poor one
    design = np.where(inside.ravel()[:, None], columns, 0.0)
    # Directions that the picture does not show, such as the turn of a disc, are left at zero.
    solved = np.linalg.pinv(design, rcond=1e-6)[:3] * inside.ravel()
    scaled: NDArray[np.float64] = solved * units[:, None]
    return scaled


def movement_columns(mean: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return how a picture (32, 32) changes (pixels, 7) with shift, turn and light; and units.

    The first three columns are right, down and turn: their coefficients times the units (3,) are
    shares of the frame and degrees.
    """
    grad_y, grad_x = np.gradient(mean)
    y, x = np.mgrid[:SIDE, :SIDE] - (SIDE - 1) / 2
    columns = [
        grad_x,
        grad_y,
        x * grad_y - y * grad_x,
        mean,
        np.ones_like(mean),
        x * mean,
        y * mean,
    ]
    units = np.array([-1 / SIDE, -1 / SIDE, 180 / np.pi])
    return np.stack([column.ravel() for column in columns], axis=1), units
