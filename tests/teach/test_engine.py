"""The engine of a project: fit, update and the graph that runs, through a backbone's graph.

The graph is a kept one: to trace another takes torch, and ten times as long as all that is here.
"""

from dataclasses import replace
from pathlib import Path

import pytest

import edgeseg.runtime
from edgeseg.base.errors import EdgesegError
from edgeseg.base.failure import FAILURE_FILE
from edgeseg.fitting.graph import find_graph
from edgeseg.fitting.graph.backbone_graph import read_facts
from edgeseg.fitting.graph.find_graph import cache_path
from edgeseg.fitting.options import FitOptions
from edgeseg.teach import engine
from edgeseg.vision.images import write_image
from tests.support import KEPT
from tests.support.small_models import frames, write_plate

GRAPH = KEPT / "backbone.onnx"
MADE_FOR = read_facts(GRAPH).settings
OPTIONS = FitOptions(batch_size=4, planted=4)
CORNER = ((0.0, 0.0), (16.0, 0.0), (16.0, 16.0), (0.0, 16.0))


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight pictures."""
    folder = tmp_path_factory.mktemp("plate")
    return write_plate(folder, size_hw=MADE_FOR.size_hw, train=8) / "train/good"


def test_from_pictures_to_a_model_that_runs(good: Path, tmp_path: Path) -> None:
    part, model = tmp_path / "part.edgeseg", tmp_path / "model.onnx"
    picture = frames(1, size_hw=MADE_FOR.size_hw)[0]
    broken = picture.copy()
    broken[:16, :16] = 255
    wanted = replace(MADE_FOR, size_hw=(256, 256), folds=4)  # the graph brings its size
    fitted = engine.fit_model(good, graph=GRAPH, config=wanted, options=OPTIONS, out=part)
    assert (fitted.config.size_hw, fitted.config.folds) == (MADE_FOR.size_hw, 4)
    new = tmp_path / "new"
    for number, frame in enumerate(frames(8, size_hw=MADE_FOR.size_hw, first=20)):
        write_image(new / f"{number}.png", frame)
    grown = engine.update_model(part, graph=GRAPH, more=new, options=OPTIONS, out=part)
    assert grown.moments is not None
    assert grown.moments.images == 16
    engine.write_graph(part, graph=GRAPH, out=model)
    with edgeseg.runtime.open(model, backend="cpu") as running:
        assert running.predict(broken).score > running.predict(picture).score > 0
    engine.ignore_regions(part, regions=[CORNER], options=OPTIONS, out=part)
    engine.write_graph(part, graph=GRAPH, out=model)
    with edgeseg.runtime.open(model, backend="cpu") as running:
        results = [running.predict(each) for each in (broken, picture)]
    assert [result.verdict for result in results] == ["good", "good"]
    assert not results[0].map_hw[:16, :16].any()


def test_a_graph_at_hand_is_taken(
    good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = cache_path(MADE_FOR)
    path.parent.mkdir(parents=True)
    path.write_bytes(GRAPH.read_bytes())
    part = tmp_path / "part.edgeseg"
    engine.fit_model(good, graph=None, config=MADE_FOR, options=OPTIONS, out=part)
    engine.write_graph(part, graph=None, out=tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx").is_file()


def test_one_is_made_where_torch_is(
    good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the command, whose words and errors are looked at here."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    asked: list[list[str]] = []

    class Done:
        returncode = 1

    def run(command: list[str], *, env: dict[str, str], **_: object) -> Done:
        asked.append(command)
        Path(env[FAILURE_FILE]).write_text('{"failed": "no weights for resnet18"}')
        assert '"geometry"' not in Path(command[-1]).read_text()
        return Done()

    monkeypatch.setattr(find_graph.subprocess, "run", run)
    with pytest.raises(EdgesegError, match=r"^no weights for resnet18$"):
        engine.fit_model(
            good, graph=None, config=MADE_FOR, options=OPTIONS, out=tmp_path / "part.edgeseg"
        )
    assert asked[0][3:5] == ["export-backbone", str(cache_path(MADE_FOR))]
