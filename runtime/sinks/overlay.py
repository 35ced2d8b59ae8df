"""Draw where a frame is anomalous, how much, and the verdict, without hiding the part."""

import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.decision.prediction import Region
from edgeseg.runtime.events.records import FrameResult, FrameVerdict

Colour = tuple[int, int, int]  # RGB

_GOOD: Colour = (46, 160, 87)
_DEFECT: Colour = (226, 50, 54)
_DOUBT: Colour = (214, 142, 18)
_COLOURS: dict[FrameVerdict, Colour] = {
    "good": _GOOD,
    "unsure": _DOUBT,
    "defect": _DEFECT,
    "invalid": _DOUBT,
    "not_found": _DOUBT,
    "no_inspection": _DEFECT,
}
_STRIP: Colour = (22, 25, 30)
_TRACK: Colour = (58, 64, 73)
_TEXT: Colour = (238, 240, 243)
_FONT = cv2.FONT_HERSHEY_SIMPLEX

# Heat, as parts of the pixel threshold: nothing below 0.75, full strength from twice the threshold.
_HEAT_FROM, _HEAT_FULL = 0.75, 2.0
_HEAT_AT_THRESHOLD = round((1.0 - _HEAT_FROM) / (_HEAT_FULL - _HEAT_FROM) * 255)
_HEAT_ALPHA = 0.62  # the part must stay visible under the strongest heat
_BAR_FULL = 2.0  # the score bar ends at this many thresholds; the tick is in its middle
_MAX_BOXES = 12  # more boxes hide the picture and cost time; the heat still shows the rest


def annotate(
    frame_hwc: NDArray[np.uint8],
    *,
    map_hw: NDArray[np.float32],
    regions: tuple[Region, ...],
    score: float,
    threshold_score: float,
    threshold_pixel: float,
    verdict: FrameVerdict,
    alarm: bool = False,
    strip: bool = True,
) -> NDArray[np.uint8]:
    """Copy an RGB frame with heat, boxes and, below the picture, a strip with the verdict."""
    height, width = frame_hwc.shape[:2]
    below = strip_height((height, width)) if strip else 0
    out = np.empty((height + below, width, 3), np.uint8)
    picture = out[:height]
    picture[:] = frame_hwc
    if np.isfinite(score):  # an invalid frame has no map worth showing
        _draw_heat(picture, map_hw / np.float32(threshold_pixel))
        _draw_boxes(picture, regions[:_MAX_BOXES])
    if alarm:
        _draw_frame(picture, _COLOURS[verdict] if verdict != "good" else _DEFECT)
    if below:
        _draw_strip(out[height:], score=score, threshold=threshold_score, verdict=verdict)
    return out


def annotate_result(
    result: FrameResult,
    *,
    min_side: int | None = None,
    max_side: int | None = None,
    strip: bool = True,
) -> NDArray[np.uint8]:
    """Annotate a scored frame, first resized so that its longer side is within the limits."""
    frame_hwc = result.frame_hwc
    factor = _factor(max(frame_hwc.shape[:2]), min_side=min_side, max_side=max_side)
    if factor != 1.0:
        height, width = frame_hwc.shape[:2]
        size_wh = (max(1, round(width * factor)), max(1, round(height * factor)))
        method = cv2.INTER_AREA if factor < 1.0 else cv2.INTER_LINEAR
        frame_hwc = cv2.resize(frame_hwc, size_wh, interpolation=method).astype(
            np.uint8, copy=False
        )
    return annotate(
        frame_hwc,
        map_hw=result.map_hw,
        regions=tuple(_scale_region(region, factor) for region in result.regions[:_MAX_BOXES]),
        score=result.prediction.score,
        threshold_score=result.threshold_score,
        threshold_pixel=result.threshold_pixel,
        verdict=result.verdict,
        alarm=result.alarm,
        strip=strip,
    )


def _factor(side: int, *, min_side: int | None, max_side: int | None) -> float:
    if max_side is not None and side > max_side:
        return max_side / side
    if min_side is not None and side < min_side:
        return float(-(-min_side // side))  # a whole one: pixels stay square
    return 1.0


def strip_height(size_hw: tuple[int, int]) -> int:
    """Return the rows of the strip: legible at 256 pixels, in proportion at 4K, even for video."""
    return 2 * round(min(size_hw) * 0.045 + 7)


def _scale_region(region: Region, factor: float) -> Region:
    x, y, w, h = (round(value * factor) for value in region.box_xywh)
    return Region(box_xywh=(x, y, max(1, w), max(1, h)), area_px=region.area_px, peak=region.peak)


def _heat_tables() -> tuple[NDArray[np.uint8], ...]:
    """Return tables by heat 0..255: the share of the frame, and red, green and blue to add."""
    heat = np.linspace(0.0, 1.0, 256)
    alpha = _HEAT_ALPHA * np.sqrt(heat)  # rises at once: the edge of a defect must be visible
    towards_red = np.minimum(1.0, 1.6 * heat)
    amber, red = (255.0, 196.0, 0.0), (255.0, 0.0, 40.0)
    added = [alpha * (a + (r - a) * towards_red) for a, r in zip(amber, red, strict=True)]
    return tuple(np.rint(table).astype(np.uint8) for table in (255.0 * (1.0 - alpha), *added))


_HEAT_TABLES = _heat_tables()


def _draw_heat(picture: NDArray[np.uint8], relative_hw: NDArray[np.float32]) -> None:
    scaled_hw = (relative_hw - _HEAT_FROM) * (255.0 / (_HEAT_FULL - _HEAT_FROM))
    # Upwards, so that only what is above the threshold is hotter than it; NaN is hottest.
    heat_hw = np.maximum(np.fmin(np.ceil(scaled_hw), 255.0), 0.0).astype(np.uint8)
    x, y, w, h = cv2.boundingRect(heat_hw)  # of what is not zero
    if not w:
        return
    # Work only where there is heat, one map pixel wider so that it fades out, not off.
    map_h, map_w = heat_hw.shape
    x0, y0, x1, y1 = max(0, x - 1), max(0, y - 1), min(map_w, x + w + 1), min(map_h, y + h + 1)
    left, right = x0 * picture.shape[1] // map_w, -(-x1 * picture.shape[1] // map_w)
    top, bottom = y0 * picture.shape[0] // map_h, -(-y1 * picture.shape[0] // map_h)
    part = picture[top:bottom, left:right]
    heat = cv2.resize(heat_hw[y0:y1, x0:x1], (part.shape[1], part.shape[0]))
    # One-channel tables: OpenCV's table of three channels takes ten times as long.
    kept, red, green, blue = (cv2.LUT(heat, table) for table in _HEAT_TABLES)
    dimmed = cv2.multiply(part, cv2.merge((kept, kept, kept)), scale=1 / 255)
    cv2.add(dimmed, cv2.merge((red, green, blue)), dst=part)
    _, above = cv2.threshold(heat, _HEAT_AT_THRESHOLD, 255, cv2.THRESH_BINARY)
    contours, _ = cv2.findContours(above, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    cv2.drawContours(part, contours, -1, (255, 255, 255), _unit(picture), cv2.LINE_AA)


def _draw_boxes(picture: NDArray[np.uint8], regions: tuple[Region, ...]) -> None:
    """Draw corner brackets around each region: they mark it and leave its edge visible."""
    unit = _unit(picture)
    for region in regions:
        x, y, w, h = region.box_xywh
        margin = 3 * unit
        x0, y0 = max(0, x - margin), max(0, y - margin)
        x1 = min(picture.shape[1] - 1, x + w + margin)
        y1 = min(picture.shape[0] - 1, y + h + margin)
        arm = max(3 * unit, min(x1 - x0, y1 - y0) // 4)
        corners = ((x0, y0, 1, 1), (x1, y0, -1, 1), (x0, y1, 1, -1), (x1, y1, -1, -1))
        # Dark under light: one of the two stands out on any part.
        for colour, thick in (((0, 0, 0), 2 * unit + 1), ((255, 255, 255), unit)):
            for px, py, sx, sy in corners:
                cv2.line(picture, (px, py), (px + sx * arm, py), colour, thick)
                cv2.line(picture, (px, py), (px, py + sy * arm), colour, thick)


def _draw_frame(picture: NDArray[np.uint8], colour: Colour) -> None:
    thick = 2 * _unit(picture)
    for edge in (picture[:thick], picture[-thick:], picture[:, :thick], picture[:, -thick:]):
        edge[:] = colour


def _unit(picture: NDArray[np.uint8]) -> int:
    """Return the width of a thin line: one pixel up to VGA, four at 4K."""
    height, width = picture.shape[:2]
    return int(max(1, round(min(height, width) / 500)))


def _draw_strip(
    strip: NDArray[np.uint8], *, score: float, threshold: float, verdict: FrameVerdict
) -> None:
    strip[:] = _STRIP
    height, width = strip.shape[:2]
    pad = height // 4
    scale = height * 0.016
    thick = max(1, round(height / 18))
    label = verdict.upper().replace("_", " ")
    (label_w, label_h), _ = cv2.getTextSize(label, _FONT, scale, thick)
    pill = min(width, label_w + 3 * pad)
    strip[:, :pill] = _COLOURS[verdict]
    base = (height + label_h) // 2
    cv2.putText(
        strip, label, (3 * pad // 2, base), _FONT, scale, (255, 255, 255), thick, cv2.LINE_AA
    )
    numbers = f"{score:.1f} / {threshold:.1f}" if np.isfinite(score) else "no score"
    (numbers_w, _), _ = cv2.getTextSize(numbers, _FONT, scale, thick)
    right = width - numbers_w - pad
    if right < pill + pad:
        return  # a picture too narrow for both: the verdict stays
    cv2.putText(strip, numbers, (right, base), _FONT, scale, _TEXT, thick, cv2.LINE_AA)
    left, end = pill + pad, right - pad
    if end - left < height:
        return
    top, bottom = height // 2 - height // 8, height // 2 + height // 8 + 1
    strip[top:bottom, left:end] = _TRACK
    if np.isfinite(score) and threshold > 0:
        part = min(1.0, max(0.0, score / threshold / _BAR_FULL))
        strip[top:bottom, left : left + round(part * (end - left))] = _COLOURS[verdict]
    tick = left + round((end - left) / _BAR_FULL)
    strip[height // 6 : -(height // 6), tick - thick : tick + thick] = _TEXT
