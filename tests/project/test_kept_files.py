"""Files that version 0.1.0 wrote still load and give the numbers they gave then.

tests/kept/0.1.0 holds a model of 64x64 pixels and 4x4 cells fitted on the four pictures of good/
(mobilenet_v3_small up to its first tap, random weights), two shards and a checkpoint of the same
fit, its graph in every precision, and what each of them said of three frames. backbone.onnx, of
`edgeseg export-backbone` with other weights that nobody has trained, is what
tests/teach/test_engine.py fits through.
"""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from numpy.typing import NDArray

from edgeseg.data.datasets import open_dataset
from edgeseg.export.precision.exact_session import exact_session
from edgeseg.fitting.fitting import fit
from edgeseg.fitting.options import Checkpoints, FitOptions
from edgeseg.fitting.parallel.shards import merge_shards
from edgeseg.model.artefact import Artefact, load_artefact
from edgeseg.modelfile.metadata import ModelMetadata
from edgeseg.runtime.backends.choose import open_session
from edgeseg.runtime.backends.session_options import SessionOptions
from tests.support import REPO

KEPT = REPO / "tests" / "kept" / "0.1.0"
NUMBERS = np.load(KEPT / "numbers.npz")
OPTIONS = FitOptions(weights="random", batch_size=2)
# Processors add in different orders, and int8 kernels round.
GRAPHS = {"part-fp32": 1e-4, "part-fp16": 1e-2, "part-int8": 0.1, "part-int8-trt": 0.1}


@pytest.fixture(scope="module")
def artefact() -> Artefact:
    return load_artefact(KEPT / "part.edgeseg")


def assert_same_model(found: Artefact, expected: Artefact) -> None:
    np.testing.assert_allclose(found.factors.mean, expected.factors.mean, rtol=1e-4, atol=1e-5)
    # The sign of an eigenvector is free: compare the precision that the factors stand for.
    products = [
        model.factors.factor @ model.factors.factor.swapaxes(1, 2) for model in (found, expected)
    ]
    np.testing.assert_allclose(*products, rtol=1e-3, atol=1e-3)
    found_threshold = found.calibration.score_threshold
    assert found_threshold == pytest.approx(expected.calibration.score_threshold, rel=1e-3)


def test_they_are_small():
    assert sum(path.stat().st_size for path in KEPT.rglob("*") if path.is_file()) < 300_000


def test_the_artefact(artefact):
    with torch.no_grad():
        image_map, score, grid = artefact.model()(torch.from_numpy(NUMBERS["frames"]))
    np.testing.assert_allclose(image_map[:, ::8, ::8], NUMBERS["reference.map"], rtol=1e-4)
    np.testing.assert_allclose(score, NUMBERS["reference.score"], rtol=1e-4)
    np.testing.assert_allclose(grid, NUMBERS["reference.grid"], rtol=1e-4)
    assert artefact.calibration.score_threshold == pytest.approx(0.21951138973236084, rel=1e-6)


@pytest.mark.parametrize(("name", "tolerance"), GRAPHS.items())
def test_the_graphs(name, tolerance):
    path = KEPT / f"{name}.onnx"
    with open_session(path, SessionOptions(backend="cpu", allow_random_weights=True)) as session:
        predictions = session.infer(NUMBERS["frames"])
    sidecar = ModelMetadata.from_json(path.with_suffix(".json").read_text(), source=name)
    assert replace(sidecar, onnx_sha256=None) == session.metadata
    scores = [prediction.score for prediction in predictions]
    maps = np.stack([prediction.map_hw for prediction in predictions])
    if sidecar.target == "trt":  # on processors without VNNI its sums overflow
        maps, scores = _as_written(path)
    np.testing.assert_allclose(scores, NUMBERS[f"{name}.score"], rtol=tolerance)
    np.testing.assert_allclose(maps[:, ::8, ::8], NUMBERS[f"{name}.map"], rtol=tolerance)


def _as_written(path: Path) -> list[NDArray[np.float32]]:
    """Maps and scores as TensorRT computes them."""
    session = exact_session(onnx.load(path))
    runs = [session.run(["map", "score"], {"frames": frame[None]}) for frame in NUMBERS["frames"]]
    return [np.concatenate(values) for values in zip(*runs, strict=True)]


def test_the_shards(artefact):
    merged = merge_shards([KEPT / f"part-{index}-of-2.shard" for index in range(2)], OPTIONS)
    assert_same_model(merged, artefact)


def test_the_checkpoint(artefact, tmp_path):
    folder = Path(shutil.copytree(KEPT / "part.parts", tmp_path / "part.parts"))
    embedded = []

    def counting(items, *, length, label):
        for item in items:
            embedded.append(label)
            yield item

    options = replace(
        OPTIONS, checkpoints=Checkpoints(folder=folder, resume=True), progress=counting
    )
    resumed = fit(open_dataset(KEPT / "good"), artefact.config, options)
    assert embedded.count("Fitting") == 1, "the first of two batches was done before"
    assert_same_model(resumed, artefact)
