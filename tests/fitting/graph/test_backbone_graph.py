"""A fit through a backbone's graph against the fit by torch."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import edgeseg.runtime
from edgeseg.base.errors import EdgesegError, RuntimeFailure, UsageError, WeightsError
from edgeseg.base.progress import ignore
from edgeseg.export.backbone_export import export_backbone
from edgeseg.fitting.feature_space import FeatureSpace
from edgeseg.fitting.fitting import fit_in
from edgeseg.fitting.graph import backbone_graph
from edgeseg.fitting.graph.backbone_graph import BackboneGraph, read_facts
from edgeseg.fitting.graph.graph_facts import KERNELS, SHAPING, difference
from edgeseg.fitting.options import Changes
from edgeseg.fitting.update import merge_models, update
from edgeseg.model.artefact import Artefact, load_artefact, save_artefact, sorted_prints
from edgeseg.model.backbones import backbone_spec
from tests.support.backbone_graphs import OPTIONS, good, graph, graph_path, taught
from tests.support.export_models import SHORT, SHOWN, artefact, data, good_frames, weights

MOMENTS = ("count", "mean", "scatter")


def by_torch() -> FeatureSpace:
    return FeatureSpace.load(SHORT, weights=str(weights(SHORT.backbone)), note=ignore)


def test_it_says_what_it_is_and_has_w() -> None:
    facts, space = graph().facts, by_torch()
    assert facts.settings == space.config
    assert facts.weights == space.origin
    assert np.array_equal(graph().embedding, space.embedding)
    assert graph().embedding.dtype == np.float32


def test_w_is_whole_whether_kernels_have_all_columns_or_those_that_see_their_layer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    space = FeatureSpace.load(SHOWN, weights=str(weights(SHOWN.backbone)), note=ignore)
    found = graph(SHOWN)
    assert np.array_equal(found.embedding, space.embedding)
    rows = [tap.channels for tap in backbone_spec(SHOWN.backbone).chosen_taps(SHOWN.layers)]
    parts = np.split(space.embedding, np.cumsum(rows)[:-1])
    whole = {f"{KERNELS}{number}": part.T[:, :, None, None] for number, part in enumerate(parts)}
    monkeypatch.setattr(backbone_graph, "read_constants", lambda path, prefix: whole)
    assert np.array_equal(BackboneGraph(found.path).embedding, space.embedding)


def test_the_same_settings_give_the_same_bytes(tmp_path: Path) -> None:
    again = export_backbone(SHORT, tmp_path / "g.onnx", weights=str(weights(SHORT.backbone)))
    assert again.path.read_bytes() == graph_path().read_bytes()


def test_its_embeddings_are_those_of_torch() -> None:
    frames = good_frames(3)
    wanted = by_torch().embedder()(frames)
    np.testing.assert_allclose(graph().embed(frames), wanted, atol=1e-5 * np.abs(wanted).max())


def test_the_same_embeddings_give_the_same_model() -> None:
    """All behind the embedding is one implementation: 1e-9 is kept by being the same code."""
    wanted = fit_in(replace(by_torch(), through=graph().embed), good(), OPTIONS)
    found = taught()
    for name in MOMENTS:
        ours, theirs = (getattr(one.moments, name) for one in (found, wanted))
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)
    np.testing.assert_allclose(found.factors.factor, wanted.factors.factor, rtol=1e-9)
    np.testing.assert_allclose(
        found.calibration.good.scores, wanted.calibration.good.scores, rtol=1e-9
    )
    assert found.planted is not None
    assert wanted.planted is not None
    np.testing.assert_allclose(found.planted.scores, wanted.planted.scores, rtol=1e-9)


def assert_alike(found: Artefact, wanted: Artefact) -> None:
    """To float32's rounding of the embeddings."""
    ours, theirs = (one.calibration for one in (found, wanted))
    assert ours.score_threshold == pytest.approx(theirs.score_threshold, rel=1e-4)
    np.testing.assert_allclose(ours.good.scores, theirs.good.scores, rtol=1e-3)
    products = [one.factors.factor @ one.factors.factor.swapaxes(1, 2) for one in (found, wanted)]
    np.testing.assert_allclose(*products, rtol=0, atol=1e-3 * np.abs(products[1]).max())


def test_end_to_end_it_is_the_fit_by_torch() -> None:
    assert_alike(taught(), artefact(SHORT))
    assert "onnxruntime" in taught().versions
    assert "torch" not in taught().versions


def test_it_goes_back_to_the_workstation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "part.edgeseg"
    save_artefact(taught(), path)
    # As if its images were not known: those that come now are the same.
    loaded = replace(load_artefact(path), prints=sorted_prints(()))
    assert loaded.weights.arrays is None
    monkeypatch.setenv("EDGESEG_WEIGHTS", str(tmp_path))
    (tmp_path / "resnet18.pth").write_bytes(weights(SHORT.backbone).read_bytes())
    maps = loaded.model()(torch_frames())[0].numpy()
    head = graph().embed(good_frames(2)).reshape(2, -1, *SHORT.grid_hw)
    np.testing.assert_allclose(maps, loaded.head().judge(head)[0], rtol=1e-3, atol=1e-3)
    grown = update(loaded, Changes(more=good()), OPTIONS)
    through = update(loaded, Changes(more=good()), replace(OPTIONS, graph=graph_path()))
    assert_alike(grown, through)
    both = {"device": loaded, "workstation": artefact(SHORT)}
    assert merge_models(both, apart=None, options=OPTIONS).moments.images == 16


def torch_frames():  # type: ignore[no-untyped-def]
    import torch

    return torch.from_numpy(good_frames(2))


def test_other_weights_on_the_workstation_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    state = torch.load(weights(SHORT.backbone), weights_only=True)
    torch.save({name: value + 1e-3 for name, value in state.items()}, tmp_path / "resnet18.pth")
    monkeypatch.setenv("EDGESEG_WEIGHTS", str(tmp_path))
    save_artefact(taught(), tmp_path / "part.edgeseg")
    with pytest.raises(WeightsError, match="fitted through a graph with other weights of resnet18"):
        load_artefact(tmp_path / "part.edgeseg").model()


def test_forget_and_decay_go_through_it(tmp_path: Path) -> None:
    options, pictures = replace(OPTIONS, graph=graph_path()), good()
    some = replace(pictures, train=pictures.train[:2])
    without = update(taught(), Changes(forget=some), options)
    assert without.moments is not None
    assert without.moments.images == 6
    faded = update(without, Changes(more=some, decay=0.5), options)
    assert faded.moments is not None
    assert float(faded.moments.count[0]) == pytest.approx(5.0)


def test_the_maps_layers_shape_a_graph_and_its_ridge_does_not() -> None:
    assert graph(SHOWN).facts.settings.map_layers == (1,)
    changed = replace(SHOWN, map_ridge=0.3)
    assert graph(SHOWN).space(changed).config.map_ridge == 0.3
    with pytest.raises(UsageError, match=r"map_layers=\(\), and the graph has \(1,\)"):
        graph(SHOWN).space(replace(SHOWN, map_layers=()))
    assert_alike(taught(SHOWN), artefact(SHOWN))
    ours, theirs = (model.factors.shown for model in (taught(SHOWN), artefact(SHOWN)))
    assert ours is not None
    assert theirs is not None
    np.testing.assert_allclose(ours.weight, theirs.weight, rtol=1e-2)


@pytest.mark.parametrize("name", SHAPING)
def test_settings_that_shape_a_graph_belong_to_it(name: str) -> None:
    value = getattr(SHORT, name)
    other = {
        **{"backbone": "resnet50", "layers": (1,), "size_hw": (96, 96), "embedding": "gaussian"},
        **{"interpolation": "nearest", "covariance": "global"},
    }.get(name, value + 2 if isinstance(value, int) else 0.5)
    changed = SHORT
    object.__setattr__(changed := replace(SHORT), name, other)
    assert difference(SHORT, changed) == f"{name}={other}, and the graph has {value}"


def test_settings_that_do_not_may_differ() -> None:
    other = replace(SHORT, folds=4, false_alarm_rate=0.3, pool=5, ridge=0.2, calibration="holdout")
    assert graph().space(other).config.folds == 4
    with pytest.raises(UsageError, match=r"made for other settings \(k=20, and the graph has 16\)"):
        graph().space(replace(SHORT, k=20))
    adapted = graph().facts.adapt(replace(other, k=20, size_hw=(256, 256)))
    assert (adapted.k, adapted.size_hw, adapted.folds) == (16, SHORT.size_hw, 4)


def test_it_is_no_model() -> None:
    """Blank factors would call everything good."""
    with pytest.raises(RuntimeFailure, match="no edgeseg metadata inside"):
        edgeseg.runtime.open(graph_path(), backend="cpu")


def test_files_that_are_no_graphs_of_backbones(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file; make one with `edgeseg export-backbone"):
        BackboneGraph(tmp_path / "none.onnx")
    foreign = tmp_path / "foreign.onnx"
    foreign.write_bytes(b"")
    with pytest.raises(UsageError, match="not the graph of a backbone"):
        BackboneGraph(foreign)
    whole = bytearray(graph_path().read_bytes())
    for place in np.random.default_rng(0).integers(0, len(whole), 30).tolist():
        whole[place] ^= 1
        foreign.write_bytes(whole)
        with pytest.raises(EdgesegError):
            read_facts(foreign)
        whole[place] ^= 1
    foreign.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(EdgesegError):
        read_facts(foreign)


def test_data_is_there() -> None:
    assert len(good().train) == len(list((data() / "train/good").iterdir())) == 8
