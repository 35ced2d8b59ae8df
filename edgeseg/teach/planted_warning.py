"""Why a model finds few of the planted defects, as far as its scores can tell."""

from collections.abc import Container, Sequence
from dataclasses import replace

from edgeseg.base.messages import Message
from edgeseg.decision.operating_point import OperatingPoint
from edgeseg.teach.report import FitReport, GoodScore

LOW = 0.8  # of the planted defects: a smaller share needs a word
FEW_PARTS = 20
MOST_DECIDING = 6  # pictures that one looks at one by one
_MATTERS = 0.1  # of the planted defects
_NAMED = 3


def striking(report: FitReport, threshold: float) -> list[GoodScore]:
    """List the good pictures that set the threshold or look like no other, the oddest first."""
    falling = sorted(report.good, key=lambda item: -item.score)
    deciding = [item for item in falling if item.score >= threshold][:MOST_DECIDING]
    return [item for item in falling if item.foreign or item in deciding]


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
    odd = [item for item in striking(report, chosen.score) if item.name not in kept]
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
