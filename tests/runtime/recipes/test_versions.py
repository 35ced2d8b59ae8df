"""Versions of a model: kept whole, bounded, and put back."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from edgeseg.errors import EdgesegError, UsageError
from edgeseg.files import file_sha256
from edgeseg.runtime.backends.model_file import file_metadata, write_sidecar
from edgeseg.runtime.recipes import versions as module
from edgeseg.runtime.recipes.recipe import Recipe
from edgeseg.runtime.recipes.versions import keep_version, put_model, roll_back, versions_of
from tests.support.brightness_model import PLAN, brightness_metadata, write_brightness_model
from tests.support.recipe_folders import new_recipe


@pytest.fixture
def bottle(tmp_path: Path) -> Recipe:
    return new_recipe(tmp_path / "bottle")


def install(recipe: Recipe, threshold: float, folder: Path) -> str:
    """Another model in the recipe's place; its hash."""
    path = folder / f"new-{threshold}.onnx"
    write_brightness_model(path, metadata=brightness_metadata(threshold=threshold))
    put_model(recipe, path)
    return file_sha256(recipe.model)


def test_a_version_is_kept_once(bottle: Recipe) -> None:
    assert keep_version(bottle) == keep_version(bottle)
    ((path, version),) = versions_of(bottle)
    assert path.name == "0001"
    assert version.model_sha256 == file_sha256(bottle.model) == file_sha256(path / "model.onnx")
    assert (path / "expected.json").read_text() == (bottle.golden / "expected.json").read_text()


def test_there_and_back_again(bottle: Recipe, tmp_path: Path) -> None:
    hashes = [file_sha256(bottle.model)]
    keep_version(bottle)
    for threshold in (190.0, 180.0):
        hashes.append(install(bottle, threshold, tmp_path))
        keep_version(bottle)
    for expected in (hashes[1], hashes[0]):
        assert roll_back(bottle).model_sha256 == expected == file_sha256(bottle.model)
        keep_version(bottle)
    with pytest.raises(UsageError, match="no version before this one; 3 are kept"):
        roll_back(bottle)
    assert file_metadata(bottle.model).threshold.score == 200.0


def test_a_threshold_chosen_since_is_a_version_too(bottle: Recipe) -> None:
    keep_version(bottle)
    metadata = file_metadata(bottle.model)
    write_sidecar(
        bottle.model, replace(metadata, threshold=replace(metadata.threshold, score=195.0))
    )
    keep_version(bottle)
    assert len(versions_of(bottle)) == 2
    roll_back(bottle)
    assert file_metadata(bottle.model).threshold.score == 200.0


def test_a_damaged_model_goes_back_to_the_newest_version(bottle: Recipe) -> None:
    keep_version(bottle)
    whole = file_sha256(bottle.model)
    bottle.model.write_bytes(b"damaged")
    with pytest.raises(EdgesegError):
        keep_version(bottle)
    assert roll_back(bottle).model_sha256 == whole == file_sha256(bottle.model)
    file_metadata(bottle.model)


def test_the_oldest_go(bottle: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_KEPT", 2)
    for threshold in (199.0, 198.0, 197.0):
        install(bottle, threshold, tmp_path)
        keep_version(bottle)
    assert [path.name for path, _ in versions_of(bottle)] == ["0002", "0003"]


def test_killed_anywhere_the_pair_is_whole(
    bottle: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = file_sha256(bottle.model)

    class Killed(BaseException):
        pass

    def kill(*arguments: object) -> None:
        raise Killed

    for name, after in (("announce_sidecar", True), ("settle_sidecar", False)):
        monkeypatch.setattr(module, name, kill)
        with pytest.raises(Killed):
            install(bottle, 190.0, tmp_path)
        monkeypatch.undo()
        assert (file_sha256(bottle.model) == before) == after
        if not after:
            continue
        assert file_metadata(bottle.model).threshold.score == 200.0
    assert file_metadata(bottle.model).threshold.score == 190.0
    kept = keep_version(bottle) / "model.onnx"  # what a stream does that starts now
    assert file_metadata(kept).threshold.score == 190.0


@pytest.mark.parametrize("where", ["announce_sidecar", "settle_sidecar"])
def test_going_back_can_be_killed_and_repeated(
    bottle: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    before, approved = file_sha256(bottle.model), (bottle.golden / "expected.json").read_text()
    keep_version(bottle)
    install(bottle, 190.0, tmp_path)
    (bottle.golden / "expected.json").write_text("of the new model")
    keep_version(bottle)

    class Killed(BaseException):
        pass

    def kill(*arguments: object) -> None:
        raise Killed

    monkeypatch.setattr(module, where, kill)
    with pytest.raises(Killed):
        roll_back(bottle)
    monkeypatch.undo()
    if file_sha256(bottle.model) == before:
        with pytest.raises(UsageError, match="no version before this one"):
            roll_back(bottle)
    else:
        roll_back(bottle)
    assert file_sha256(bottle.model) == before
    assert (bottle.golden / "expected.json").read_text() == approved
    assert not list(bottle.folder.glob(".model*"))
    assert file_metadata(bottle.model).threshold.score == 200.0


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
