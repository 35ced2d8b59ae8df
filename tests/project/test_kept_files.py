"""Files that version 0.2.0 wrote still load and give the numbers they gave then.

tests/support/kept_files.py says what they are, and makes those of the next version.
"""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from edgeseg.data.datasets import open_dataset
from edgeseg.fitting.fitting import fit
from edgeseg.fitting.graph.backbone_graph import read_facts
from edgeseg.fitting.options import Checkpoints
from edgeseg.fitting.parallel.shards import merge_shards
from edgeseg.model.artefact import Artefact, load_artefact
from edgeseg.modelfile.header import read_header, stored_config
from edgeseg.modelfile.metadata import ModelMetadata
from edgeseg.runtime.backends.choose import open_session
from edgeseg.runtime.backends.session_options import SessionOptions
from tests.support import KEPT
from tests.support.kept_files import BACKBONE, CONFIG, OPTIONS, graph_numbers

NUMBERS = np.load(KEPT / "numbers.npz")
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
        image_map, score, grid, *_ = artefact.model()(torch.from_numpy(NUMBERS["frames"]))
    np.testing.assert_allclose(image_map[:, ::8, ::8], NUMBERS["reference.map"], rtol=1e-4)
    np.testing.assert_allclose(score, NUMBERS["reference.score"], rtol=1e-4)
    np.testing.assert_allclose(grid, NUMBERS["reference.grid"], rtol=1e-4)
    assert artefact.calibration.score_threshold == pytest.approx(0.21951140463352203, rel=1e-6)


@pytest.mark.parametrize(("name", "tolerance"), GRAPHS.items())
def test_the_graphs(name, tolerance):
    path = KEPT / f"{name}.onnx"
    with open_session(path, SessionOptions(backend="cpu", allow_random_weights=True)) as session:
        metadata = session.metadata
    sidecar = ModelMetadata.from_json(path.with_suffix(".json").read_text(), source=name)
    assert replace(sidecar, onnx_sha256=None) == metadata
    maps, scores = graph_numbers(path, NUMBERS["frames"])
    np.testing.assert_allclose(scores, NUMBERS[f"{name}.score"], rtol=tolerance)
    np.testing.assert_allclose(maps[:, ::8, ::8], NUMBERS[f"{name}.map"], rtol=tolerance)


def test_the_shards(artefact):
    merged = merge_shards([KEPT / f"part-{index}-of-2.shard" for index in range(2)], OPTIONS)
    assert_same_model(merged, artefact)


def test_a_fit_without_layers_of_the_map_is_what_it_was(artefact):
    fitted = fit(open_dataset(KEPT / "good"), CONFIG, OPTIONS)
    assert_same_model(fitted, artefact)
    assert fitted.factors.shown is None
    np.testing.assert_array_equal(fitted.embedding, artefact.embedding)
    for name in ("scores", "peaks", "floors", "frame_d2", "d2_mean"):
        found, kept = (getattr(model.calibration.good, name) for model in (fitted, artefact))
        np.testing.assert_allclose(found, kept, rtol=1e-3, atol=1e-6)


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


def test_the_backbone():
    facts = read_facts(KEPT / "backbone.onnx")
    assert facts.settings == BACKBONE
    assert (facts.weights.source, facts.weights.random) == ("mobilenet_v3_small.pth", False)


def test_they_are_of_the_schema_that_is_written():
    header = read_header(KEPT / "part.edgeseg")
    assert (header["schema"], header["versions"]["edgeseg"]) == (2, "0.2.0")
    assert stored_config(header["config"]) == CONFIG
