"""Which graph is taken where none is named."""

import importlib
from dataclasses import replace
from pathlib import Path

import pytest

from edgeseg.config import FitConfig
from edgeseg.fitting.graph.find_graph import cache_path, graph_of
from edgeseg.fitting.graph.known_graphs import FOLDER, graph_for, no_graph
from tests.support.backbone_graphs import graph_path, taught
from tests.support.export_models import SHORT


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_of_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert graph_for(SHORT) is None
    folder = tmp_path / FOLDER
    folder.mkdir()
    (folder / "damaged.onnx").write_bytes(b"\xff" * 100)
    (folder / "short.onnx").write_bytes(graph_path().read_bytes())
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    assert graph_for(SHORT) == folder / "short.onnx"
    assert graph_for(replace(SHORT, folds=7, false_alarm_rate=0.3)) == folder / "short.onnx"
    assert graph_for(replace(SHORT, k=20)) is None
    assert graph_of(taught()) == folder / "short.onnx"
    other = replace(taught(), origin=replace(taught().origin, sha256="0" * 64))
    assert graph_of(other) is None


def test_of_the_cache() -> None:
    path = cache_path(SHORT)
    assert path.name.startswith("resnet18-")
    assert path == cache_path(replace(SHORT, folds=9))
    assert path != cache_path(replace(SHORT, top=3))
    path.parent.mkdir(parents=True)
    path.write_bytes(graph_path().read_bytes())
    assert graph_for(SHORT) == path


def test_what_is_missing_is_one_sentence() -> None:
    assert str(no_graph(FitConfig())) == (
        "no graph of efficientnet_lite1 with these settings is here; run `pip install "
        "edgeseg-efficientnet-lite1` for the usual ones, or make one on a workstation with "
        "`edgeseg export-backbone` and name it: graph=FILE; or fit by torch, of edgeseg[fit]"
    )
