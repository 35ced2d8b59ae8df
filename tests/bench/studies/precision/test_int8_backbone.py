"""Ways of rounding a backbone: which layers each spares, and that noise is what it says."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from edgeseg.bench.harness.report import read_report
from edgeseg.bench.latency.turns import Schedule
from edgeseg.bench.studies.precision import int8_backbone
from edgeseg.bench.studies.precision.int8_backbone import Study, noise, run_study
from edgeseg.bench.studies.precision.int8_tables import Rounded
from edgeseg.bench.studies.precision.int8_variants import (
    VARIANTS,
    WHOLE,
    additions,
    depthwise,
    projections,
    residual_sums,
    sum_of_projections,
)
from edgeseg.contract.metrics import stored_metrics
from edgeseg.export.precision.int8 import first_layers
from tests.support.bench_tables import by_column
from tests.support.export_models import SHORT, artefact, data_with_model, good_frames, traced


def test_sums_are_told_apart() -> None:
    graph = traced(SHORT)
    assert set(residual_sums(graph)) | set(sum_of_projections(graph)) == set(additions(graph))
    assert len(sum_of_projections(graph)) == len(SHORT.layers) - 1
    assert len(projections(graph)) == 2 * len(SHORT.layers) - 1
    assert depthwise(graph) == []  # ResNet-18 has none
    assert not set(first_layers(graph, 2)) & set(projections(graph))


def test_noise_is_a_share_of_the_variation() -> None:
    model, images = artefact(SHORT).model(), good_frames(3)
    assert noise(model, model.embeddings, images) == 0.0

    def to_the_mean(frames: NDArray[np.uint8]) -> NDArray[np.float32]:
        return np.stack([model.mean.numpy().T] * len(frames))

    assert noise(model, to_the_mean, images) == pytest.approx(1.0)


def test_a_small_run_leaves_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    monkeypatch.setattr(int8_backbone, "note", lines.append)
    monkeypatch.setattr(int8_backbone, "build_graph", lambda *_, **__: traced(SHORT))
    dataset = data_with_model(tmp_path, SHORT)
    names = ("fp32", WHOLE, "fp32: first two layers")
    assert set(names) < set(VARIANTS)
    study = Study(
        out=tmp_path,
        datasets=(dataset,),
        variants=names,
        config=artefact(SHORT).config,
        weights=None,
        threads=1,
    )
    schedule = Schedule(rounds=2, turn=1, warmup=1, streamed=1, fps=1000)
    report = run_study(study, schedule, fresh=False)
    exact, whole, spared = by_column(report.tables[0])
    assert [row["rounding"] for row in (exact, whole, spared)] == list(names)
    assert exact["noise / variation"] < 1e-8 < spared["noise / variation"]
    assert whole["noise / variation"] > 1e-8
    assert all(0 <= row["PRO"] <= 1 and row["p50 ms cpu"] > 0 for row in (exact, whole, spared))
    assert [row["category"] for row in by_column(report.tables[1])] == [dataset.name] * 3
    assert read_report(tmp_path).tables == report.tables
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert all(table.markdown() in text for table in report.tables)
    assert "models/" in (tmp_path / ".gitignore").read_text(), "what is committed is the report"
    lines.clear()
    assert run_study(study, schedule, fresh=False).tables == report.tables
    assert not any(line.startswith("[") for line in lines), "nothing is done twice"


def test_what_is_found_of_means() -> None:
    same = {metric.key: 0.9 for metric in stored_metrics()}
    figures = {
        "fp32": same | {"noise": 0.0},
        "close": same | {"noise": 0.1, "pro": 0.898, "image_auroc": 0.96, "f1": 0.5},
        "far": same | {"noise": 0.2, "pro": 0.95, "recall": 0.89},
    }

    def rounded(*timings: dict[str, object], backbone: str = "mobilenet_v3_small") -> Rounded:
        return Rounded(
            backbone=backbone,
            categories=("a", "b"),
            variants=tuple(figures),
            results={f"{c}, {name}": each for c in "ab" for name, each in figures.items()},
            timings=timings,
        )

    told = list(rounded().findings())
    assert told == [
        "`edgeseg export` leaves the backbone of mobilenet_v3_small in fp32 for CPUs.",
        "Within 0.003 of fp32 or above it in mean PRO, image AUROC, recall: close.",
    ]
    timings = [
        {
            "key": f"{name} on cpu",
            "host_ms": {"p50": ms},
            "streamed_ms": {"p50": ms + 1},
            "streamed_processor_ms": ms + 2,
        }
        for name, ms in (("fp32", 1.5), ("close", 2.0), ("far", 1.0))
    ]
    assert list(rounded(*timings).findings())[2:] == [
        "p50 ms cpu: fp32 1.50, the fastest of these 2.00 (close).",
        "streamed p50 ms cpu: fp32 2.50, the fastest of these 3.00 (close).",
        "processor ms cpu: fp32 3.50, the fastest of these 4.00 (close).",
    ]
    lite, *_ = rounded(backbone="efficientnet_lite0").findings()
    assert lite.endswith("for CPUs: with its first 2 layers in fp32.")
