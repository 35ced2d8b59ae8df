"""Choose one of the measured models: within the budget, the one that finds most defects."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from edgeseg.bench.compare.record import ComparedFile

BEST, WITHIN, SLOW = "best", "within the budget", "too slow"


def choose(rows: Sequence[ComparedFile], *, budget_ms: float) -> list[ComparedFile]:
    """State for every timed row whether it is the best, within the budget or too slow; best first.

    The best finds the most planted defects. Rows within one standard error are not told apart by so
    few defects: of them the one with the highest AUROC, and of equal ones the faster.
    """
    timed = [row for row in rows if row.streamed_p95_ms is not None]
    ordered = sorted(timed, key=lambda row: (-_share_found(row), -_auroc(row), _ms(row)))
    fitting = [row for row in ordered if _ms(row) <= budget_ms]
    best = None
    if fitting:
        top = _share_found(fitting[0])
        error = math.sqrt(top * (1 - top) / max(fitting[0].planted, 1))
        alike = [row for row in fitting if _share_found(row) >= top - error]
        best = max(alike, key=lambda row: (_auroc(row), _share_found(row), -_ms(row)))
    stated = [
        replace(row, state=BEST if row is best else WITHIN if _ms(row) <= budget_ms else SLOW)
        for row in ordered
    ]
    return sorted(stated, key=lambda row: (row.state == SLOW, row.state != BEST))


def best_of(rows: Sequence[ComparedFile]) -> ComparedFile | None:
    """Return the row that was chosen; None if nothing is fast enough."""
    return next((row for row in rows if row.state == BEST), None)


def choice_sentences(rows: Sequence[ComparedFile], *, budget_ms: float) -> Iterator[str]:
    """Say which model was chosen, and what more time would bring."""
    best = best_of(rows)
    if best is None:
        if rows:
            fastest = min(rows, key=_ms)
            yield (
                f"Nothing is within {budget_ms:g} ms; the fastest is {fastest.name} on "
                f"{fastest.backend} with {_ms(fastest):.2f} ms."
            )
        return
    yield (
        f"Best within {budget_ms:g} ms: {best.name} on {best.backend}, {_share_found(best):.0%} of "
        f"{best.planted} planted defects found, AUROC {_auroc(best):.3f}, "
        f"{_ms(best):.2f} ms (p95, streamed), {best.megabytes:.1f} MB."
    )
    finding_more = [row for row in rows if _share_found(row) > _share_found(best)]
    if finding_more and _ms(finding_more[0]) > budget_ms:
        row = max(finding_more, key=_share_found)
        yield (
            f"With {_ms(row):.1f} ms a frame {row.name} on {row.backend} would find "
            f"{_share_found(row):.0%} of them."
        )


def _share_found(row: ComparedFile) -> float:
    return row.planted_found or 0.0


def _auroc(row: ComparedFile) -> float:
    return row.planted_auroc or 0.0


def _ms(row: ComparedFile) -> float:
    return math.inf if row.streamed_p95_ms is None else row.streamed_p95_ms
