"""A model of before, put back with what was approved of it."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from edgeseg.base import leftovers
from edgeseg.base.errors import EdgesegError, UsageError
from edgeseg.base.files import file_sha256
from edgeseg.base.progress import ignore
from edgeseg.modelfile import versions
from edgeseg.runtime.backends.model_file import file_metadata, store_choice, write_sidecar
from edgeseg.runtime.recipes.approval import read_approval
from edgeseg.runtime.recipes.install import install_model, roll_back
from edgeseg.runtime.recipes.open_judge import check_recipe
from edgeseg.runtime.recipes.recipe import Recipe
from edgeseg.runtime.recipes.versions import keep_version, versions_of
from tests.support.brightness_model import brightness_metadata, write_brightness_model
from tests.support.recipe_folders import CPU, approve_now, install, new_recipe

KILLED = 9


@pytest.fixture
def bottle(tmp_path: Path) -> Recipe:
    return new_recipe(tmp_path / "bottle")


def test_there_and_back_again(bottle: Recipe, tmp_path: Path) -> None:
    hashes = [file_sha256(bottle.model)]
    keep_version(bottle)
    for threshold in (190.0, 180.0):
        hashes.append(install(bottle, threshold, tmp_path))
        keep_version(bottle)
    for before in (hashes[1], hashes[0]):
        assert roll_back(bottle).model_sha256 == before == file_sha256(bottle.model)
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


def test_an_install_names_what_was_chosen_of_the_model_before(
    bottle: Recipe, tmp_path: Path
) -> None:
    metadata = file_metadata(bottle.model)
    chosen = replace(metadata.threshold, score=195.0)
    store_choice(bottle.model, chosen, rule="by hand", rate=None, images=9, when="today")
    other, told = tmp_path / "other.onnx", list[str]()
    write_brightness_model(other, metadata=brightness_metadata(threshold=190.0))
    install_model(bottle, other, CPU, note=told.append)
    assert (
        "bottle: threshold 195.0000 and 0 ignored regions were chosen of the model before; the new "
        "one has 190.0000 and 0; to choose as before: `edgeseg threshold "
        f"{bottle.model} --value 195`"
    ) in told
    told.clear()
    install_model(bottle, other, CPU, note=told.append)
    assert not any("chosen of the model before" in line for line in told)


def test_a_damaged_model_goes_back_to_the_newest_version(bottle: Recipe) -> None:
    keep_version(bottle)
    whole = file_sha256(bottle.model)
    bottle.model.write_bytes(b"damaged")
    with pytest.raises(EdgesegError):
        keep_version(bottle)
    assert roll_back(bottle).model_sha256 == whole == file_sha256(bottle.model)
    file_metadata(bottle.model)


def killed(do: Callable[[], object]) -> None:
    """In a process of its own, which ends at the step that is patched with `kill`."""
    child = os.fork()
    if not child:
        do()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == KILLED


def kill(*arguments: object) -> None:
    os._exit(KILLED)


@pytest.mark.parametrize(
    ("where", "back"),
    [
        ("_decide", False),
        ("_take_places", True),
        ("_read_list", True),
    ],
)
def test_going_back_was_done_or_was_not_wherever_it_was_killed(
    bottle: Recipe,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    where: str,
    back: bool,
) -> None:
    before = file_sha256(bottle.model)
    keep_version(bottle)
    install(bottle, 190.0, tmp_path)
    approve_now(bottle)
    keep_version(bottle)
    monkeypatch.setattr(versions, where, kill)
    killed(lambda: roll_back(bottle))
    monkeypatch.undo()
    monkeypatch.setattr(leftovers, "_swept", set())  # as of a new process
    assert list(bottle.folder.glob(".next*")), "nobody has cleared up"
    file_metadata(bottle.model)
    assert (file_sha256(bottle.model) == before) == back
    assert check_recipe(bottle, CPU, note=ignore).passed
    assert read_approval(bottle).threshold == (200.0 if back else 190.0)
    keep_version(bottle)  # as a stream does that starts
    if not back:
        roll_back(bottle)
    assert file_metadata(bottle.model).threshold.score == read_approval(bottle).threshold == 200.0
    assert not list(bottle.folder.glob(".next*"))
    approvals = [(path / "expected.json").read_text() for path, _ in versions_of(bottle)]
    assert len(set(approvals)) == 2, "each version has its own"


def test_a_version_without_an_approval_comes_back_too(tmp_path: Path) -> None:
    bottle = new_recipe(tmp_path / "bottle", approved=False)
    before = file_sha256(bottle.model)
    keep_version(bottle)
    install(bottle, 190.0, tmp_path)
    keep_version(bottle)
    assert roll_back(bottle).model_sha256 == before == file_sha256(bottle.model)
    assert not list(bottle.folder.glob(".*"))
