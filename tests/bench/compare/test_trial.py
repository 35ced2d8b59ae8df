"""Benchmarks measure the files that `edgeseg export` writes, and say what it refused."""

from pathlib import Path

import pytest

from edgeseg.bench.compare import trial
from edgeseg.bench.compare.forms import forms_table
from edgeseg.bench.harness.units import FAILED
from edgeseg.contract.metrics import stored_metrics
from edgeseg.data.datasets import open_dataset
from edgeseg.export import candidates
from edgeseg.export.precision.tolerances import Tolerance
from tests.support.bench_tables import by_column
from tests.support.export_models import SHORT, artefact, data, names, remember_traces

NOTHING_PASSES = Tolerance(max_error=0, mean_error=0, min_rank_correlation=1.1, max_flips=0)


@pytest.fixture(autouse=True)
def traced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    remember_traces(monkeypatch, SHORT)


def measure(folder: Path, *precisions: str) -> dict[str, dict[str, object]]:
    return trial.export_and_measure(
        artefact(SHORT), open_dataset(data()), folder, precisions=precisions, threads=1, keep=True
    )


def test_a_file_is_measured_with_its_own_threshold(tmp_path: Path) -> None:
    result = measure(tmp_path, "fp32")["fp32"]
    assert {metric.key for metric in stored_metrics()} <= set(result)
    assert result["form"] == "all fp32"
    assert result["refused"] == {}
    assert result["threshold"] == pytest.approx(artefact(SHORT).calibration.score_threshold)
    assert names(tmp_path) == ["fp32.json", "fp32.onnx"]


def test_what_the_export_refuses_is_a_row_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(candidates.TOLERANCES, "fp32", NOTHING_PASSES)
    result = measure(tmp_path, "fp32")["fp32"]
    assert str(result[FAILED]).startswith("fp32.onnx: disagrees with the reference in ONNX Runtime")
    assert str(tmp_path) not in str(result)
    assert names(tmp_path) == []
    (table,) = forms_table([("net edge fp32", [result, {}])])
    (row,) = by_column(table)
    assert (row["exported as"], row["times"]) == ("refused", "1 of 1")
    assert "rank correlation" in str(row["what was refused before it"])


def test_forms_are_counted() -> None:
    whole = {"form": "backbone int8", "refused": {}}
    half = {"form": "backbone fp32", "refused": {"backbone int8": ["OpenVINO: ranks 0.5"]}}
    (table,) = forms_table([("net", [whole, whole, half])])
    assert [list(row.values()) for row in by_column(table)] == [
        ["net", "backbone int8", "2 of 3", ""],
        ["net", "backbone fp32", "1 of 3", "backbone int8: OpenVINO: ranks 0.5"],
    ]
    assert list(forms_table([("net", [{"pro": 0.9}])])) == []  # of a run that did not say


def test_a_precision_is_timed_where_it_is_what_it_says() -> None:
    assert trial.backends_of("int8") == ("cpu", "openvino")
    assert trial.backends_of("bf16", ("cpu", "cuda", "openvino")) == ("openvino",)
    assert trial.backends_of("bf16", ("cpu",)) == ()
