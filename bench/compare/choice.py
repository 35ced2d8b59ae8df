"""Which of the measured models: those within the budget, by what they find of planted defects."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from edgeseg.bench.compare.record import ComparedFile

BEST, WITHIN, SLOW = "best", "within the budget", "too slow"


def choose(rows: Sequence[ComparedFile], *, budget_ms: float) -> list[ComparedFile]:
    """All rows that were timed with what became of them; the best first, then by what they find.

    The most planted defects found. Those within one standard error of it are not told apart by so
    few defects: of them the one with the highest AUROC, and of equal ones the faster.
    """
    timed = [row for row in rows if row.streamed_p95_ms is not None]
    ordered = sorted(timed, key=lambda row: (-_found(row), -_auroc(row), _ms(row)))
    fitting = [row for row in ordered if _ms(row) <= budget_ms]
    best = None
    if fitting:
        top = _found(fitting[0])
        error = math.sqrt(top * (1 - top) / max(fitting[0].planted, 1))
        alike = [row for row in fitting if _found(row) >= top - error]
        best = max(alike, key=lambda row: (_auroc(row), _found(row), -_ms(row)))
    stated = [
        replace(row, state=BEST if row is best else WITHIN if _ms(row) <= budget_ms else SLOW)
        for row in ordered
    ]
    return sorted(stated, key=lambda row: (row.state == SLOW, row.state != BEST))


def best_of(rows: Sequence[ComparedFile]) -> ComparedFile | None:
    """The one that was chosen, if anything is fast enough."""
    return next((row for row in rows if row.state == BEST), None)


def choice_sentences(rows: Sequence[ComparedFile], *, budget_ms: float) -> Iterator[str]:
    """What was chosen, and what more time would bring."""
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
        f"Best within {budget_ms:g} ms: {best.name} on {best.backend}, {_found(best):.0%} of "
        f"{best.planted} planted defects found, AUROC {_auroc(best):.3f}, "
        f"{_ms(best):.2f} ms (p95, streamed), {best.megabytes:.1f} MB."
    )
    finding_more = [row for row in rows if _found(row) > _found(best)]
    if finding_more and _ms(finding_more[0]) > budget_ms:
        row = max(finding_more, key=_found)
        yield (
            f"With {_ms(row):.1f} ms a frame {row.name} on {row.backend} would find "
            f"{_found(row):.0%} of them."
        )


def _found(row: ComparedFile) -> float:
    return row.planted_found or 0.0


def _auroc(row: ComparedFile) -> float:
    return row.planted_auroc or 0.0


def _ms(row: ComparedFile) -> float:
    return math.inf if row.streamed_p95_ms is None else row.streamed_p95_ms
