"""Moments taken again through a graph: the same where nothing is rounded, its own where it is."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from onnx import ModelProto, numpy_helper

from edgeseg.base.progress import ignore, silent
from edgeseg.config import FitConfig
from edgeseg.data.datasets import Dataset, open_dataset
from edgeseg.export.graph import GraphOptions, initializers, save_graph
from edgeseg.export.precision.half import HalfPlan, to_half
from edgeseg.export.precision.int8 import Quantiser
from edgeseg.export.precision.refit import (
    EMBEDDING,
    cut,
    embedder,
    embedding_tensor,
    refit,
    with_embedding,
    with_factors,
)
from edgeseg.export.sessions import backend_runs
from edgeseg.export.verify import head_error
from edgeseg.model.artefact import Artefact
from edgeseg.model.predictor import Embedder
from tests.support.export_models import (
    SHORT,
    SHOWN,
    artefact,
    data,
    good_frames,
    run,
    traced,
)

GLOBAL = SHORT.with_options({"share": 1, "covariance": "global"})
IMAGES = good_frames(6)
GOOD = open_dataset(data())


def opened(
    proto: ModelProto, folder: Path, *outputs: str, precision: str = "int8", batch: int = 1
) -> Callable[[np.ndarray], tuple[np.ndarray, ...]]:
    """The graph in ONNX Runtime, as an export opens it."""
    path = folder / "probe.onnx"
    save_graph(proto, path)
    runs = backend_runs(
        path, precision=precision, target="cpu", batch=(batch, batch, batch), outputs=outputs
    )
    return next(iter(runs.values()))()


def again(model: Artefact, embed: Embedder, good: Dataset = GOOD, **notes: object) -> Artefact:
    told = notes.get("note", ignore)
    assert callable(told)
    return refit(model, embed, good, note=told, progress=silent)


def by_torch(config: FitConfig) -> Embedder:
    return artefact(config).model().embeddings


@pytest.mark.parametrize("config", [SHORT, GLOBAL], ids=["shared", "one covariance"])
@pytest.mark.parametrize("batch", [1, 3])
def test_an_unrounded_graph_gives_the_fit_again(
    tmp_path: Path, config: FitConfig, batch: int
) -> None:
    proto = traced(config, GraphOptions(batch=(batch, batch, batch)))
    run_probe = opened(cut(proto), tmp_path, EMBEDDING, precision="fp32", batch=batch)
    fitted = artefact(config)
    new = again(fitted, embedder(run_probe))
    scale = float(np.abs(fitted.factors.factor).max())
    assert float(np.abs(new.factors.mean - fitted.factors.mean).max()) < 1e-5
    # Signs and degenerate directions are free: what counts is the quadratic form itself.
    old_form, form = (f @ f.swapaxes(1, 2) for f in (fitted.factors.factor, new.factors.factor))
    assert float(np.abs(form - old_form).max()) < 1e-3 * scale**2
    wanted, calibration = fitted.calibration, new.calibration
    assert calibration.score_threshold == pytest.approx(wanted.score_threshold, rel=1e-4)
    assert calibration.pixel_threshold == pytest.approx(wanted.pixel_threshold, rel=1e-4)
    np.testing.assert_allclose(calibration.good.d2_mean, wanted.good.d2_mean, rtol=1e-3)
    np.testing.assert_allclose(calibration.good.frame_d2, wanted.good.frame_d2, rtol=1e-3)
    assert new.backbone is fitted.backbone, "the reference stays what it was"


def test_a_cut_graph_has_nothing_behind_the_embedding() -> None:
    proto = traced(SHORT)
    before = proto.SerializeToString(deterministic=True)
    probe = cut(proto)
    assert [output.name for output in probe.graph.output] == [EMBEDDING]
    assert "factor" not in initializers(probe)
    rows = run(probe, IMAGES[:1])[EMBEDDING]
    wanted = by_torch(SHORT)(IMAGES[:1]).swapaxes(1, 2)
    np.testing.assert_allclose(rows, wanted, atol=1e-4)
    assert proto.SerializeToString(deterministic=True) == before, "the caller's graph"


@pytest.mark.parametrize("embedding", [True, False])
def test_an_fp16_graph_gives_its_rounded_embedding_in_fp32(tmp_path: Path, embedding: bool) -> None:
    proto = to_half(traced(SHORT), HalfPlan(embedding=embedding))
    (rows,) = opened(cut(proto), tmp_path, EMBEDDING, precision="fp16")(IMAGES)
    wanted = by_torch(SHORT)(IMAGES).swapaxes(1, 2)
    assert rows.dtype == np.float32
    assert 1e-6 < np.abs(rows - wanted).max() < 0.02 * np.abs(wanted).max()
    halves = rows.astype(np.float16).astype(np.float32)
    assert np.array_equal(rows, halves) == embedding


@pytest.mark.parametrize("config", [SHORT, GLOBAL], ids=["shared", "one covariance"])
def test_new_factors_are_in_the_graph_and_nothing_else_is_new(config: FitConfig) -> None:
    fitted = artefact(config)
    moved = replace(
        fitted,
        factors=replace(
            fitted.factors, mean=fitted.factors.mean + 0.25, factor=fitted.factors.factor * 2
        ),
    )
    proto = traced(config)
    changed = with_factors(proto, moved.model())
    both = (initializers(graph) for graph in (proto, changed))
    old, new = ({k: numpy_helper.to_array(v) for k, v in part.items()} for part in both)
    names = [name for name in old if not np.array_equal(old[name], new[name])]
    assert len(names) == 2
    with torch.no_grad():
        wanted = moved.model()(torch.from_numpy(IMAGES[:1]))[0].numpy()
    np.testing.assert_allclose(run(changed, IMAGES[:1])["map"], wanted, rtol=1e-3)


def test_the_head_agrees_with_the_reference_on_the_same_embedding(tmp_path: Path) -> None:
    proto = Quantiser(traced(SHORT), IMAGES, target="cpu").quantise()
    probe = with_embedding(proto, embedding_tensor(proto))
    run_probe = opened(probe, tmp_path, EMBEDDING, "map", "score")
    fitted = artefact(SHORT)
    assert head_error(fitted.model(), run_probe, IMAGES) < 1e-5
    other = replace(fitted, factors=replace(fitted.factors, mean=fitted.factors.mean + 0.1))
    assert head_error(other.model(), run_probe, IMAGES) > 1e-3, "another mean is another head"


def test_the_head_of_a_map_of_its_own_is_refitted_and_compared_too(tmp_path: Path) -> None:
    fitted = artefact(SHOWN)
    shown = fitted.factors.shown
    assert shown is not None
    proto = with_factors(Quantiser(traced(SHOWN), IMAGES, target="cpu").quantise(), fitted.model())
    run_probe = opened(
        with_embedding(proto, embedding_tensor(proto)), tmp_path, EMBEDDING, "map", "score"
    )
    assert head_error(fitted.model(), run_probe, IMAGES) < 1e-5
    uneven = shown.factor.copy()
    uneven[::2] *= 2
    for factors in (
        replace(fitted.factors, shown=replace(shown, factor=uneven)),
        replace(fitted.factors, shown=replace(shown, weight=shown.weight * 1.2)),
        # The same map, and another score.
        replace(
            fitted.factors,
            factor=fitted.factors.factor * 2,
            shown=replace(shown, weight=shown.weight / 4),
        ),
    ):
        other = replace(fitted, factors=factors)
        assert head_error(other.model(), run_probe, IMAGES) > 1e-3
        found = run(with_factors(traced(SHOWN), other.model()), IMAGES[:1])
        with torch.no_grad():
            wanted = other.model()(torch.from_numpy(IMAGES[:1]))
        for name, values in zip(other.outputs, wanted, strict=True):
            np.testing.assert_allclose(found[name], values, rtol=1e-3, atol=1e-4)


def test_what_moves_every_embedding_alike_moves_the_mean_alone() -> None:
    fitted, embed = artefact(SHORT), by_torch(SHORT)
    new = again(fitted, lambda inputs: embed(inputs) + 3.0)
    np.testing.assert_allclose(new.factors.mean, fitted.factors.mean + 3.0, atol=1e-4, rtol=0)
    threshold = fitted.calibration.score_threshold
    assert new.calibration.score_threshold == pytest.approx(threshold, rel=1e-2)


def test_noise_becomes_part_of_the_covariance_and_the_threshold_is_of_these_scores() -> None:
    fitted, embed = artefact(SHORT), by_torch(SHORT)
    spread = float(embed(IMAGES).std())
    noise = np.random.default_rng(1)

    def noisy(inputs: NDArray[np.uint8]) -> NDArray[np.float32]:
        rows = embed(inputs)
        return rows + 0.3 * spread * noise.normal(size=rows.shape).astype(np.float32)

    new = again(fitted, noisy)
    assert np.abs(new.factors.factor).max() < np.abs(fitted.factors.factor).max()
    good = new.calibration.good
    assert good.count == fitted.calibration.good.count
    assert new.calibration.score_threshold in good.scores.tolist()
    rows = noisy(IMAGES).reshape(len(IMAGES), -1, *SHORT.grid_hw)
    before = artefact(SHORT).head().judge(rows)[1]
    assert (before > fitted.calibration.score_threshold).all(), "the old head flags every good one"


@pytest.mark.parametrize("count", [1, 2])
def test_few_images_are_a_fit_of_few_images(tmp_path: Path, count: int) -> None:
    folder = tmp_path / "good"
    folder.mkdir()
    for path in sorted((data() / "train" / "good").iterdir())[:count]:
        shutil.copy(path, folder)
    notes: list[str] = []
    new = again(artefact(SHORT), by_torch(SHORT), open_dataset(folder), note=notes.append)
    assert new.calibration.good.count == count
    assert np.isfinite(new.calibration.score_threshold)
    assert np.isfinite(new.factors.factor).all()
    assert new.calibration.answered_rate == pytest.approx(1.0 if count == 1 else 1 / 3)
    assert any("false-alarm rate" in line for line in notes)


def test_tiles_go_through_the_graph_and_frames_are_judged() -> None:
    tiled = replace(SHORT, frame_hw=(96, 96), overlap=32)
    fitted = replace(artefact(SHORT), config=tiled, planted=None)
    seen: list[tuple[int, ...]] = []
    embed = by_torch(SHORT)

    def watched(inputs: NDArray[np.uint8]) -> NDArray[np.float32]:
        seen.append(tuple(inputs.shape))
        return embed(inputs)

    new = again(fitted, watched)
    assert {shape[1:] for shape in seen} == {(64, 64, 3)}
    assert sum(shape[0] for shape in seen) == 4 * len(GOOD.train)
    assert new.calibration.good.count == len(GOOD.train)
