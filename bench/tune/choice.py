"""Which of the measured models: those within the budget, by what they find of planted defects."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from edgeseg.bench.harness.tabular import column
from edgeseg.bench.harness.units import Result
from edgeseg.bench.latency.report import SPIN
from edgeseg.contract.metadata import ModelMetadata
from edgeseg.contract.operating_point import operating_point
from edgeseg.errors import DatasetError
from edgeseg.evaluation.metrics import auroc

BEST, WITHIN, SLOW = "best", "within the budget", "too slow"


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What a file finds, by models without the images that it is judged on."""

    recall: float  # of planted defects, at the threshold of the file
    auroc: float  # of planted defects against good images
    planted: int
    good: int

    @classmethod
    def of(cls, metadata: ModelMetadata) -> "Judgement":
        """From the scores that a file carries: through its own numerics where it is rounded."""
        good, planted = metadata.good_scores, metadata.planted_scores
        if not good.scores or not planted:
            raise DatasetError(
                f"{metadata.name}: {len(good.scores)} held-out good images and {len(planted)} "
                "planted defects to judge by, expected some of both; give more good images"
            )
        wish = metadata.threshold.requested_rate or metadata.threshold.false_alarm_rate
        point = operating_point(good.scores, good.peaks, rate=wish, planted=planted)
        labels = np.repeat([0, 1], [len(good.scores), len(planted)])
        separation = auroc(np.concatenate([good.scores, planted]), labels)
        return cls(
            recall=point.recall or 0.0,
            auroc=separation or 0.0,
            planted=len(planted),
            good=len(good.scores),
        )


@dataclass(frozen=True, kw_only=True)
class Row:
    """One file in one backend."""

    backbone: str = field(metadata=column("backbone"))
    precision: str = field(metadata=column("precision"))
    backend: str = field(metadata=column("backend"))
    recall: float = field(metadata=column("planted found", better="high"))
    auroc: float = field(metadata=column("AUROC", better="high"))
    streamed_p50_ms: float = field(metadata=column("streamed p50 ms", digits=2, better="low"))
    streamed_p95_ms: float = field(metadata=column("streamed p95 ms", digits=2, better="low"))
    p50_ms: float = field(metadata=column("back to back p50 ms", digits=2, better="low"))
    processor_ms: float = field(metadata=column("processor ms", digits=2, better="low"))
    megabytes: float = field(metadata=column("MB", digits=1, better="low"))
    arithmetic: str = field(metadata=column("arithmetic"))
    spin: str | None = field(metadata=column("spin"))
    form: str = field(metadata=column("exported as"))
    state: str = field(metadata=column("state"))
    planted: int = 0  # behind `recall`

    @property
    def name(self) -> str:
        """For sentences."""
        return f"{self.backbone} {self.precision} on {self.backend}"


def row_of(exported: Result, timing: Result, *, backend: str) -> Row:
    """The judgement of a backend's own file beside its times."""
    streamed = timing["streamed_ms"]
    return Row(
        backbone=exported["backbone"],
        precision=exported["precision"],
        backend=backend,
        recall=exported["judged"]["recall"],
        auroc=exported["judged"]["auroc"],
        planted=exported["judged"]["planted"],
        streamed_p50_ms=streamed["p50"],
        streamed_p95_ms=streamed["p95"],
        p50_ms=timing["host_ms"]["p50"],
        processor_ms=timing["streamed_processor_ms"],
        megabytes=timing["size_bytes"] / 1e6,
        arithmetic=timing["arithmetic"],
        spin=SPIN[timing["spin"]],
        form=exported["form"],
        state="",
    )


def chosen(rows: Sequence[Row], *, budget_ms: float) -> list[Row]:
    """All rows with what became of them; the best first, then by what they find.

    The most planted defects found. Those within one standard error of it are not told apart by so
    few defects: of them the one with the highest AUROC, and of equal ones the faster.
    """
    ordered = sorted(rows, key=lambda row: (-row.recall, -row.auroc, row.streamed_p95_ms))
    fitting = [row for row in ordered if row.streamed_p95_ms <= budget_ms]
    best = None
    if fitting:
        top = fitting[0].recall
        error = math.sqrt(top * (1 - top) / max(fitting[0].planted, 1))
        alike = [row for row in fitting if row.recall >= top - error]
        best = max(alike, key=lambda row: (row.auroc, row.recall, -row.streamed_p95_ms))
    stated = [replace(row, state=_state(row, best, budget_ms)) for row in ordered]
    return sorted(stated, key=lambda row: (row.state == SLOW, row.state != BEST))


def _state(row: Row, best: Row | None, budget_ms: float) -> str:
    if row is best:
        return BEST
    return WITHIN if row.streamed_p95_ms <= budget_ms else SLOW
