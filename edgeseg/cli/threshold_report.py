"""Good scores and thresholds for people: a table, a histogram, a picture and a page."""

import html
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.contract.images import write_image
from edgeseg.contract.metadata import Thresholds
from edgeseg.contract.operating_point import OperatingPoint, guarantee, percent
from edgeseg.contract.prediction import above
from edgeseg.files import write_text
from edgeseg.tables import aligned

HEAD = ("false alarms", "promised", "images needed", "threshold", "pixel", "good above", "found")
_BINS, _WIDTH = 16, 40  # of the histogram in text: rows, and columns of the longest bar
_HEIGHT, _PICTURE_BINS, _EDGE = 360, 48, 40  # of the picture, in pixels
Colour = tuple[int, int, int]  # RGB
_INK: Colour = (40, 40, 40)
_GOOD: Colour = (70, 130, 190)
_PLANTED: Colour = (200, 120, 60)
_LINE: Colour = (200, 30, 30)
_DOUBT: Colour = (214, 142, 18)


def rows_of(points: Sequence[OperatingPoint], chosen: Thresholds | None) -> list[list[str]]:
    """One row a rate, as words."""
    return [
        [
            percent(point.requested_rate) + " (stored)" * _is_stored(point, chosen),
            percent(point.promised_rate),
            f"{point.images} of {point.needed}" if not point.kept else str(point.needed),
            f"{point.score:.4f}",
            f"{point.pixel:.4f}",
            str(point.exceeding),
            "-" if point.recall is None else f"{point.recall:.0%}",
        ]
        for point in points
    ]


def table_lines(
    points: Sequence[OperatingPoint],
    chosen: Thresholds | None = None,
    labelled: Sequence[float] = (),
) -> list[str]:
    """What every rate promises and costs; `labelled` are scores of known defects."""
    rows = [list(HEAD), *rows_of(points, chosen)]
    if labelled:
        shares = [f"{share:.0%}" for share in _found(points, labelled)]
        rows = [[*row, last] for row, last in zip(rows, ["of yours", *shares], strict=True)]
    lines = aligned(rows)
    planted = any(point.recall is not None for point in points)
    found = "found: share of planted defects above the threshold"
    lines.append(found if planted else "found: no planted defects were scored for this model")
    if labelled:
        lines.append(f"of yours: share of the {len(labelled)} given defects above the threshold")
    return lines


def _found(points: Sequence[OperatingPoint], labelled: Sequence[float]) -> list[float]:
    scores = np.asarray(labelled, np.float64)
    return [float(np.mean(above(scores, point.score))) for point in points]


def text_of(chosen: Thresholds, scores: Sequence[float]) -> list[str]:
    """The stored choice, what is known of its promise, and where it lies among the scores."""
    return [*_stored_lines(chosen), "", *histogram_lines(scores, chosen)]


def facts_of(points: Sequence[OperatingPoint], labelled: Sequence[float] = ()) -> dict[str, Any]:
    """The table for programs."""
    rates = [asdict(point) | {"kept": point.kept} for point in points]
    if labelled:
        for rate, share in zip(rates, _found(points, labelled), strict=True):
            rate["labelled_recall"] = share
    return {"images": points[0].images, "rates": rates}


def histogram_lines(scores: Sequence[float], chosen: Thresholds) -> list[str]:
    """Bars of good scores from low to high, with the thresholds between them."""
    marks = [(chosen.score, f"threshold {chosen.score:.4f}")]
    if chosen.unsure is not None:
        marks.insert(0, (chosen.unsure, f"unsure above {chosen.unsure:.4f}"))
    counts, edges = np.histogram(np.asarray(scores, np.float64), bins=_BINS)
    lines, longest = ["good scores"], int(counts.max())
    for count, low, high in zip(counts.tolist(), edges[:-1], edges[1:], strict=True):
        while marks and marks[0][0] < low:
            lines.append(f"  ---- {marks.pop(0)[1]}")
        bar = "#" * max(round(_WIDTH * count / longest), int(count > 0))
        lines.append(f"  {low:>10.4f} to {high:>10.4f}  {bar} {count or ''}".rstrip())
    return lines + [f"  ---- {words}" for _, words in marks]


def write_page(
    folder: Path,
    name: str,
    chosen: Thresholds,
    scores: Sequence[float],
    points: Sequence[OperatingPoint],
    planted: Sequence[float],
) -> tuple[Path, Path]:
    """A picture, and a page that shows it with the table."""
    picture, page = folder / "threshold.png", folder / "threshold.html"
    write_image(picture, draw(scores, planted, chosen))
    write_text(page, _page(name, chosen, points, picture.name))
    return picture, page


def draw(
    scores: Sequence[float], planted: Sequence[float], chosen: Thresholds, *, width: int = 900
) -> NDArray[np.uint8]:
    """Good scores, planted defects above them, and the thresholds; RGB."""
    good, bad = np.asarray(scores, np.float64), np.asarray(planted, np.float64)
    # Defects far away must not squeeze the good scores into one bar.
    high = max(float(good.max()), chosen.score) * 1.6 or 1.0
    low = min(float(good.min()), chosen.score)
    edges = np.linspace(low, max(high, low + 1e-9), _PICTURE_BINS + 1)
    picture = np.full((_HEIGHT, width, 3), 255, np.uint8)
    floor, room = _HEIGHT - _EDGE, _HEIGHT - 2 * _EDGE

    def column(score: float) -> int:
        share = (min(score, edges[-1]) - edges[0]) / (edges[-1] - edges[0])
        return int(_EDGE + share * (width - 2 * _EDGE))

    for values, colour, part in ((bad, _PLANTED, 0.45), (good, _GOOD, 0.9)):
        counts, _ = np.histogram(np.minimum(values, edges[-1]), bins=edges)
        for count, left, right in zip(counts.tolist(), edges[:-1], edges[1:], strict=True):
            top = floor - round(room * count / max(int(counts.max()), 1))
            side = round((column(right) - column(left)) * (1 - part) / 2)
            corner = (column(right) - side - 1, floor)
            if count:
                cv2.rectangle(picture, (column(left) + side, top), corner, colour, cv2.FILLED)
    cv2.line(picture, (_EDGE, floor), (width - _EDGE, floor), _INK, 1)
    for value, colour, down in ((chosen.unsure, _DOUBT, 26), (chosen.score, _LINE, 10)):
        if value is not None:
            cv2.line(picture, (column(value), _EDGE // 2), (column(value), floor), colour, 2)
            _write(picture, f"{value:.4g}", (column(value) + 4, _EDGE // 2 + down), colour)
    _write(picture, f"{edges[0]:.4g}", (_EDGE, floor + 18), _INK)
    _write(picture, f"{edges[-1]:.4g} and above", (width - 170, floor + 18), _INK)
    return picture


def _write(picture: NDArray[np.uint8], text: str, at_xy: tuple[int, int], colour: Colour) -> None:
    cv2.putText(picture, text, at_xy, cv2.FONT_HERSHEY_SIMPLEX, 0.45, colour, 1, cv2.LINE_AA)


def _is_stored(point: OperatingPoint, chosen: Thresholds | None) -> bool:
    if chosen is None:
        return False
    return point.requested_rate == chosen.requested_rate and point.score == chosen.score


def _stored_lines(chosen: Thresholds) -> list[str]:
    lines = [
        f"stored: score {chosen.score:.4f} decides, pixel {chosen.pixel:.4f} marks "
        f"({chosen.method})",
        f"it answers for {percent(chosen.false_alarm_rate)} false alarms: "
        f"{guarantee(chosen.method)}",
    ]
    if chosen.unsure is not None:
        lines.append(f"unsure: scores above {chosen.unsure:.4f}, rate {chosen.unsure_rate:g}")
    return lines


def _page(
    name: str, chosen: Thresholds, points: Sequence[OperatingPoint], picture_name: str
) -> str:
    def row(tag: str, cells: Sequence[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    body = "\n".join(row("td", cells) for cells in rows_of(points, chosen))
    stored = "".join(f"<p>{html.escape(line)}</p>\n" for line in _stored_lines(chosen))
    title = html.escape(f"Threshold of {name}")
    return f"""<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>{title}</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto }}
td, th {{ padding: .2rem .8rem; text-align: right; border-bottom: 1px solid #ddd }}
img {{ max-width: 100% }}
</style></head>
<body>
<h1>{title}</h1>
{stored}<img src="{picture_name}" alt="Histogram of good scores with the threshold">
<p>Blue: good images. Brown: planted defects, where they were scored. Red: the threshold.</p>
<table>
{row("th", HEAD)}
{body}
</table>
</body>
</html>
"""
