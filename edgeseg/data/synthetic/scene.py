"""An inspection scene without a camera: good parts and defective ones, with exact masks."""

import shutil
from pathlib import Path
from typing import Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import UsageError
from edgeseg.base.files import temporary_folder, write_json, write_target
from edgeseg.data.synthetic.defects import DEFECTS, damage
from edgeseg.data.synthetic.part import Part, Plane, make_part
from edgeseg.data.synthetic.tray import KINDS as TRAY_KINDS
from edgeseg.data.synthetic.tray import TrayGenerator
from edgeseg.vision.images import write_image

KINDS = tuple(DEFECTS)

_NOISE = 1.6  # grey levels, standard deviation of the sensor
_VISIBLE = 6.0  # grey levels; a smaller change drowns in the noise and is no defect
_MARKER = ".edgeseg-synthetic.json"
_CRUMB = 6  # pixels; a smaller spot is not worth marking
_SMALLEST = 32
_SPARE = 64  # pixels by which the sheet of noise exceeds a frame
_TABLE_TINT = (0.86, 0.98, 1.16)  # RGB


class SceneGenerator:
    """Frames of one production line; the same seed and index give the same frame in any order."""

    def __init__(self, *, size_hw: tuple[int, int] = (256, 256), seed: int = 0) -> None:
        if min(size_hw) < _SMALLEST:
            raise UsageError(
                f"scene of {size_hw[0]}x{size_hw[1]}: expected at least {_SMALLEST}x{_SMALLEST}"
            )
        self.size_hw = size_hw
        self.seed = seed
        rng = np.random.default_rng([seed, 0])
        self._part = make_part(size_hw, rng)
        self._table = _table(size_hw, rng)
        self._streak = _streak(self._part, size_hw)
        # Noise is cut from one larger sheet: drawing it anew would cost more than all the rest.
        sheet_hw = (size_hw[0] + _SPARE, size_hw[1] + _SPARE)
        noise = rng.normal(0, 0.8 * _NOISE, sheet_hw) + rng.normal(0, 0.6 * _NOISE, (3, *sheet_hw))
        self._noise = noise.astype(np.float32)  # (3, H + spare, W + spare): partly common to RGB

    def good(self, index: int) -> NDArray[np.uint8]:
        """Draw a good part as RGB (H, W, 3)."""
        return _to_pixels(self._expose(self._part.face, index))

    def defective(self, index: int, kind: str) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """Draw the part of `good` with a defect, and the pixels (H, W) that differ."""
        if kind not in DEFECTS:
            raise UsageError(f"unknown defect {kind!r}: expected one of {', '.join(KINDS)}")
        rng = np.random.default_rng([self.seed, 2, index, KINDS.index(kind)])
        good = self._expose(self._part.face, index)
        while True:
            bad = self._expose(damage(self._part, kind, rng), index)
            mask = _visible_change(good, bad)
            if mask.any():  # a fibre may have fallen into a hole: drop another
                break
        good[mask] = bad[mask]
        return _to_pixels(good), mask

    def _expose(self, face: Plane, index: int) -> Plane:
        """Place the part, light it and add noise; all of it is drawn from the index."""
        rng = np.random.default_rng([self.seed, 1, index])
        turn, lamp_turn = rng.normal(0, 1.2), rng.normal(0, 4.0)  # degrees
        shift_xy = rng.uniform(-0.012, 0.012, 2) * min(self.size_hw)
        light = self._light(rng)
        top, left = rng.integers(0, _SPARE, 2)

        pose = _pose(self._part, turn, shift_xy)
        placed = self._move(face, pose)
        alpha = np.ascontiguousarray(placed[..., 3])
        lamp = self._move(self._streak, _pose(self._part, lamp_turn, shift_xy))
        shine = self._move(self._part.gloss, pose) * lamp * alpha
        table = self._table * (1 - 0.6 * self._shadow(alpha)) * (1 - alpha)
        # Channel by channel: arithmetic on whole planes is several times faster than on triples.
        height, width = self.size_hw
        noise = self._noise[:, top : top + height, left : left + width]
        planes = [
            (colour + shine + np.float32(tint) * table) * light + grain
            for colour, tint, grain in zip(cv2.split(placed)[:3], _TABLE_TINT, noise, strict=True)
        ]
        return np.asarray(cv2.merge(planes), dtype=np.float32)

    def _shadow(self, alpha: Plane) -> Plane:
        """Return how much of the lamp the part takes from the table (H, W)."""
        soft, drop = 2 * round(0.035 * self._part.radius) + 1, round(0.03 * self._part.radius)
        shadow = cv2.blur(cv2.blur(alpha, (soft, soft)), (soft, soft))
        return np.asarray(np.roll(shadow, (drop, drop), (0, 1)), dtype=np.float32)

    def _light(self, rng: np.random.Generator) -> Plane:
        """Draw the brightness of the lamp (H, W), with a slope across the picture."""
        brightness = rng.normal(1, 0.025)
        slope_y, slope_x = rng.normal(0, 0.03, 2)
        y = np.linspace(-slope_y, slope_y, self.size_hw[0])[:, None]
        x = np.linspace(-slope_x, slope_x, self.size_hw[1])[None, :]
        return np.asarray(brightness * (1 + y + x), dtype=np.float32)

    def _move(self, layer: Plane, pose: NDArray[np.float64]) -> Plane:
        moved = cv2.warpAffine(layer, pose, self.size_hw[::-1], flags=cv2.INTER_LINEAR)
        return np.asarray(moved, dtype=np.float32)


def write_dataset(
    root: Path,
    *,
    size_hw: tuple[int, int],
    train: int,
    test_good: int,
    test_defective: int,
    seed: int = 0,
    show: Literal["part", "tray"] = "part",
) -> None:
    """Write a dataset in the layout of MVTec AD, with `test_defective` frames of each kind."""
    root = write_target(root)
    if root.exists() and not (root / _MARKER).is_file() and (root.is_file() or any(root.iterdir())):
        raise UsageError(f"{root}: exists and was not written by edgeseg; choose another folder")
    scene: SceneGenerator | TrayGenerator = SceneGenerator(size_hw=size_hw, seed=seed)
    kinds = KINDS
    if show == "tray":
        scene, kinds = TrayGenerator(size_hw=size_hw, seed=seed), TRAY_KINDS
    # Written beside its place and renamed: an interrupted run leaves no half of a dataset.
    with temporary_folder(root.parent, name=root.name) as folder:
        new = folder / "new"
        for index in range(train):
            write_image(new / f"train/good/{index:03}.png", scene.good(index))
        for index in range(test_good):
            write_image(new / f"test/good/{index:03}.png", scene.good(1_000_000 + index))
        for number, kind in enumerate(kinds):
            for index in range(test_defective):
                frame, mask = scene.defective((2 + number) * 1_000_000 + index, kind)
                write_image(new / f"test/{kind}/{index:03}.png", frame)
                write_image(
                    new / f"ground_truth/{kind}/{index:03}_mask.png", mask.astype(np.uint8) * 255
                )
        write_json(new / _MARKER, {"size_hw": list(size_hw), "seed": seed, "train": train})
        if root.exists():
            shutil.move(root, folder / "old")
        new.rename(root)


def _table(size_hw: tuple[int, int], rng: np.random.Generator) -> Plane:
    """Draw the dark fixture under the part."""
    grain = cv2.GaussianBlur(rng.standard_normal(size_hw).astype(np.float32), (0, 0), 1.0)
    clouds = cv2.GaussianBlur(rng.standard_normal(size_hw).astype(np.float32), (0, 0), 18.0)
    return np.asarray(40 + 7 * grain + 60 * clouds, dtype=np.float32)


def _streak(part: Part, size_hw: tuple[int, int]) -> Plane:
    """Draw the bow tie of light that a lamp leaves on a lathed surface, in grey levels."""
    y, x = np.mgrid[: size_hw[0], : size_hw[1]].astype(np.float32)
    angle = np.arctan2(y - part.centre_xy[1], x - part.centre_xy[0])
    across = np.sin(angle - np.deg2rad(35))
    return np.asarray(58 * np.exp(-((across / 0.30) ** 2)) - 10, dtype=np.float32)


def _pose(part: Part, degrees: float, shift_xy: NDArray[np.float64]) -> NDArray[np.float64]:
    matrix = cv2.getRotationMatrix2D(part.centre_xy, degrees, 1.0)
    shift = np.array([[0, 0, shift_xy[0]], [0, 0, shift_xy[1]]])
    return np.asarray(matrix + shift, dtype=np.float64)


def _visible_change(good: Plane, bad: Plane) -> NDArray[np.bool_]:
    """Return where two exposures differ by more than the noise; crumbs are dropped."""
    red, green, blue = cv2.split(cv2.absdiff(np.clip(bad, 0, 255), np.clip(good, 0, 255)))
    visible = np.maximum(np.maximum(red, green), blue) >= _VISIBLE
    _, labels, stats, _ = cv2.connectedComponentsWithStats(visible.astype(np.uint8), connectivity=8)
    large = stats[:, cv2.CC_STAT_AREA] >= _CRUMB
    large[0] = False  # the background
    return np.asarray(large[labels], dtype=np.bool_)


def _to_pixels(scene: Plane) -> NDArray[np.uint8]:
    return np.asarray(np.clip(scene + 0.5, 0, 255), dtype=np.uint8)
