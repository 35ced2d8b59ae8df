"""Figures by which people choose a false-alarm rate: the table behind the slider."""

from collections.abc import Container, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from edgeseg.base.messages import Message
from edgeseg.decision.operating_point import OperatingPoint, guarantee, p_value
from edgeseg.decision.planted_scores import spots_found
from edgeseg.decision.prediction import above
from edgeseg.decision.thresholds import Thresholds
from edgeseg.teach.planted_warning import falling, planted_warnings, striking
from edgeseg.teach.report import FitReport

# False alarms in a thousand good parts: the places of the slider.
PLACES = (*range(1, 21), *range(25, 101, 5))
_BINS = 40


def judge_facts(
    report: FitReport, chosen: Thresholds, *, kept: Container[str] = ()
) -> dict[str, Any]:
    """Collect what `TeachService.judge` returns; `kept` are pictures that were looked at."""
    scores, _ = report.of_parts()
    wish = per_thousand(chosen)
    known = _guarantee_sentence(report, chosen)
    places = sorted({*PLACES, wish})
    warnings = planted_warnings(report, places, kept=kept)
    rows = [{**row(report, at), "warning": warnings[at]} for at in places]
    worst = falling(report)
    asked = striking(report, chosen.score)
    return {
        "scores": _histogram(report),
        "table": rows,
        "chosen": wish,
        "threshold": chosen.score,
        "worst": [
            {
                "name": item.name,
                "score": item.score,
                "p_value": p_value(item.score, scores),
                "foreign": item.foreign,
                "asks": item in asked,
                "threshold_without": _without(report, at, chosen) if item in asked else None,
                "oddest": at == 0 and len(scores) > 2,
            }
            for at, item in enumerate(worst)
        ],
        "bad": [
            {"name": item.name, "score": item.score, "found": is_found(item.score, chosen)}
            for item in report.bad
        ],
        "images": report.images,
        "when": report.when,
        "parts": len(scores),
        "guarantee": known,
        "sentence": f"{_promise(report.point(wish))}; {known}",
    }


def _without(report: FitReport, place: int, chosen: Thresholds) -> float | None:
    """Compute the threshold without a picture and all higher ones; None where it is no lower."""
    left = replace(report, good=tuple(falling(report)[place + 1 :]))
    rate = per_thousand(chosen)
    if not left.good or report.point(rate).score != chosen.score:  # something else has set it
        return None
    without = left.point(rate).score
    return without if without < chosen.score else None


def _smallest(report: FitReport, threshold: float) -> Message | None:
    """Say how many planted spots of the smallest size are found; None where nobody has said one."""
    if not report.smallest:
        return None
    return spots_found({"px": report.smallest, "scores": report.spots}, threshold)


def is_found(score: float | None, chosen: Thresholds) -> bool:
    """Tell whether a bad part would be stopped; one without a score always is."""
    return score is None or bool(above(np.array([score]), chosen.score)[0])


def row(report: FitReport, per_thousand: float) -> dict[str, Any]:
    """Make the row of a place of the slider."""
    chosen = report.point(per_thousand)
    bad = [item.score for item in report.bad]
    return {
        "per_thousand": per_thousand,
        "threshold": chosen.score,
        "promise": _promise(chosen),
        "kept": chosen.kept,
        "good_alarms": chosen.exceeding,
        "planted_found": chosen.recall,
        "smallest": _smallest(report, chosen.score),
        "bad_found": _share_found(bad, chosen.score),
    }


def per_thousand(chosen: Thresholds) -> float:
    """Convert the requested rate to false alarms in a thousand."""
    return round(1000 * chosen.requested_rate, 3)


def _share_found(scores: Sequence[float | None], threshold: float) -> float | None:
    if not scores:
        return None
    known = np.array([np.inf if score is None else score for score in scores])
    return float(np.mean(above(known, threshold)))


def _guarantee_sentence(report: FitReport, chosen: Thresholds) -> Message:
    """Say what is guaranteed, and how it varies from fit to fit."""
    if chosen.false_alarm_rate >= 1:
        return guarantee(chosen)
    low, high = report.point(per_thousand(chosen)).interval
    return Message("guarantee_spread", words=guarantee(chosen), n_low=100 * low, n=100 * high)


def _promise(chosen: OperatingPoint) -> Message:
    pictures, parts = chosen.pictures or chosen.images, chosen.images
    wish, can = 1000 * chosen.requested_rate, 1000 * chosen.promised_rate
    needed = chosen.needed
    if parts == 1 < pictures:
        return Message("promise_one_part", n=pictures, n_needed=needed, n_wish=wish)
    if chosen.kept:
        return Message("promise_kept", n=wish)
    if parts < pictures:
        return Message(
            "promise_parts", n=pictures, n_parts=parts, n_can=can, n_needed=needed, n_wish=wish
        )
    return Message("promise_weak", n=parts, n_can=can, n_needed=needed, n_wish=wish)


def _histogram(report: FitReport) -> dict[str, Any]:
    groups = {
        "good": [item.score for item in report.good],
        "planted": list(report.planted),
        "bad": [item.score for item in report.bad if item.score is not None],
    }
    every = np.array([score for group in groups.values() for score in group])
    low, high = float(every.min()), float(every.max())
    edges = np.linspace(low, high if high > low else low + 1.0, _BINS + 1)
    counts = {name: np.histogram(group, edges)[0].tolist() for name, group in groups.items()}
    return {"edges": edges.tolist(), **counts}
