"""Regions that do not matter: read from files, painted over, and left out of maps and scores.

    polygons --hidden_of--> pixels of the input --Hidden.paint--> the input without what is there
    pixels --Hidden.kept_cells--> cells that count --MapRule--> map and score of those alone

A cell that a region touches does not count. Regions that the fit knew are also painted over with
the colour around them: a network looks beyond the cell, and the neighbours were fitted that way.
Regions that were named later are not painted over: their neighbours were fitted on what lies there.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import UsageError
from edgeseg.base.plain import Malformed, parse_json
from edgeseg.vision.geometry import Geometry, Polygon
from edgeseg.vision.images import is_image_file, read_mask
from edgeseg.vision.upsampling import upsampling_operator

MOST_CORNERS = 20_000  # of all polygons: they travel in the metadata of a graph
_RING = 3  # pixels around a region whose colour it is painted with
_FAINT = 0.05  # share of a map's pixel that must come from cells that count


def read_regions(path: Path) -> tuple[Polygon, ...]:
    """Read the polygons of a JSON file, or the outlines of what is not black in a picture."""
    if is_image_file(path):
        return outlines(read_mask(path), name=str(path))
    try:
        values: Any = parse_json(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror or error})") from None
    except Malformed as error:
        raise UsageError(f"{path}: {error}; {_EXPECTED}") from None
    return _polygons(_polygon_list(values), name=str(path))


def _polygon_list(values: Any) -> Any:
    """Return the list of polygons: under its name, as labelme writes it, or as it is."""
    if not isinstance(values, dict):
        return values
    if "polygons" in values:
        return values["polygons"]
    shapes = values.get("shapes")
    if not isinstance(shapes, list):
        return ()
    return [shape.get("points") if isinstance(shape, dict) else None for shape in shapes]


_EXPECTED = 'expected a picture, or JSON such as {"polygons": [[[10, 20], [60, 20], [60, 50]]]}'


def _polygons(values: Any, *, name: str) -> tuple[Polygon, ...]:
    try:
        polygons = tuple(tuple((float(x), float(y)) for x, y in polygon) for polygon in values)
    except (TypeError, ValueError):
        raise UsageError(f"{name}: no list of polygons; {_EXPECTED}") from None
    if not polygons:
        raise UsageError(f"{name}: no polygon in it; {_EXPECTED}")
    return tuple(map(_whole, polygons))


def _whole(polygon: Polygon) -> Polygon:
    """Return the corners of a polygon; two of them are opposite corners of a box."""
    if len(polygon) != 2:
        return polygon
    (left, top), (right, bottom) = polygon
    return (left, top), (right, top), (right, bottom), (left, bottom)


def parse_region(text: str) -> Polygon:
    """Read `x,y,w,h`, or the corners of a polygon `x,y,x,y,x,y,...`."""
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) == 4 and min(numbers[2:]) > 0:
        x, y, w, h = numbers
        return (x, y), (x + w, y), (x + w, y + h), (x, y + h)
    if len(numbers) < 6 or len(numbers) % 2:
        raise UsageError(
            f"region={text!r}: expected x,y,w,h with a width and a height, or three or more "
            "corners x,y,x,y,x,y"
        )
    return tuple(zip(numbers[::2], numbers[1::2], strict=True))


def outlines(mask_hw: NDArray[np.bool_], *, name: str) -> tuple[Polygon, ...]:
    """Return a mask as polygons along the edges of its pixels; a piece with a hole is cut open."""
    if not mask_hw.any():
        raise UsageError(f"{name}: all black, so nothing in it is ignored; paint white what is")
    polygons: list[Polygon] = []
    pieces = [np.ascontiguousarray(mask_hw)]
    while pieces:
        piece = pieces.pop()
        lines, holes = _contours(piece)
        if not holes:
            polygons += lines
        else:
            x, w = holes[0]
            columns = np.arange(piece.shape[1]) < x + w // 2 + w % 2
            pieces += [piece & columns, piece & ~columns]
        if sum(map(len, polygons)) + 4 * len(pieces) > MOST_CORNERS:
            raise UsageError(
                f"{name}: an outline of more than {MOST_CORNERS} corners; smooth the mask, or give "
                "polygons"
            )
    return tuple(polygons)


def _contours(mask_hw: NDArray[np.bool_]) -> tuple[list[Polygon], list[tuple[int, int]]]:
    """Return the outlines of a mask, and the start and width of its holes."""
    # Four times as large, so that corners lie on the edges of pixels and not in their middles.
    large = cv2.copyMakeBorder(mask_hw.astype(np.uint8), 1, 1, 1, 1, cv2.BORDER_CONSTANT)
    large = cv2.resize(large, None, fx=4, fy=4, interpolation=cv2.INTER_NEAREST)
    found, tree = cv2.findContours(large, cv2.RETR_CCOMP, cv2.CHAIN_APPROX_SIMPLE)
    outer: list[Polygon] = []
    holes = []
    for line, (_, _, _, parent) in zip(found, tree[0] if len(found) else (), strict=True):
        corners = np.rint((line[:, 0] - 4) / 4).astype(int)
        if parent >= 0:
            low, high = corners.min(axis=0), corners.max(axis=0)
            holes.append((int(low[0]), int(high[0] - low[0])))
            continue
        changes = (corners != np.roll(corners, 1, axis=0)).any(axis=1)
        outer.append(tuple((float(x), float(y)) for x, y in corners[changes]))
    return outer, holes


@dataclass(frozen=True)
class Hidden:
    """What a geometry ignores, in pixels of an input of one size."""

    pixels_hw: NDArray[np.bool_]  # all that does not count
    painted_hw: NDArray[np.bool_]  # of them: what is painted over

    @cached_property
    def _pieces(self) -> list[tuple[NDArray[np.intp], ...]]:
        """The pixels (rows, columns) of every painted piece, and those around it."""
        count, labels = cv2.connectedComponents(self.painted_hw.astype(np.uint8), connectivity=8)
        pieces = []
        for label in range(1, count):
            piece = labels == label
            around = cv2.dilate(piece.astype(np.uint8), np.ones((2 * _RING + 1,) * 2, np.uint8))
            pieces.append((*np.nonzero(piece), *np.nonzero((around != 0) & ~self.painted_hw)))
        return pieces

    def paint(self, input_hwc: NDArray[np.uint8]) -> None:
        """Paint every piece with the mean colour around it, in place."""
        for rows, columns, around_y, around_x in self._pieces:
            around = input_hwc[around_y, around_x]
            # Sums of whole numbers: the same on every machine.
            colour = (around.sum(axis=0, dtype=np.int64) * 2 + len(around)) // (2 * len(around))
            input_hwc[rows, columns] = colour.astype(np.uint8)

    def kept_cells(self, grid_hw: tuple[int, int]) -> NDArray[np.bool_]:
        """Return the cells (h, w) that no region touches."""
        (rows, columns), (height, width) = grid_hw, self.pixels_hw.shape
        if height % rows or width % columns:
            raise UsageError(f"a grid of {rows}x{columns} does not divide {height}x{width} pixels")
        cells = self.pixels_hw.reshape(rows, height // rows, columns, width // columns)
        return np.asarray(~cells.any(axis=(1, 3)), np.bool_)


def paint_ignored(input_hwc: NDArray[np.uint8], geometry: Geometry) -> NDArray[np.uint8]:
    """Return a copy of an input with ignored regions painted over; the input itself without any."""
    height, width = input_hwc.shape[:2]
    hidden = hidden_of(geometry, (height, width))
    if hidden is None or not hidden.painted_hw.any():
        return input_hwc
    without_hwc: NDArray[np.uint8] = input_hwc.copy()
    hidden.paint(without_hwc)
    return without_hwc


def refuse_several(geometry: Geometry) -> None:
    """Refuse places of a picture where several parts lie anywhere in it."""
    if geometry.several is not None:
        raise UsageError(
            "region: the model cuts parts out wherever they lie, so no place of the picture can be "
            "ignored; what is beside the parts does not count anyway"
        )


@lru_cache(maxsize=8)
def hidden_of(geometry: Geometry, size_hw: tuple[int, int]) -> Hidden | None:
    """Return what a geometry ignores of inputs of this size; None if nothing."""
    geometry = geometry.of_inputs
    if geometry.camera_hw is None:
        return None
    pixels_hw = _touched_pixels(geometry, geometry.left_out, size_hw)
    if not pixels_hw.any():
        return None
    painted_hw = (
        _touched_pixels(geometry, geometry.painted, size_hw) if geometry.uncounted else pixels_hw
    )
    return Hidden(pixels_hw, painted_hw)


def _touched_pixels(
    geometry: Geometry, polygons: tuple[Polygon, ...], size_hw: tuple[int, int]
) -> NDArray[np.bool_]:
    """Return every pixel of the input (H, W) that a region touches, however little."""
    if not polygons or geometry.camera_hw is None:
        return np.zeros(size_hw, np.bool_)
    drawn = polygon_mask(_as_shown(geometry, polygons), geometry.camera_hw)
    roi = geometry.roi
    if roi is not None:
        drawn = drawn[roi.y : roi.y + roi.h, roi.x : roi.x + roi.w]
    area = cv2.resize(
        drawn.astype(np.float32),
        size_hw[::-1],
        interpolation=cv2.INTER_AREA if drawn.shape > size_hw else cv2.INTER_LINEAR,
    )
    return np.asarray(area > 0, np.bool_)


def _as_shown(geometry: Geometry, polygons: tuple[Polygon, ...]) -> tuple[Polygon, ...]:
    """Move polygons from the reference picture to where inputs show the usual part."""
    usual = geometry.usual
    if usual is None:
        return polygons
    turn, shift = usual.matrix[:, :2], usual.matrix[:, 2]
    return tuple(
        tuple((float(x), float(y)) for x, y in np.asarray(polygon) @ turn.T + shift)
        for polygon in polygons
    )


def polygon_mask(polygons: tuple[Polygon, ...], size_hw: tuple[int, int]) -> NDArray[np.bool_]:
    """Draw all polygons as one mask (H, W)."""
    mask_hw = np.zeros(size_hw, np.uint8)
    for polygon in polygons:
        # Edges of pixels to their middles, in sixteenths of a pixel.
        corners = np.rint((np.asarray(polygon) - 0.5) * 16).astype(np.int32)
        cv2.fillPoly(mask_hw, [corners], 1, shift=4)
    return np.asarray(mask_hw != 0, np.bool_)


@dataclass(frozen=True, kw_only=True)
class MapRule:
    """The rule from distances of cells to map and score, for frames of which some do not count."""

    size_hw: tuple[int, int]
    grid_hw: tuple[int, int]
    sigma: float
    top: int

    @property
    def operators(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The matrices (H, h) of rows and (w, W) of columns: interpolation with its blur."""
        return _operators(self)

    def map_of(
        self, grid_hw: NDArray[np.float32], kept_hw: NDArray[np.bool_]
    ) -> NDArray[np.float32]:
        """Return the map (H, W) of the cells that count; 0 where there is none near."""
        rows, columns = self.operators
        return (rows @ np.where(kept_hw, grid_hw, 0) @ columns) * self.gain(kept_hw)

    def judge(
        self,
        grid_hw: NDArray[np.float32],
        kept_hw: NDArray[np.bool_],
        *,
        shown_hw: NDArray[np.float32] | None = None,
    ) -> tuple[NDArray[np.float32], float]:
        """Return map and score of the cells that count; the score is NaN where none does.

        `shown_hw` are the map's own distances, where it has such.
        """
        map_hw = self.map_of(grid_hw if shown_hw is None else shown_hw, kept_hw)
        if not kept_hw.any():
            return map_hw, float("nan")
        return map_hw, self.score_of(grid_hw, map_hw, kept_hw)

    def gain(self, kept_hw: NDArray[np.bool_]) -> NDArray[np.float32]:
        """Return the factor for a map (H, W) made with 0 in cells that do not count."""
        rows, columns = self.operators
        share = rows @ kept_hw.astype(np.float32) @ columns
        height, width = (
            side // cells for side, cells in zip(self.size_hw, self.grid_hw, strict=True)
        )
        inside = np.repeat(np.repeat(kept_hw, height, axis=0), width, axis=1)
        return np.where(inside, 1 / np.maximum(share, _FAINT), 0).astype(np.float32)

    def score_of(
        self,
        grid_hw: NDArray[np.float32],
        map_hw: NDArray[np.float32],
        kept_hw: NDArray[np.bool_],
    ) -> float:
        """Return the mean of the highest cells that count, or the highest pixel."""
        if self.top == 1:
            return float(map_hw.max())
        values = grid_hw[kept_hw]
        if not np.isfinite(values).all():
            return float("nan")
        count = min(self.top, values.size)
        return float(np.partition(values, values.size - count)[values.size - count :].mean())


@lru_cache(maxsize=8)
def _operators(rule: MapRule) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    rows, columns = (
        upsampling_operator(size, cells, sigma=rule.sigma).astype(np.float32)
        for size, cells in zip(rule.size_hw, rule.grid_hw, strict=True)
    )
    return rows, np.ascontiguousarray(columns.T)
