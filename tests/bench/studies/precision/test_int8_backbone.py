"""Ways of rounding a backbone: which layers each spares, and that noise is what it says."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from edgeseg.bench.studies.precision.int8_backbone import (
    VARIANTS,
    additions,
    depthwise,
    graph_file,
    noise,
    projections,
    residual_sums,
    sum_of_projections,
    timed,
    variant_rows,
)
from edgeseg.data.datasets import open_dataset
from edgeseg.export.precision.int8 import first_layers
from tests.support.export_models import SHORT, artefact, data, good_frames, traced


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


def test_fp32_is_the_model_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from edgeseg.bench.studies.precision import int8_backbone

    monkeypatch.setattr(int8_backbone, "build_graph", lambda *_, **__: traced(SHORT))
    names = ("fp32", "as shipped", "fp32: first two layers")
    assert set(names) < set(VARIANTS)
    exact, shipped, spared = variant_rows(
        artefact(SHORT), open_dataset(data()), names, folder=tmp_path, accuracy=False
    )
    assert exact.noise < 1e-8 < spared.noise
    assert shipped.noise > 1e-8
    files = {name: graph_file(tmp_path, name) for name in names}
    times = timed(files, rounds=2, threads=1)
    assert all(ms > 0 for cells in times.values() for ms in cells.values())
    assert set(times) == set(names)
