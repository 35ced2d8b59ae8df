"""A tray of lugs that lie anywhere on it: six to nine in a picture, one of them with a defect."""

import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.data.synthetic.part import Plane
from edgeseg.vision.pose import Pose, for_opencv

KINDS = ("scratch", "stain", "missing")
_ROWS = 3  # of cells each way; a lug lies in one
_FEWEST = 6  # lugs of a tray
_LONG, _WIDE = 0.2, 0.085  # shares of the picture's shorter side
_DRAWN = 2  # times as large as they are shown
_TABLE = (52.0, 60.0, 72.0)  # RGB
_NOISE = 1.6  # grey levels
_VISIBLE = 8.0  # grey levels: a smaller change is no defect


class TrayGenerator:
    """Pictures of trays; the same seed and index give the same picture in any order."""

    def __init__(self, *, size_hw: tuple[int, int], seed: int = 0) -> None:
        self.size_hw, self.seed = size_hw, seed
        self._long = _LONG * min(size_hw) * _DRAWN
        self._wide = _WIDE * min(size_hw) * _DRAWN
        self._side = int(1.2 * self._long)
        rng = np.random.default_rng([seed, 0])
        brushed = cv2.GaussianBlur(
            rng.standard_normal((self._side, self._side)).astype(np.float32), (0, 0), 12, sigmaY=0.8
        )
        self._brushed = brushed / brushed.std()

    def good(self, index: int) -> NDArray[np.uint8]:
        """Draw a tray of good lugs as RGB (H, W, 3)."""
        return _to_pixels(self._expose(index, kind=None))

    def defective(self, index: int, kind: str) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """Draw the tray of `good` with a defect on one lug, and the pixels (H, W) that differ."""
        good, bad = self._expose(index, kind=None), self._expose(index, kind=kind)
        return _to_pixels(bad), np.abs(good - bad).max(axis=2) >= _VISIBLE

    def _expose(self, index: int, *, kind: str | None) -> Plane:
        rng = np.random.default_rng([self.seed, 1, index])
        height, width = self.size_hw
        picture = np.broadcast_to(np.array(_TABLE, np.float32), (height, width, 3)).copy()
        cells = rng.permutation(_ROWS**2)[: rng.integers(_FEWEST, _ROWS**2 + 1)]
        damaged = int(rng.integers(len(cells)))
        step_y, step_x = height / _ROWS, width / _ROWS
        room = max(0.0, (min(step_x, step_y) - 1.1 * self._long / _DRAWN) / 2)
        for number, cell in enumerate(cells):
            row, column = divmod(int(cell), _ROWS)
            right, down = rng.uniform(-room, room, 2)
            pose = Pose(
                x=(column + 0.5) * step_x + right,
                y=(row + 0.5) * step_y + down,
                degrees=float(rng.uniform(-180, 180)),
                home_xy=(self._side / 2, self._side / 2),
            )
            down, right = rng.integers(0, self._side, 2).tolist()
            metal = rng.normal(150, 4) + 5 * np.roll(self._brushed, (down, right), (0, 1))
            grey, alpha = self._lug(metal, kind if number == damaged else None, index)
            self._lay(picture, grey, alpha, pose)
        light = rng.normal(1, 0.02)
        return np.asarray(picture * light + rng.normal(0, _NOISE, picture.shape), np.float32)

    def _lug(self, metal: Plane, kind: str | None, index: int) -> tuple[Plane, Plane]:
        """Draw a plate with a thin and a round end: its grey levels, and where it is."""
        side, middle = self._side, self._side // 2
        half, wide = round(self._long / 2), round(self._wide / 2)
        alpha = np.zeros((side, side), np.float32)
        thin, right = round(0.6 * wide), middle + half - wide
        outline = [(-half, -thin), (right - middle, -wide), (right - middle, wide), (-half, thin)]
        cv2.fillPoly(alpha, [np.array(outline, np.int32) + middle], 1.0)
        cv2.circle(alpha, (middle + half - wide, middle), wide, 1.0, -1)
        grey = np.asarray(metal, np.float32)
        edge = alpha - cv2.erode(alpha, np.ones((5, 5), np.uint8))
        grey += 40 * edge
        text, at = np.zeros((side, side), np.uint8), (middle - wide, middle + wide // 3)
        font, thick = cv2.FONT_HERSHEY_DUPLEX, max(1, wide // 9)
        cv2.putText(text, "L4", at, font, wide / 26, 255, thick, cv2.LINE_AA)
        grey -= 80 * (text / np.float32(255))
        rng = np.random.default_rng([self.seed, 2, index])
        if kind != "missing":
            cv2.circle(grey, (middle + half - wide, middle), round(0.45 * wide), 45.0, -1)
        cv2.circle(grey, (middle - half + wide, middle), round(0.3 * wide), 45.0, -1)
        x = middle + round(rng.uniform(-0.6, 0.5) * half)
        y = middle + round(rng.uniform(-0.4, 0.4) * wide)
        if kind == "scratch":
            angle, reach = rng.uniform(0, np.pi), rng.uniform(0.25, 0.45) * self._wide
            end = (round(x + reach * np.cos(angle)), round(y + reach * np.sin(angle)))
            cv2.line(grey, (x, y), end, 235.0, 3, cv2.LINE_AA)
        if kind == "stain":
            spot = np.zeros_like(grey)
            axes = (round(rng.uniform(0.2, 0.35) * wide), round(rng.uniform(0.15, 0.3) * wide))
            cv2.ellipse(spot, (x, y), axes, rng.uniform(0, 180), 0, 360, 1.0, -1)
            grey -= 45 * cv2.GaussianBlur(spot, (0, 0), 2.0)
        return grey, alpha

    def _lay(self, picture: Plane, grey: Plane, alpha: Plane, pose: Pose) -> None:
        """Lay a lug on the tray, in place; it is shown at half the size at which it is drawn."""
        matrix = pose.matrix.copy()
        matrix[:, :2] /= _DRAWN
        matrix[:, 2] = (pose.x, pose.y) - matrix[:, :2] @ pose.home_xy
        size_wh, half = self.size_hw[::-1], (0, 0)
        layers = cv2.GaussianBlur(np.dstack([grey * alpha, alpha]), half, 0.8)
        moved = cv2.warpAffine(layers, for_opencv(matrix), size_wh, flags=cv2.INTER_LINEAR)
        picture *= 1 - moved[..., 1:]
        picture += moved[..., :1] * np.array((0.985, 1.0, 1.025), np.float32)


def _to_pixels(picture: Plane) -> NDArray[np.uint8]:
    return np.asarray(np.clip(picture + 0.5, 0, 255), np.uint8)
