"""Why a model finds few of the planted defects, as far as its scores can tell."""

from collections.abc import Container, Sequence
from dataclasses import replace

from edgeseg.base.messages import Message
from edgeseg.decision.deciding_images import apart_count, deciding_count
from edgeseg.decision.operating_point import OperatingPoint
from edgeseg.teach.report import FitReport, GoodScore

LOW = 0.8  # of the planted defects: a smaller share needs a word
FEW_PARTS = 20
_MATTERS = 0.1  # of the planted defects
_NAMED = 3


def striking(report: FitReport, threshold: float) -> list[GoodScore]:
    """List the good pictures that set the threshold or look like no other, the oddest first."""
    scores, _ = report.of_parts()
    deciding = _highest(report, deciding_count(scores, threshold))
    return [*deciding, *(item for item in falling(report)[len(deciding) :] if item.foreign)]


def falling(report: FitReport) -> list[GoodScore]:
    """Sort the good pictures by their scores, the highest first."""
    return sorted(report.good, key=lambda item: -item.score)


def _highest(report: FitReport, parts: int) -> list[GoodScore]:
    """List the pictures with the highest scores, until they show so many parts."""
    shown: list[GoodScore] = []
    seen: set[int] = set()
    for place, item in enumerate(falling(report)):
        part = -1 - place if item.part is None else item.part
        if len(seen) == parts and part not in seen:
            break
        seen.add(part)
        shown.append(item)
    return shown


def planted_warnings(
    report: FitReport, places: Sequence[float], *, kept: Container[str] = ()
) -> dict[float, Message | None]:
    """Say of each rate why it finds few planted defects; None where it does not.

    `kept` are pictures that somebody has looked at: they are no cause to look for.
    """
    points = {at: report.point(at) for at in places}
    enough = next((at for at in places if (points[at].recall or 0.0) >= LOW), None)
    better = None if enough is None else points[enough]
    return {at: _warning(report, chosen, better, kept) for at, chosen in points.items()}


def _warning(
    report: FitReport,
    chosen: OperatingPoint,
    better: OperatingPoint | None,
    kept: Container[str],
) -> Message | None:
    if chosen.recall is None or chosen.recall >= LOW:
        return None
    share = _percent(chosen.recall)
    odd = _apart(report, chosen.score, kept)
    without = _recall_without(report, odd, chosen)
    if without >= chosen.recall + _MATTERS:
        return Message(
            "planted_low_pictures", n=share, names=_names(odd), n_without=_percent(without)
        )
    if chosen.images < FEW_PARTS:
        return Message("planted_low_few", n=share, n_parts=chosen.images, n_few=FEW_PARTS)
    if better is None or better.recall is None:
        return Message("planted_low_vary", n=share)
    rate = 1000 * better.requested_rate
    return Message("planted_low_rate", n=share, n_rate=rate, n_more=_percent(better.recall))


def _apart(report: FitReport, threshold: float, kept: Container[str]) -> list[GoodScore]:
    """List the pictures that stand apart from the others, of those that nobody has looked at."""
    left = tuple(item for item in report.good if item.name not in kept)
    if not left:
        return []
    new = replace(report, good=left)
    scores, _ = new.of_parts()
    first = _highest(new, apart_count(scores, most=deciding_count(scores, threshold)))
    return [*first, *(item for item in falling(new)[len(first) :] if item.foreign)]


def _recall_without(report: FitReport, out: list[GoodScore], chosen: OperatingPoint) -> float:
    """Compute the share of planted defects that would be found without some good pictures."""
    left = tuple(item for item in report.good if item not in out)
    if not left:
        return 0.0
    return replace(report, good=left).point(1000 * chosen.requested_rate).recall or 0.0


def _percent(share: float) -> int:
    return round(100 * share)


def _names(items: list[GoodScore]) -> str:
    shown = ", ".join(item.name or "?" for item in items[:_NAMED])
    return shown + ", ..." * (len(items) > _NAMED)
