"""The table of a run with peers that has a row for every model, precision and backend.

Times, accuracy and size stand in one row only where they are of the same session.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from edgeseg.bench.harness.accuracy import ACCURACY_COLUMNS, DECISION_COLUMNS, compared, decided
from edgeseg.bench.harness.sampling import ratio_of
from edgeseg.bench.harness.tabular import Table, column, table_of
from edgeseg.bench.harness.units import Result
from edgeseg.bench.latency.report import SPIN
from edgeseg.bench.peers.options import PEERS

SHOWN = ("pro", "pro_05", "image_auroc", "f1", "recall", "false_alarm_rate")
Means = Mapping[str, float | None]  # by the keys of SHOWN
_BESIDE = (PEERS["padim"], PEERS["patchcore"])
_NOTE = (
    "Accuracy: of what the exported files answered in this backend, mean over all categories; a "
    "dash where that was not measured. Peers are judged without a threshold. time / a peer: "
    "median over rounds of the ratio back to back, to the peer in the same backend; below 1 is "
    "faster. Times and MB are of the first category, as under Latency; a precision that was "
    "refused there has no row."
)


@dataclass(frozen=True, kw_only=True)
class BackendRow:
    """One model in one precision on one backend; what was not measured there is None."""

    model: str = field(metadata=column("model"))
    precision: str = field(metadata=column("precision"))
    backend: str = field(metadata=column("backend"))
    arithmetic: str = field(metadata=column("arithmetic"))
    spin: str | None = field(metadata=column("spin"))
    p50_ms: float = field(metadata=column("p50 ms", digits=2, better="low"))
    p99_ms: float = field(metadata=column("p99 ms", digits=2, better="low"))
    streamed_p50_ms: float = field(metadata=column("streamed p50 ms", digits=2, better="low"))
    streamed_p99_ms: float = field(metadata=column("streamed p99 ms", digits=2, better="low"))
    processor_ms: float = field(metadata=column("processor ms", digits=2, better="low"))
    accuracy: dict[str, float | None] = field(metadata=ACCURACY_COLUMNS)
    decided: dict[str, float | None] = field(metadata=DECISION_COLUMNS)
    megabytes: float = field(metadata=column("MB", digits=1, better="low"))
    ratios: dict[str, str | None] = field(metadata=column("time / {} (95 %)"))


def backend_table(timings: Sequence[Result], accuracies: Mapping[str, Means]) -> Table:
    """All that was timed, with the accuracy of the same session by the key of its timing."""
    by_key = {timing["key"]: timing for timing in timings}
    rows = [_row(timing, accuracies.get(timing["key"], {}), by_key) for timing in timings]
    return table_of("By backend and precision", rows, note=_NOTE)


def _row(timing: Result, accuracy: Means, by_key: Mapping[str, Result]) -> BackendRow:
    name, _, backend = timing["key"].rpartition(" on ")
    figures = {key: accuracy.get(key) for key in SHOWN}
    return BackendRow(
        model=name.removesuffix(f" {timing['precision']}"),
        precision=timing["precision"],
        backend=timing["backend"],
        arithmetic=timing["arithmetic"],
        spin=SPIN[timing["spin"]],
        p50_ms=timing["host_ms"]["p50"],
        p99_ms=timing["host_ms"]["p99"],
        streamed_p50_ms=timing["streamed_ms"]["p50"],
        streamed_p99_ms=timing["streamed_ms"]["p99"],
        processor_ms=timing["streamed_processor_ms"],
        accuracy=compared(figures),
        decided=decided(figures),
        megabytes=timing["size_bytes"] / 1e6,
        ratios={peer: _ratio(timing, by_key.get(f"{peer} on {backend}")) for peer in _BESIDE},
    )


def _ratio(timing: Result, peer: Result | None) -> str | None:
    if peer is None:
        return None
    return ratio_of(np.array(timing["samples_ms"]), np.array(peer["samples_ms"])).text
