"""Where keys are trusted, what inspects is what was verified: at the start, and at every load."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("cryptography", reason="needs cryptography: pip install edgeseg[sign]")

from edgeseg.base.errors import RuntimeFailure
from edgeseg.base.progress import ignore
from edgeseg.modelfile.signature import sign
from edgeseg.modelfile.signed_files import SignedFiles
from edgeseg.modelfile.signing_keys import make_keys
from edgeseg.runtime.backends.model_file import file_metadata, write_sidecar
from edgeseg.runtime.events.codes import Check, ErrorCode
from edgeseg.runtime.recipes.install import roll_back
from edgeseg.runtime.recipes.recipe import Recipe
from edgeseg.runtime.recipes.store import RecipeStore
from edgeseg.runtime.recipes.versions import put_model
from edgeseg.runtime.recipes.warm_sessions import WarmSessions
from edgeseg.vision.images import write_image
from tests.doubles.rig import Rig
from tests.support.brightness_model import brightness_metadata, write_brightness_model
from tests.support.recipe_folders import CPU, approve_now, edit, new_recipe, part
from tests.support.recipe_line import change, inspect, line


@pytest.fixture
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_keys(tmp_path_factory.mktemp("keys") / "owner.key")


@pytest.fixture
def folder(tmp_path: Path, keys: tuple[Path, Path]) -> Path:
    """Two signed recipes that disagree about the camera's frames."""
    new_recipe(tmp_path / "high", number=1, threshold=200.0)
    new_recipe(
        tmp_path / "low", number=2, threshold=145.0, good=(120, 140), bad=(150,), at_start=True
    )
    for name in ("high", "low"):
        sign(tmp_path / name, keys[0], chain={})
    return tmp_path


def recipe_in(folder: Path, name: str) -> Recipe:
    found = RecipeStore(folder=folder).find(name)
    assert found is not None
    return found


# Each lets the recipe `low`, which finds every frame of the camera defective, call them good.


def by_settings(low: Recipe) -> str:
    edit(low, "# threshold = 1.0", "threshold = 500.0")
    edit(low, "at_start = true", "at_start = false")
    return "recipe.toml"


def by_sidecar(low: Recipe) -> str:
    told = file_metadata(low.model)
    write_sidecar(low.model, replace(told, threshold=replace(told.threshold, score=500.0)))
    return "model.json"


def by_model(low: Recipe) -> str:
    path = low.folder.parent / ".other.onnx"
    write_brightness_model(path, metadata=brightness_metadata(threshold=500.0))
    put_model(low, path)
    return "model.json"


def by_graph_in_place(low: Recipe) -> str:
    """Inode, size and time as before: only its bytes tell."""
    before, data = low.model.stat(), bytearray(low.model.read_bytes())
    data[len(data) // 2] ^= 1
    with low.model.open("r+b") as file:
        file.write(data)
    os.utime(low.model, ns=(before.st_atime_ns, before.st_mtime_ns))
    return "model.onnx"


def by_golden_picture(low: Recipe) -> str:
    write_image(low.golden / "bad" / "150.png", part(240))
    return "golden/bad/150.png"


def by_approval(low: Recipe) -> str:
    path = low.golden / "expected.json"
    told = json.loads(path.read_text())
    path.write_text(json.dumps(told | {"pictures": told["pictures"][:1]}))
    return "golden/expected.json"


WAYS = (by_settings, by_sidecar, by_model, by_graph_in_place, by_golden_picture, by_approval)
Way = Callable[[Recipe], str]


@pytest.mark.parametrize("way", WAYS)
def test_what_changed_after_the_first_load_is_refused_at_the_next(
    folder: Path, keys: tuple[Path, Path], way: Way
) -> None:
    with line(folder, trust=(keys[1],)) as rig:
        rig.changes._watch.close()
        change(rig, 2, "low")
        assert inspect(rig) == ("low", "defect")
        change(rig, 1, "high")
        whole = folder.parent / "whole"
        shutil.copytree(folder / "low", whole)
        name = way(recipe_in(folder, "low"))
        for key in (2, "low"):
            assert rig.station.load_job(key)
            rig.wait(lambda: not rig.station.status().job_loading, "the refusal")
            assert inspect(rig)[1] == "no_inspection"
            assert f"{name} was changed since it was signed" in rig.results[-1].reason
        shutil.rmtree(folder / "low")
        whole.rename(folder / "low")
        change(rig, 2, "low")
        assert inspect(rig) == ("low", "defect")


@pytest.mark.parametrize("way", WAYS)
def test_what_changed_before_the_start_is_refused_there(
    folder: Path, keys: tuple[Path, Path], way: Way
) -> None:
    """Also between the look for the recipe and its loading."""
    low = recipe_in(folder, "low")
    name = way(low)
    warm = warm_sessions(keys[1])
    with pytest.raises(RuntimeFailure, match=f"{name} was changed since it was signed"):
        warm.take(low)
    assert warm.names == []


def warm_sessions(*trust: Path) -> WarmSessions:
    opening = replace(CPU, trust=trust)
    return WarmSessions(opening, limit_mb=100.0, note=ignore)


@pytest.mark.parametrize("way", [by_settings, by_sidecar, by_model, by_graph_in_place])
def test_nothing_is_used_that_was_changed_behind_the_look_at_it(
    folder: Path, keys: tuple[Path, Path], way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signature fits, and then the file is replaced, before the model is opened."""
    low, real = recipe_in(folder, "low"), SignedFiles.check

    def checked_and_replaced(self: SignedFiles) -> None:
        real(self)
        way(low)

    monkeypatch.setattr(SignedFiles, "check", checked_and_replaced)
    with pytest.raises(RuntimeFailure, match="was changed since it was signed"):
        warm_sessions(keys[1]).take(low)


@pytest.mark.parametrize("way", [by_golden_picture, by_approval])
def test_a_check_on_request_reads_only_what_was_signed(
    folder: Path, keys: tuple[Path, Path], way: Way
) -> None:
    with line(folder, first="low", trust=(keys[1],)) as rig:
        assert rig.station.status().check == Check.PASSED
        way(recipe_in(folder, "low"))
        assert rig.station.check_now()
        rig.wait(lambda: rig.station.status().check != Check.RUNNING, "the check")
        assert rig.station.status().check == Check.FAILED
        assert "was changed since it was signed" in rig.station.status().reason
        assert inspect(rig)[1] == "no_inspection"
        assert rig.results[-1].error == ErrorCode.CHECK_FAILED


def test_settings_of_now_do_not_reach_a_recipe_that_runs(
    folder: Path, keys: tuple[Path, Path]
) -> None:
    with line(folder, first="low", trust=(keys[1],)) as rig:
        by_settings(recipe_in(folder, "low"))
        assert not rig.changes._watch.look()
        assert inspect(rig) == ("low", "defect")


# Without keys a changed recipe is taken up, and whole.


def thresholds(rig: Rig) -> tuple[float, float]:
    """The one that decides, and the one that is stored with the model that runs."""
    stored = rig.pipeline.session.metadata.threshold.score
    return rig.pipeline.scorer.thresholds.score, stored


def test_a_recipe_that_nobody_signed_changes_as_a_whole_at_a_load(folder: Path) -> None:
    with line(folder) as rig:
        rig.changes._watch.close()
        change(rig, 2, "low")
        assert thresholds(rig) == (145.0, 145.0)
        change(rig, 1, "high")
        low = edit(recipe_in(folder, "low"), "# threshold = 1.0", "threshold = 149.0")
        replace_model(low, 148.0)
        approve_now(recipe_in(folder, "low"))
        change(rig, 2, "low")
        assert thresholds(rig) == (149.0, 148.0)


def test_a_recipe_that_nobody_signed_changes_as_a_whole_while_it_runs(folder: Path) -> None:
    with line(folder, first="low") as rig:
        rig.changes._watch.close()
        low = edit(recipe_in(folder, "low"), "# threshold = 1.0", "threshold = 149.0")
        replace_model(low, 148.0)
        approve_now(recipe_in(folder, "low"))
        rig.changes._watch.look()
        assert rig.changes._watch.look()
        assert thresholds(rig) == (149.0, 148.0)


def replace_model(recipe: Recipe, threshold: float) -> None:
    path = recipe.folder.parent / ".other.onnx"
    write_brightness_model(path, metadata=brightness_metadata(threshold=threshold))
    put_model(recipe, path)


def test_a_recipe_that_gets_another_number_while_it_is_loaded_is_not(folder: Path) -> None:
    low = recipe_in(folder, "low")
    edit(low, "number = 2", "number = 3")
    with pytest.raises(RuntimeFailure, match="its number is 3 now and was 2 when it was asked for"):
        warm_sessions().take(low)


# What is older than what ran.


def signed_again(folder: Path, key: Path, threshold: float) -> None:
    """The next version of `low`, with another model."""
    low = recipe_in(folder, "low")
    replace_model(low, threshold)
    approve_now(low)
    sign(low.folder, key, chain={})


def test_files_of_an_older_version_do_not_come_back(
    folder: Path, keys: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> None:
    older = tmp_path_factory.mktemp("older") / "low"
    shutil.copytree(folder / "low", older)
    signed_again(folder, keys[0], 148.0)
    with line(folder, trust=(keys[1],)) as rig:
        rig.changes._watch.close()
        change(rig, 2, "low")
        change(rig, 1, "high")
        newer = folder.parent / "newer"
        (folder / "low").rename(newer)
        shutil.copytree(older, folder / "low")
        assert rig.station.load_job(2)
        rig.wait(lambda: not rig.station.status().job_loading, "the refusal")
        assert inspect(rig)[1] == "no_inspection"
        assert "low: version 1 of " in rig.results[-1].reason
        assert "and version 2 ran here" in rig.results[-1].reason
        shutil.rmtree(folder / "low")
        newer.rename(folder / "low")
        change(rig, 2, "low")


def test_an_operator_goes_back_to_what_was_signed_and_ran(
    folder: Path, keys: tuple[Path, Path]
) -> None:
    """To this one version: others below the highest stay refused, and it is no way down."""
    trust = (keys[1],)
    low = recipe_in(folder, "low")
    with line(folder, first="low", trust=trust) as rig:
        rig.changes._watch.close()
        for threshold in (147.0, 148.0):
            change(rig, 1, "high")
            signed_again(folder, keys[0], threshold)
            change(rig, 2, "low")
        middle = folder.parent / "middle"
        roll_back(low, trust=trust)
        shutil.copytree(low.folder, middle)
        change(rig, 2, "low")
        assert thresholds(rig)[1] == 147.0
        roll_back(low, trust=trust)
        change(rig, 2, "low")
        assert thresholds(rig)[1] == 145.0
        shutil.rmtree(low.folder)
        middle.rename(low.folder)
        assert rig.station.load_job(2)
        rig.wait(lambda: not rig.station.status().job_loading, "the refusal")
        assert "version 2 of " in rig.station.status().reason
