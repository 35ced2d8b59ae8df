"""Comparisons measure the files that `edgeseg export` writes, and say what it refused."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgeseg.base.errors import DatasetError
from edgeseg.bench.compare.files import (
    REFUSED,
    Judgement,
    backends_of,
    calibrating_session,
    export_and_judge,
)
from edgeseg.data.datasets import open_dataset
from edgeseg.decision.metric_registry import stored_metrics
from edgeseg.decision.score_statistics import ScoreStatistics
from edgeseg.export import candidates
from edgeseg.modelfile.metadata import ModelMetadata
from edgeseg.runtime.backends.session_options import SessionOptions
from tests.support.brightness_model import brightness_metadata
from tests.support.export_models import IMPOSSIBLE, SHORT, artefact, data, names, remember_traces


def measure(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    remember_traces(monkeypatch, SHORT)
    return export_and_judge(
        artefact(SHORT),
        open_dataset(data()),
        folder / "fp32.onnx",
        precision="fp32",
        session="auto",
        judging_backend="cpu",
        options=SessionOptions(threads=1),
    )


def test_a_file_is_measured_with_its_own_threshold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = measure(tmp_path, monkeypatch)
    assert {metric.key for metric in stored_metrics()} <= set(result)
    assert result["form"] == "all fp32"
    assert result["refused"] == {}
    assert result["threshold"] == pytest.approx(artefact(SHORT).calibration.score_threshold)
    assert names(tmp_path) == ["fp32.json", "fp32.onnx"]


def test_what_the_export_refuses_is_a_result_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(candidates.TOLERANCES, "fp32", IMPOSSIBLE)
    result = measure(tmp_path, monkeypatch)
    assert result[REFUSED].startswith("fp32.onnx: disagrees with the reference in ONNX Runtime")
    assert "rank correlation" in result[REFUSED]
    assert str(tmp_path) not in str(result)
    assert names(tmp_path) == []


def test_a_precision_is_timed_where_it_is_what_it_says() -> None:
    assert backends_of("int8") == ("cpu", "openvino")
    assert backends_of("bf16", ("cpu", "cuda", "openvino")) == ("openvino",)
    assert backends_of("bf16", ("cpu",)) == ()


@pytest.mark.parametrize(
    ("precision", "backend", "session"),
    [
        ("fp32", "openvino", "auto"),
        ("int8", "openvino", "openvino"),
        ("fp16", "cpu", "cpu"),
        ("fp16", "cuda", "auto"),
        ("int8", "tensorrt", "auto"),
    ],
)
def test_which_session_calibrates(precision: str, backend: str, session: str) -> None:
    assert calibrating_session(precision, backend) == session


def test_a_file_without_planted_defects_cannot_be_judged() -> None:
    metadata = replace(judged_metadata(), planted_scores=())
    with pytest.raises(DatasetError, match="3 held-out good images and 0 planted defects to judge"):
        Judgement.of(metadata)
    judged = Judgement.of(judged_metadata())
    assert (judged.recall, judged.auroc) == (0.5, pytest.approx(5 / 6))
    assert (judged.planted, judged.good) == (2, 3)


def judged_metadata() -> ModelMetadata:
    whole = brightness_metadata()
    scores = np.array([1.0, 2.0, 3.0])
    statistics = ScoreStatistics.of(scores, scores)
    threshold = replace(whole.threshold, requested_rate=0.25, false_alarm_rate=0.25)
    return replace(whole, good_scores=statistics, planted_scores=(2.5, 4.0), threshold=threshold)
