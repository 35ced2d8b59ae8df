"""Versions of a model: kept whole, bounded, and put in place."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from edgeseg.base.errors import UsageError
from edgeseg.base.files import file_sha256
from edgeseg.modelfile import versions as file_versions
from edgeseg.runtime.backends.model_file import file_metadata
from edgeseg.runtime.recipes import versions as module
from edgeseg.runtime.recipes.recipe import Recipe
from edgeseg.runtime.recipes.versions import keep_version, put_model, versions_of
from tests.support.brightness_model import PLAN, brightness_metadata
from tests.support.recipe_folders import install, new_recipe


@pytest.fixture
def bottle(tmp_path: Path) -> Recipe:
    return new_recipe(tmp_path / "bottle")


def test_a_version_is_kept_once(bottle: Recipe) -> None:
    assert keep_version(bottle) == keep_version(bottle)
    ((path, version),) = versions_of(bottle)
    assert path.name == "0001"
    assert version.model_sha256 == file_sha256(bottle.model) == file_sha256(path / "model.onnx")
    assert (path / "expected.json").read_text() == (bottle.golden / "expected.json").read_text()


def test_the_oldest_go(bottle: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_KEPT", 2)
    for threshold in (199.0, 198.0, 197.0):
        install(bottle, threshold, tmp_path)
        keep_version(bottle)
    assert [path.name for path, _ in versions_of(bottle)] == ["0002", "0003"]


@pytest.mark.parametrize(("step", "decided"), [("_decide", False), ("_take_places", True)])
def test_killed_anywhere_the_pair_is_whole(
    bottle: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, decided: bool
) -> None:
    class Killed(BaseException):
        pass

    def kill(*arguments: object) -> None:
        raise Killed

    monkeypatch.setattr(file_versions, step, kill)
    with pytest.raises(Killed):
        install(bottle, 190.0, tmp_path)
    monkeypatch.undo()
    assert file_metadata(bottle.model).threshold.score == (190.0 if decided else 200.0)
    kept = keep_version(bottle) / "model.onnx"  # what a stream does that starts now
    assert file_metadata(kept).threshold.score == (190.0 if decided else 200.0)


def test_models_that_do_not_fit(bottle: Recipe, tmp_path: Path) -> None:
    plan = tmp_path / "part.plan"
    plan.write_bytes(b"plan")
    told = replace(brightness_metadata(), plan=replace(PLAN, plan_sha256=file_sha256(plan)))
    plan.with_suffix(".json").write_text(told.to_json())
    with pytest.raises(UsageError, match=r"expected a .onnx file, as recipe.toml says"):
        put_model(bottle, plan)
    large = tmp_path / "large.onnx"
    shutil.copy(bottle.model, large)
    (tmp_path / "large.onnx.data").touch()
    with pytest.raises(UsageError, match=r"keeps its weights in large.onnx.data"):
        put_model(bottle, large)
