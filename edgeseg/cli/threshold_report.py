"""Good scores and thresholds for people: a table, a histogram, a picture and a page."""

import html
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.base.files import write_text
from edgeseg.base.tables import align_columns
from edgeseg.cli.threshold_evidence import Evidence
from edgeseg.decision.deciding_images import OddGoodParts
from edgeseg.decision.operating_point import OperatingPoint, guarantee, interval_words
from edgeseg.decision.prediction import above
from edgeseg.decision.score_origin import percent
from edgeseg.decision.thresholds import Thresholds
from edgeseg.vision.images import write_image

HEAD = ("false alarms", "promised", "images needed", "threshold", "pixel", "good above", "found")
_DECIDING = ("score", "p-value", "threshold without it and those above", "image")
_TRY = "edgeseg threshold MODEL --defects FOLDER"
UNDERSTATES = f"planted defects mostly understate what is found of real ones; try yours: {_TRY}"
EARLIER = "about: the fit scored them on its own images, before this computer's good ones"
_BINS, _WIDTH = 16, 40  # of the histogram in text: rows, and columns of the longest bar
_HEIGHT, _PICTURE_BINS, _EDGE = 360, 48, 40  # of the picture, in pixels
Colour = tuple[int, int, int]  # RGB
_INK: Colour = (40, 40, 40)
_GOOD: Colour = (70, 130, 190)
_PLANTED: Colour = (200, 120, 60)
LABELLED: Colour = (130, 50, 150)
_LINE: Colour = (200, 30, 30)
_DOUBT: Colour = (214, 142, 18)


def table_of(evidence: Evidence) -> list[list[str]]:
    """Rows of the table as text: a head, then one row a rate."""
    about = "about " * evidence.earlier
    rows = [
        [
            percent(point.requested_rate) + " (stored)" * _is_stored(point, evidence.chosen),
            percent(point.promised_rate),
            f"{point.images} of {point.needed}" if not point.kept else str(point.needed),
            f"{point.score:.4f}",
            f"{point.pixel:.4f}",
            str(point.exceeding),
            "-" if point.recall is None else f"{about}{point.recall:.0%}",
        ]
        for point in evidence.points
    ]
    if not evidence.labelled:
        return [list(HEAD), *rows]
    shares = [f"{share:.0%}" for share in _recall_of_labelled(evidence)]
    return [[*row, last] for row, last in zip([HEAD, *rows], ["of yours", *shares], strict=True)]


def table_lines(evidence: Evidence) -> list[str]:
    """Lines of the table of rates, and what its columns mean."""
    return [*align_columns(table_of(evidence)), *_meanings(evidence)]


def _meanings(evidence: Evidence) -> list[str]:
    """Explain the columns that tell what is found."""
    lines = [f"found: no planted defects were scored for this model; try yours: {_TRY}"]
    if evidence.planted:
        lines = ["found: share of planted defects above the threshold", UNDERSTATES]
    if evidence.planted and evidence.earlier:
        lines.append(EARLIER)
    if count := len(evidence.labelled):
        lines.append(f"of yours: share of the {count} given defects above the threshold")
    return lines


def _recall_of_labelled(evidence: Evidence) -> list[float]:
    scores = np.asarray(evidence.labelled, np.float64)
    return [float(np.mean(above(scores, point.score))) for point in evidence.points]


def text_of(evidence: Evidence) -> list[str]:
    """Lines about the stored choice, the images that decide it, and a histogram."""
    chosen = evidence.chosen
    histogram = histogram_lines(evidence.scores, chosen)
    stored = choice_lines(chosen, count=len(evidence.scores))
    return [*stored, *deciding_lines(evidence), *question_lines(evidence), "", *histogram]


def deciding_lines(evidence: Evidence) -> list[str]:
    """List the good images that decide the threshold; empty where they are not known."""
    if not evidence.deciding:
        return []
    title = "good images with the highest scores decide it:"
    return [title, *align_columns(_deciding_table(evidence), last_left=True)]


def question_lines(evidence: Evidence) -> list[str]:
    """Ask for the listed good images that score unlike the others; empty where there are none."""
    odd = evidence.odd
    if odd is None or not evidence.deciding:
        return []
    one = odd.count == 1
    first = "the first scores" if one else f"the first {odd.count} score"
    robust = ", or fit with --robust drop" if evidence.screened else ""
    question, them = ("is it a good part", "it") if one else ("are they good parts", "them")
    return [
        f"{first} unlike the others: {question}? Without {them} the threshold would be "
        f"{odd.threshold_without:.4f}{_found_without(evidence, odd)}",
        f"if not, take {them} out{robust}; if so, add more parts like {them}",
    ]


def _found_without(evidence: Evidence, odd: OddGoodParts) -> str:
    without, now = _planted_found(evidence, odd)
    if without is None or now is None:
        return ""
    return f", and {without:.0%} of the planted defects would be found, not {now:.0%}"


def _planted_found(evidence: Evidence, odd: OddGoodParts) -> tuple[float | None, float | None]:
    """Return the share of planted defects above the threshold without odd images, and above it."""
    if not evidence.planted:
        return None, None
    planted = np.asarray(evidence.planted, np.float64)
    without, now = (
        float(np.mean(above(planted, value)))
        for value in (odd.threshold_without, evidence.chosen.score)
    )
    return without, now


def _question_facts(evidence: Evidence) -> dict[str, Any] | None:
    """Values of the question; None where there is none."""
    if evidence.odd is None or not evidence.deciding:
        return None
    without, now = _planted_found(evidence, evidence.odd)
    return asdict(evidence.odd) | {"planted_found_without": without, "planted_found": now}


def _deciding_table(evidence: Evidence) -> list[tuple[str, ...]]:
    rows = [
        (f"{row.score:.4f}", f"{row.p_value:.3g}", f"{row.threshold_without:.4f}", row.image)
        for row in evidence.deciding
    ]
    return [_DECIDING, *rows]


def facts_of(evidence: Evidence) -> dict[str, Any]:
    """Values of the table, for JSON."""
    rates = [
        asdict(point) | {"kept": point.kept, "eight_fits_in_ten": list(point.interval)}
        for point in evidence.points
    ]
    if evidence.labelled:
        for rate, share in zip(rates, _recall_of_labelled(evidence), strict=True):
            rate["labelled_recall"] = share
    return {
        "images": evidence.pictures or len(evidence.scores),
        "parts": len(evidence.scores),
        "rates": rates,
        "planted": {"count": len(evidence.planted), "before_calibration": evidence.earlier},
        "deciding": [asdict(each) for each in evidence.deciding],
        "question": _question_facts(evidence),
    }


def histogram_lines(scores: Sequence[float], chosen: Thresholds) -> list[str]:
    """Draw a histogram of good scores as text, with the thresholds between its bars."""
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
    folder: Path, evidence: Evidence, *, sheet: NDArray[np.uint8] | None = None
) -> list[Path]:
    """Write a picture, and a page that shows it with the table.

    `sheet` has pictures of the good images that decide.
    """
    picture, page = folder / "threshold.png", folder / "threshold.html"
    shown = folder / "deciding.png"
    write_image(picture, draw(evidence))
    if sheet is None:
        shown.unlink(missing_ok=True)  # of an earlier threshold: it would be taken for this one's
    else:
        write_image(shown, sheet)
    write_text(page, _page(evidence, picture.name, "" if sheet is None else shown.name))
    return [picture, page] if sheet is None else [picture, shown, page]


def draw(evidence: Evidence, *, width: int = 900) -> NDArray[np.uint8]:
    """Draw good scores, those of planted and known defects, and the thresholds, in RGB."""
    chosen = evidence.chosen
    good = np.asarray(evidence.scores, np.float64)
    # Defects far away must not squeeze the good scores into one bar.
    high = max(float(good.max()), chosen.score) * 1.6 or 1.0
    low = min(float(good.min()), chosen.score)
    edges = np.linspace(low, max(high, low + 1e-9), _PICTURE_BINS + 1)
    picture = np.full((_HEIGHT, width, 3), 255, np.uint8)
    floor, room = _HEIGHT - _EDGE, _HEIGHT - 2 * _EDGE

    def column(score: float) -> int:
        share = (min(score, edges[-1]) - edges[0]) / (edges[-1] - edges[0])
        return int(_EDGE + share * (width - 2 * _EDGE))

    for kind in _kinds(evidence):
        values = np.clip(np.asarray(kind.scores, np.float64), edges[0], edges[-1])
        counts, _ = np.histogram(values, bins=edges)
        for count, left, right in zip(counts.tolist(), edges[:-1], edges[1:], strict=True):
            top = floor - round(room * count / max(int(counts.max()), 1))
            side = round((column(right) - column(left)) * (1 - kind.width) / 2)
            corner = (column(right) - side - 1, floor)
            if count:
                cv2.rectangle(picture, (column(left) + side, top), corner, kind.colour, cv2.FILLED)
    cv2.line(picture, (_EDGE, floor), (width - _EDGE, floor), _INK, 1)
    for value, colour, down in ((chosen.unsure, _DOUBT, 26), (chosen.score, _LINE, 10)):
        if value is not None:
            cv2.line(picture, (column(value), _EDGE // 2), (column(value), floor), colour, 2)
            _write(picture, f"{value:.4g}", (column(value) + 4, _EDGE // 2 + down), colour)
    _write(picture, f"{edges[0]:.4g}", (_EDGE, floor + 18), _INK)
    _write(picture, f"{edges[-1]:.4g} and above", (width - 170, floor + 18), _INK)
    return picture


@dataclass(frozen=True, kw_only=True)
class _Kind:
    """Scores that share a colour."""

    words: str
    scores: Sequence[float]
    colour: Colour
    width: float  # of a bar, as a share of its place


def _kinds(evidence: Evidence) -> list[_Kind]:
    """Kinds of scores to draw, the widest bars first: narrow ones stay visible before them."""
    kinds = [
        _Kind(words="Blue: good images", scores=evidence.scores, colour=_GOOD, width=0.9),
        _Kind(words="brown: planted defects", scores=evidence.planted, colour=_PLANTED, width=0.45),
        _Kind(words="purple: your defects", scores=evidence.labelled, colour=LABELLED, width=0.2),
    ]
    return [kind for kind in kinds if kind.scores]


def _write(picture: NDArray[np.uint8], text: str, at_xy: tuple[int, int], colour: Colour) -> None:
    cv2.putText(picture, text, at_xy, cv2.FONT_HERSHEY_SIMPLEX, 0.45, colour, 1, cv2.LINE_AA)


def _is_stored(point: OperatingPoint, chosen: Thresholds) -> bool:
    return point.requested_rate == chosen.requested_rate and point.score == chosen.score


def choice_lines(chosen: Thresholds, *, count: int = 0) -> list[str]:
    """Lines about the stored thresholds, and what `count` good parts can promise."""
    lines = [
        f"stored: score {chosen.score:.4f} decides, pixel {chosen.pixel:.4f} marks "
        f"({chosen.method})",
        f"it answers for {percent(chosen.false_alarm_rate)} false alarms: {guarantee(chosen)}",
    ]
    if count and chosen.false_alarm_rate < 1:
        rate, promise = chosen.requested_rate, chosen.promise
        lines.append(interval_words(count, rate=rate, promise=promise))
    if chosen.unsure is not None:
        lines.append(f"unsure: scores above {chosen.unsure:.4f}, rate {chosen.unsure_rate:g}")
    return lines


def _page(evidence: Evidence, picture_name: str, sheet_name: str) -> str:
    lines = choice_lines(evidence.chosen, count=len(evidence.scores))
    stored, meanings = map(_paragraphs, (lines, _meanings(evidence)))
    colours = ", ".join(kind.words for kind in _kinds(evidence))
    deciding = _deciding_section(evidence, sheet_name)
    title = html.escape(f"Threshold of {evidence.name}")
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
<p>{colours}, red: the threshold.</p>
{_table(table_of(evidence))}
{meanings}{deciding}</body>
</html>
"""


def _deciding_section(evidence: Evidence, sheet_name: str) -> str:
    """Write the images that decide, the question they raise, and their pictures."""
    if not evidence.deciding:
        return ""
    title, table = "<h2>Good images that decide it</h2>", _table(_deciding_table(evidence))
    sheet = f'<img src="{sheet_name}" alt="Good images that decide, and where they are odd">\n'
    return f"{title}\n{table}\n{_paragraphs(question_lines(evidence))}{sheet * bool(sheet_name)}"


def _paragraphs(lines: Sequence[str]) -> str:
    return "".join(f"<p>{html.escape(line)}</p>\n" for line in lines)


def _table(rows: Sequence[Sequence[str]]) -> str:
    """Write rows as an HTML table; the first row is its head."""

    def row(tag: str, cells: Sequence[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    body = "\n".join(row("td", cells) for cells in rows[1:])
    return f"<table>\n{row('th', rows[0])}\n{body}\n</table>"
