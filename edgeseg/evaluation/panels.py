"""Pictures of results: the frame, its anomaly map, and the decision beside the ground truth."""

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import UsageError
from edgeseg.decision.judgement import Verdict, mark_pixels
from edgeseg.decision.prediction import Prediction

Picture = NDArray[np.uint8]  # (H, W, 3) RGB
Colour = tuple[int, int, int]

PAPER: Colour = (250, 250, 250)
INK: Colour = (40, 40, 40)
TRUTH: Colour = (60, 235, 60)
DECISION: Colour = (255, 0, 190)

_SHORTEST, _LONGEST = 224, 768  # pixels of a tile's longer side: readable, and small enough to mail
_GAP = 8
_LINE = 18  # height of a line of text
_BAR = 62  # width of the colour bar with its numbers


def render_panel(
    frame_hwc: Picture,
    map_hw: NDArray[np.float32],
    *,
    mask_hw: NDArray[np.bool_] | None = None,
    pixel_threshold: float,
    value_range: tuple[float, float],
    verdict: Verdict = "good",
    marked_hw: NDArray[np.bool_] | None = None,
    caption: str | None = None,
) -> Picture:
    """Draw the input, its map with a colour bar, and the decision side by side.

    The decision is `marked_hw`. Where it is not known, it is what the map alone says: an image that
    is not good by its verdict has at least the map's highest place marked.
    """
    _check(frame_hwc, map_hw, mask_hw)
    low, high = _check_range(value_range)
    frame = _fit(frame_hwc)
    size_hw = frame.shape[:2]
    values = _fit_map(map_hw, size_hw)
    decision = frame.copy()
    if mask_hw is not None:
        _outline(decision, _fit_mask(mask_hw, size_hw), TRUTH)
    if marked_hw is None:
        decided = mark_pixels(Prediction(map_hw=values, score=np.inf), verdict, pixel_threshold)
    else:
        decided = _fit_mask(marked_hw, size_hw)
    _outline(decision, decided, DECISION)
    tiles = [
        _add_title(frame, [("input", INK)]),
        _add_title(heat(values, value_range=(low, high)), [("anomaly map", INK)]),
        _add_title(_colour_bar(size_hw[0], low, high, pixel_threshold), []),
        _add_title(decision, _legend(mask_hw is not None)),
    ]
    panel = _side_by_side(tiles)
    return panel if caption is None else add_heading(panel, caption)


def heat(map_hw: NDArray[np.float32], *, value_range: tuple[float, float]) -> Picture:
    """Colour a map by jet, clamped to the range; what is not a number is white."""
    low, high = _check_range(value_range)
    known = np.isfinite(map_hw)
    span = max(high - low, 1e-30)  # a flat map is all of the lowest colour
    share = np.clip((np.where(known, map_hw, low) - low) / span, 0, 1)
    bgr = cv2.applyColorMap(np.round(share * 255).astype(np.uint8), cv2.COLORMAP_JET)
    rgb = bgr[..., ::-1].copy()
    rgb[~known] = 255
    return np.asarray(rgb, dtype=np.uint8)


def contact_sheet(panels: Sequence[Picture], *, columns: int = 1, title: str) -> Picture:
    """Arrange panels in rows under a title; smaller ones are centred in their cells."""
    if not panels or columns < 1:
        raise UsageError(
            f"a sheet of {len(panels)} panels in {columns} columns: expected at least one of each"
        )
    cell_h = max(panel.shape[0] for panel in panels)
    cell_w = max(panel.shape[1] for panel in panels)
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    sheet = _paper(rows * (cell_h + _GAP) - _GAP, columns * (cell_w + _GAP) - _GAP)
    for place, panel in enumerate(panels):
        top = place // columns * (cell_h + _GAP) + (cell_h - panel.shape[0]) // 2
        left = place % columns * (cell_w + _GAP) + (cell_w - panel.shape[1]) // 2
        sheet[top : top + panel.shape[0], left : left + panel.shape[1]] = panel
    return add_heading(sheet, title, scale=0.55)


def add_heading(picture: Picture, text: str, *, scale: float = 0.42) -> Picture:
    """Write a line above a picture, widening the paper where the line is longer."""
    height = round(_LINE * scale / 0.36)
    width = max(picture.shape[1], _text_width(text, scale=scale) + 4) + 2 * _GAP
    page = _paper(picture.shape[0] + height + 2 * _GAP, width)
    page[height + _GAP : height + _GAP + picture.shape[0], _GAP : _GAP + picture.shape[1]] = picture
    _write(page, text, (_GAP + 1, height), INK, scale=scale)
    return page


def _check(
    frame_hwc: Picture, map_hw: NDArray[np.float32], mask_hw: NDArray[np.bool_] | None
) -> None:
    shapes = [map_hw.shape] if mask_hw is None else [map_hw.shape, mask_hw.shape]
    good = frame_hwc.ndim == 3 and frame_hwc.shape[2] == 3 and frame_hwc.dtype == np.uint8
    if not good or any(shape != frame_hwc.shape[:2] for shape in shapes):
        raise UsageError(
            f"a frame {frame_hwc.shape} of {frame_hwc.dtype} with a map or mask {shapes}: "
            "expected uint8 (H, W, 3) and (H, W) of the same size"
        )


def _check_range(value_range: tuple[float, float]) -> tuple[float, float]:
    low, high = value_range
    if not (np.isfinite(low) and np.isfinite(high) and low <= high):
        raise UsageError(f"colours from {low} to {high}: expected two numbers in rising order")
    return low, high


def _fit(frame_hwc: Picture) -> Picture:
    """Resize a frame to a size that can be looked at."""
    height, width = frame_hwc.shape[:2]
    longer = max(height, width)
    scale = min(max(longer, _SHORTEST), _LONGEST) / longer
    if scale == 1:
        return frame_hwc
    size_wh = (max(1, round(width * scale)), max(1, round(height * scale)))
    method = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
    return np.asarray(cv2.resize(frame_hwc, size_wh, interpolation=method), dtype=np.uint8)


def _fit_map(map_hw: NDArray[np.float32], size_hw: tuple[int, ...]) -> NDArray[np.float32]:
    if map_hw.shape == size_hw:
        return map_hw
    height, width = size_hw
    resized = cv2.resize(map_hw, (width, height), interpolation=cv2.INTER_LINEAR)
    return np.asarray(resized, dtype=np.float32)


def _fit_mask(mask_hw: NDArray[np.bool_], size_hw: tuple[int, ...]) -> NDArray[np.bool_]:
    return np.asarray(_fit_map(mask_hw.astype(np.float32), size_hw) >= 0.5, np.bool_)


def _outline(picture: Picture, region_hw: NDArray[np.bool_], colour: Colour) -> None:
    # Drawn around the region, not on it: a crack three pixels wide would vanish under its outline.
    shorter = min(picture.shape[:2])
    width = 1 if shorter < _SHORTEST else 2 if shorter < 512 else 3
    kernel = np.ones((2 * width + 1, 2 * width + 1), np.uint8)
    around = (cv2.dilate(region_hw.astype(np.uint8), kernel) > 0) & ~region_hw
    if region_hw.all():  # nothing is left around it: along the picture's edge
        around = region_hw.copy()
        around[width:-width, width:-width] = False
    picture[around] = colour


def _legend(with_truth: bool) -> list[tuple[str, Colour]]:
    # Darker on paper than in the picture: light green letters cannot be read on white.
    decision = ("decision", (200, 0, 150))
    return [("ground truth", (0, 140, 0)), decision] if with_truth else [decision]


def _colour_bar(height: int, low: float, high: float, threshold: float) -> Picture:
    """Draw the colours from high to low, with numbers at both ends and at the threshold."""
    bar = _paper(height, _BAR)
    ramp = np.linspace(high, low, height, dtype=np.float32)[:, None].repeat(12, axis=1)
    bar[:, :12] = heat(ramp, value_range=(low, high))
    ends = [(high, 10), (low, height - 3)]
    for value, y in ends:
        _write(bar, f"{value:.3g}", (18, y), INK)
    if low <= threshold <= high and high > low:
        y = round((high - threshold) / (high - low) * (height - 1))
        cv2.line(bar, (0, y), (14, y), DECISION, 2)
        # Near an end the number gives way to the end's own, the tick stays where it belongs.
        text_y = min(max(y + 4, 24), height - 17)
        _write(bar, f"{threshold:.3g}", (18, text_y), (200, 0, 150))
    return bar


def _add_title(tile: Picture, parts: Sequence[tuple[str, Colour]]) -> Picture:
    head = _paper(_LINE, tile.shape[1])
    x = 1
    for text, colour in parts:
        _write(head, text, (x, _LINE - 6), colour)
        x += _text_width(text) + 10
    return np.vstack([head, tile])


def _side_by_side(tiles: Sequence[Picture]) -> Picture:
    gap = _paper(tiles[0].shape[0], _GAP)
    row = [piece for tile in tiles for piece in (tile, gap)]
    return np.hstack(row[:-1])


def _paper(height: int, width: int) -> Picture:
    return np.full((height, width, 3), PAPER, np.uint8)


def _ascii(text: str) -> str:
    # OpenCV's built-in letters are ASCII; a name in another alphabet becomes question marks.
    return text.encode("ascii", "replace").decode("ascii")


def _text_width(text: str, *, scale: float = 0.38) -> int:
    return int(cv2.getTextSize(_ascii(text), cv2.FONT_HERSHEY_SIMPLEX, scale, 1)[0][0])


def _write(
    picture: Picture, text: str, at_xy: tuple[int, int], colour: Colour, *, scale: float = 0.38
) -> None:
    cv2.putText(
        picture, _ascii(text), at_xy, cv2.FONT_HERSHEY_SIMPLEX, scale, colour, 1, cv2.LINE_AA
    )
