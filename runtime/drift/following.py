"""Tell a moved camera from moved parts, for models that follow their parts.

The parts tell their pose, the fit tells where good ones lay, and the picture tells what stands
still. For every place of a small picture, the first good views show whether it changes less as
the camera sees it (the surroundings) or as the part sees it (the part). When the surroundings move,
the camera has moved. When parts move and the surroundings stay, the parts have moved. Without
detail in the surroundings, or with parts that fill the picture, the cause stays unknown.
"""

from typing import Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.runtime.drift.position import SIDE, Movement, PositionWatch, movement_columns
from edgeseg.vision.places import Places
from edgeseg.vision.pose import Pose, compose, for_opencv, wrap_degrees

Cause = Literal["camera", "parts", "position"]
_STEADIER = 2.0  # times less change: what belongs to the camera, and not to the part
_DETAIL = 1.0  # variance of grey levels: less change than that is noise
_FEWEST = 24  # places of the picture that seven unknowns are read off
_GREY = 1.0  # grey levels by which a place may be off without being something else
_ROUNDS = 5  # of the reweighting: what has moved into view must not count as a move of the rest
_OPEN = 0.5  # of a limit: surroundings that moved so far may have moved too
_CLIPPED = 5.0  # limits or spreads: a pose found at the wrong place counts for no more
_ANY_ANGLE = 30.0  # spread in degrees: parts that turn so freely have no usual angle


class Surroundings:
    """The places that stand still in the first good views, and their movement later."""

    def __init__(self, views: NDArray[np.float32], seen_by_parts: NDArray[np.float32]) -> None:
        """Learn from pictures (n, 32, 32), and the same as the parts see them; NaN outside."""
        self._mean = views.mean(axis=0)
        by_part = _variance(seen_by_parts)
        still = _STEADIER * views.var(axis=0) + _DETAIL < by_part
        still[[0, -1]] = still[:, [0, -1]] = False  # a one-sided gradient is a poor one
        self._still = still.ravel()
        columns, self._units = movement_columns(self._mean.astype(np.float64))
        design = columns[self._still]  # (places, 7)
        # Columns of one scale, so that systems of seven are sound.
        norms = np.linalg.norm(design, axis=0) + 1e-12
        self._design, self._shows = design / norms, norms[:3] > 1e-6
        self._units = self._units / norms[:3]
        self.known = self._what_shows()
        self.usual = np.zeros(3)
        self._single = np.stack([self.movement_in(view) for view in views])
        self.spread = self._single.std(axis=0, ddof=1)
        self.usual = self._single.mean(axis=0)

    def _what_shows(self) -> NDArray[np.bool_]:
        """Return which of right, down and turn can be measured to half of their limits."""
        if len(self._design) < _FEWEST:
            return np.zeros(3, np.bool_)
        inverse = np.linalg.pinv(self._design.T @ self._design, rcond=1e-9)
        error = _GREY * np.sqrt(np.diag(inverse)[:3]) * np.abs(self._units)
        limits = (PositionWatch.SHIFT, PositionWatch.SHIFT, PositionWatch.TURN)
        return np.asarray(self._shows & (error < 0.5 * np.array(limits)), np.bool_)

    def movement_in(self, picture: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return right, down and turn of the surroundings, even with something in front of them."""
        if not self.known.any():
            return np.zeros(3)
        change = (picture - self._mean).ravel()[self._still].astype(np.float64)
        weights = np.ones(len(change))
        solved = np.zeros(self._design.shape[1])
        for _ in range(_ROUNDS):  # towards the least sum of absolute errors
            weighted = self._design.T * weights
            solved = np.linalg.lstsq(weighted @ self._design, weighted @ change, rcond=1e-10)[0]
            weights = 1 / np.maximum(np.abs(change - self._design @ solved), _GREY)
        moved: NDArray[np.float64] = solved[:3] * self._units - self.usual
        return moved


class FollowingWatch:
    """The movement of parts and surroundings since the first good views, in shares of the frame."""

    def __init__(self, places: Places, *, reference: int, recent: int) -> None:
        self._places = places
        self._wanted = max(reference, 4)
        self._alpha = 1.0 / recent
        self._views: list[NDArray[np.float32]] = []
        self._by_part: list[NDArray[np.float32]] = []
        self._poses: list[NDArray[np.float64]] = []
        self._surroundings: Surroundings | None = None
        self._first = np.zeros(3)  # mean pose of the first views, against the fit's
        self._parts = np.zeros(3)  # of recent parts, against the first ones
        self._around = np.zeros(3)
        least = np.array([PositionWatch.SHIFT, PositionWatch.SHIFT, PositionWatch.TURN])
        self._limit, self._fit_limit, self._around_limit = least, least, least
        self._most = _CLIPPED * least

    @property
    def ready(self) -> bool:
        """Whether there were enough different good views to compare with."""
        return self._surroundings is not None

    def update(
        self,
        picture: NDArray[np.float32],
        pose: Pose | None,
        *,
        frame_hw: tuple[int, int],
        good: bool,
        weight: float,
    ) -> None:
        """Take one picture and the pose of its part."""
        off = None if pose is None else self._off(pose, frame_hw)
        if self._surroundings is not None:
            around = self._surroundings.movement_in(picture)
            self._around = self._around + weight * self._alpha * (around - self._around)
            if off is not None:
                moved = np.clip(_between(off, self._first), -self._most, self._most)
                self._parts = self._parts + weight * self._alpha * (moved - self._parts)
        elif good and weight == 1.0 and pose is not None and off is not None:
            self._views.append(picture)
            self._by_part.append(self._as_the_part_sees(picture, pose, frame_hw))
            self._poses.append(off)
            if len(self._views) == self._wanted:
                self._learn(frame_hw)

    def _off(self, pose: Pose, frame_hw: tuple[int, int]) -> NDArray[np.float64]:
        """Return the distance from the usual place of the fit; parts at any angle have no turn."""
        right, down, degrees = self._places.off(pose)
        free = self._places.spread_degrees > _ANY_ANGLE
        return np.array([right / frame_hw[1], down / frame_hw[0], 0.0 if free else degrees])

    def _as_the_part_sees(
        self, picture: NDArray[np.float32], pose: Pose, frame_hw: tuple[int, int]
    ) -> NDArray[np.float32]:
        """Move the small picture to where the usual part lies; NaN outside the camera's picture."""
        scale = np.array([[frame_hw[1] / SIDE, 0.0, 0.0], [0.0, frame_hw[0] / SIDE, 0.0]])
        back = np.array([[SIDE / frame_hw[1], 0.0, 0.0], [0.0, SIDE / frame_hw[0], 0.0]])
        usual = cv2.invertAffineTransform(self._places.usual(pose.home_xy).matrix)
        now = compose(pose.matrix, np.asarray(usual, np.float64))  # from usual places to those now
        matrix = for_opencv(compose(back, compose(now, scale)))
        seen = cv2.warpAffine(
            picture,
            matrix,
            (SIDE, SIDE),
            flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
            borderMode=cv2.BORDER_CONSTANT,
            borderValue=float("nan"),
        )
        return np.asarray(seen, np.float32)

    def _learn(self, frame_hw: tuple[int, int]) -> None:
        self._surroundings = Surroundings(np.stack(self._views), np.stack(self._by_part))
        poses = np.stack(self._poses)
        self._views, self._by_part, self._poses = [], [], []
        self._first = np.median(poses, axis=0)
        spread = np.stack([_between(pose, self._first) for pose in poses]).std(axis=0, ddof=1)
        counted = (2 - self._alpha) / self._alpha
        chance = PositionWatch.DEVIATIONS * np.sqrt(1 / self._wanted + 1 / counted)
        self._limit = np.maximum(self._limit, chance * spread)
        self._most = np.maximum(self._most, _CLIPPED * spread)
        self._around_limit = np.maximum(self._around_limit, chance * self._surroundings.spread)
        places = self._places
        fitted = (places.spread_right / frame_hw[1], places.spread_down / frame_hw[0])
        fitted_spread = np.array([*fitted, places.spread_degrees])
        chance = PositionWatch.DEVIATIONS * np.sqrt(1 / places.count + 1 / counted)
        # Parts of another day lie within what the fit has seen: a mean that a single part could
        # have is no news.
        self._fit_limit = np.maximum(self._fit_limit, np.maximum(chance, 2.0) * fitted_spread)

    def pressure(self) -> float:
        """Return how near a movement is to a warning; 1 is the limit."""
        if self._surroundings is None:
            return 0.0
        return max(self._part_pressure(), self._around_pressure(), self._fit_pressure())

    def _part_pressure(self) -> float:
        return float(np.max(np.abs(self._parts) / self._limit))

    def _fit_pressure(self) -> float:
        return float(np.max(np.abs(self._first + self._parts) / self._fit_limit))

    def _around_pressure(self) -> float:
        if self._surroundings is None:
            return 0.0
        return float(np.max(np.abs(self._around) / self._around_limit * self._surroundings.known))

    def cause(self, *, limit: float = 1.0) -> Cause | None:
        """Return what has moved; "position" if that cannot be decided."""
        if self._surroundings is None:
            return None
        if self._around_pressure() >= limit:
            return "camera"
        moved = np.abs(self._parts) / self._limit >= limit
        if moved.any():
            # Of the directions that parts moved in, the surroundings must show that they did not.
            stayed = bool(self._surroundings.known[moved].all())
            return "parts" if stayed and self._around_pressure() < _OPEN else "position"
        return "position" if self._fit_pressure() >= limit else None

    @property
    def parts(self) -> Movement:
        """Movement of recent parts since the first ones, or since the fit if only that is large."""
        own = self._part_pressure() >= 1.0 or self._fit_pressure() < 1.0
        right, down, turn = (self._parts if own else self._first + self._parts).tolist()
        return Movement(right=right, down=down, turn=turn)

    @property
    def surroundings(self) -> Movement | None:
        """Movement of the surroundings; None where nothing shows it."""
        if self._surroundings is None or not self._surroundings.known.any():
            return None
        right, down, turn = self._around.tolist()
        return Movement(right=right, down=down, turn=turn)

    @property
    def apart(self) -> bool:
        """Whether parts moved differently from the surroundings."""
        return bool(np.any(np.abs(self._parts - self._around) > self._limit + self._around_limit))


def _variance(pictures: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the variance of every place; 0 where fewer than half of the pictures show it."""
    shown = np.isfinite(pictures)
    count = np.maximum(shown.sum(axis=0), 1)
    mean = np.where(shown, pictures, 0).sum(axis=0) / count
    variance = np.square(np.where(shown, pictures - mean, 0)).sum(axis=0) / count
    return np.where(2 * count >= len(pictures), variance, 0)


def _between(pose: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    right, down, turn = pose - other
    return np.array([right, down, wrap_degrees(float(turn))])
