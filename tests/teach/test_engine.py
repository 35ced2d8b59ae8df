"""The engine of a project: fit, update and the graph that runs, through a backbone's graph."""

from dataclasses import replace
from pathlib import Path

import pytest

import edgeseg.runtime
from edgeseg.device.at_hand import cache_path
from edgeseg.errors import EdgesegError
from edgeseg.teach import engine
from tests.support.backbone_graphs import OPTIONS, graph_path
from tests.support.export_models import SHORT, data, frames

GOOD = data() / "train/good"
CORNER = ((0.0, 0.0), (16.0, 0.0), (16.0, 16.0), (0.0, 16.0))


def test_from_pictures_to_a_model_that_runs(tmp_path: Path) -> None:
    part, model = tmp_path / "part.edgeseg", tmp_path / "model.onnx"
    wanted = replace(SHORT, size_hw=(256, 256), folds=4)  # the graph brings its size
    fitted = engine.fit_model(GOOD, graph=graph_path(), config=wanted, options=OPTIONS, out=part)
    assert (fitted.config.size_hw, fitted.config.folds) == (SHORT.size_hw, 4)
    grown = engine.update_model(
        part, graph=graph_path(), more=GOOD, forget=None, options=OPTIONS, out=part
    )
    assert grown.moments is not None
    assert grown.moments.images == 16
    engine.write_graph(part, graph=graph_path(), out=model)
    with edgeseg.runtime.open(model, backend="cpu") as running:
        assert running.predict(frames(1)[0]).score > 0
    engine.ignore_regions(part, regions=[CORNER], options=OPTIONS, out=part)
    engine.write_graph(part, graph=graph_path(), out=model)
    good = frames(1)[0]
    broken = good.copy()
    broken[:16, :16] = 255
    with edgeseg.runtime.open(model, backend="cpu") as running:
        assert running.predict(broken).score == running.predict(good).score > 0


def test_a_graph_at_hand_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = cache_path(SHORT)
    path.parent.mkdir(parents=True)
    path.write_bytes(graph_path().read_bytes())
    part = tmp_path / "part.edgeseg"
    engine.fit_model(GOOD, graph=None, config=SHORT, options=OPTIONS, out=part)
    engine.write_graph(part, graph=None, out=tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx").is_file()


def test_one_is_made_where_torch_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the command, whose words and errors are looked at here."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    asked: list[list[str]] = []

    class Done:
        returncode, stderr = 1, "noise\nError: no weights for resnet18\n"

    def run(command: list[str], **_: object) -> Done:
        asked.append(command)
        assert '"geometry"' not in Path(command[-1]).read_text()
        return Done()

    monkeypatch.setattr(engine.subprocess, "run", run)
    with pytest.raises(EdgesegError, match=r"^no weights for resnet18$"):
        engine.fit_model(
            GOOD, graph=None, config=SHORT, options=OPTIONS, out=tmp_path / "part.edgeseg"
        )
    assert asked[0][3:5] == ["export-backbone", str(cache_path(SHORT))]
