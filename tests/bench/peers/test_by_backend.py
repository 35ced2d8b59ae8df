"""By backend and precision: accuracy of the session that was asked, ratios within a backend."""

from pathlib import Path
from typing import Any

import pytest

from edgeseg.bench.compare.options import Recipe
from edgeseg.bench.harness.accuracy import LABELS
from edgeseg.bench.harness.units import Done
from edgeseg.bench.peers.by_backend import SHOWN, backend_table
from edgeseg.bench.peers.options import PeerOptions
from edgeseg.bench.peers.report import PeerResults
from tests.support.bench_tables import by_column

RATIOS = ("time / anomalib PaDiM (95 %)", "time / anomalib PatchCore (95 %)")


def timing(key: str, rounds: list[float], *, precision: str = "fp32") -> dict[str, Any]:
    return {
        "key": key,
        "backend": "openvino cpu" if key.endswith("openvino") else "onnxruntime cpu",
        "precision": precision,
        "arithmetic": "float32",
        "spin": None if key.endswith("openvino") else False,
        "host_ms": {"p50": 1.0, "p99": 2.0},
        "streamed_ms": {"p50": 3.0, "p99": 4.0},
        "streamed_processor_ms": 5.0,
        "processor_ms": 6.0,
        "size_bytes": 7_000_000,
        "samples_ms": [[ms, ms] for ms in rounds],
    }


TIMINGS = [
    timing("edgeseg net edge int8 on cpu", [1.0, 2.0, 3.0], precision="int8"),
    timing("edgeseg net edge int8 on openvino", [1.0, 1.0, 1.0], precision="int8"),
    timing("anomalib PaDiM on cpu", [4.0, 8.0, 12.0], precision="not stated"),
    timing("anomalib PaDiM on openvino", [10.0, 5.0, 2.0], precision="not stated"),
    timing("anomalib PatchCore on cpu", [2.0, 2.0, 2.0], precision="not stated"),
]


def test_ratios_are_to_the_peer_in_the_same_backend() -> None:
    found = [[row[name] for name in RATIOS] for row in by_column(backend_table(TIMINGS, {}))]
    assert found == [
        ["0.25 (0.25 to 0.25)", "1.00 (0.50 to 1.50)"],  # round by round
        ["0.20 (0.10 to 0.50)", None],  # PatchCore did not run in OpenVINO
        ["1.00 (1.00 to 1.00)", "4.00 (2.00 to 6.00)"],
        ["1.00 (1.00 to 1.00)", None],
        ["0.25 (0.17 to 0.50)", "1.00 (1.00 to 1.00)"],
    ]


def test_accuracy_is_of_the_session_that_was_asked() -> None:
    means = dict(zip(SHOWN, (0.9, 0.6, 0.8, 0.5, 0.7, 0.1), strict=True))
    accuracies = {"edgeseg net edge int8 on cpu": means}
    ours, in_openvino, padim, *_ = by_column(backend_table(TIMINGS, accuracies))
    assert {name: cell for name, cell in ours.items() if name not in RATIOS} == {
        "model": "edgeseg net edge",
        "precision": "int8",
        "backend": "onnxruntime cpu",
        "arithmetic": "float32",
        "spin": "no",
        "p50 ms": 1.0,
        "p99 ms": 2.0,
        "streamed p50 ms": 3.0,
        "streamed p99 ms": 4.0,
        "processor ms": 5.0,
        "PRO": 0.9,
        "PRO 0.05": 0.6,
        "image AUROC": 0.8,
        "F1": 0.5,
        "recall": 0.7,
        "false alarms": 0.1,
        "MB": 7.0,
    }
    for row in (in_openvino, padim):
        assert all(row[LABELS[key]] is None for key in SHOWN)
    assert padim["model"] == "anomalib PaDiM"


def test_each_precision_is_asked_where_it_runs_and_peers_as_exported() -> None:
    judged = {"pro": 0.5, "image_auroc": 0.6, "recall": 0.7, "false_alarm_rate": 0.1}
    results: dict[str, Any] = {
        "a net edge": {"models": {"fp32": judged, "bf16": judged}},
        "b net edge": {"models": {"fp32": judged | {"pro": 0.7}, "bf16": {"failed": "refused"}}},
        "a padim": {"accuracy": {"pro": 0.1}, "exported": {"pro": 0.4}},
        "b padim": {"accuracy": {"pro": 0.1}, "exported": {"pro": 0.2}},
    }
    answered = PeerResults(
        options=PeerOptions(
            data=Path(),
            python=Path(),
            peers=("padim",),
            recipes=(Recipe(backbone="net", preset="edge", precisions=("fp32", "bf16")),),
        ),
        categories=("a", "b"),
        done=Done(results=results, commits=(), seconds=0.0),
        timed=Done(results={}, commits=(), seconds=0.0),
    ).answered()
    assert {key: means["pro"] for key, means in answered.items()} == {
        "edgeseg net edge fp32 on cpu": pytest.approx(0.6),
        "edgeseg net edge bf16 on openvino": None,  # refused in one of the categories
        "anomalib PaDiM on cpu": pytest.approx(0.3),
    }
