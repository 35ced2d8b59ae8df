"""Recipe folders: what is written is read, and what cannot be meant is refused."""

import shutil
from pathlib import Path

import pytest

from edgeseg.base.errors import UsageError
from edgeseg.base.files import file_sha256
from edgeseg.runtime.backends.choose import open_session
from edgeseg.runtime.backends.session_options import SessionOptions
from edgeseg.runtime.recipes.recipe import (
    DecisionSettings,
    GoldenBounds,
    RecipeRegion,
    Settings,
    read_recipe,
    settings_text,
)
from edgeseg.runtime.recipes.store import RecipeStore, make_recipe
from edgeseg.runtime.scoring.scorer import ScorerConfig
from edgeseg.runtime.scoring.verdict import Debounce
from edgeseg.vision.geometry import Roi
from tests.support.brightness_model import write_brightness_model
from tests.support.commands import fail, succeed
from tests.support.recipe_folders import OPENING, edit, new_recipe


@pytest.mark.parametrize(
    "settings",
    [
        Settings(number=1),
        Settings(
            number=65535,
            model="model.plan",
            region=RecipeRegion(roi="1,2,30,40", tile_overlap=0.5),
            operating_point=DecisionSettings(threshold=3.25, debounce="2/3"),
            golden=GoldenBounds(at_start=True, score_tolerance=0.5, repeats=1, turn=3.0),
        ),
    ],
)
def test_what_is_written_is_read(tmp_path: Path, settings: Settings) -> None:
    (tmp_path / "bottle").mkdir()
    (tmp_path / "bottle" / "recipe.toml").write_text(settings_text(settings))
    assert read_recipe(tmp_path / "bottle").settings == settings


def test_a_new_recipe_runs_like_its_model(tmp_path: Path) -> None:
    told = write_brightness_model(tmp_path / "part.onnx")
    made = make_recipe(tmp_path / "all" / "bottle", tmp_path / "part.onnx", Settings(number=7))
    assert (made.name, made.model.name) == ("bottle", "model.onnx")
    assert file_sha256(made.model) == told.onnx_sha256
    with open_session(made.model, SessionOptions(backend="cpu")) as session:
        assert session.metadata.threshold == told.threshold
    assert [path.name for path in (tmp_path / "all").iterdir()] == ["bottle"]


def test_how_frames_are_judged(tmp_path: Path) -> None:
    made = new_recipe(tmp_path / "bottle", approved=False)
    assert made.scorer_config() == ScorerConfig(recipe="bottle")
    edit(made, '# roi = "0,0,640,480"', 'roi = "1,2,30,40"')
    edit(made, "# threshold = 1.0", "threshold = 99.5")
    assert edit(made, '"1/1"', '"2/3"').scorer_config() == ScorerConfig(
        roi=Roi(x=1, y=2, w=30, h=40),
        threshold=99.5,
        debounce=Debounce(k=2, n=3),
        recipe="bottle",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "missing keys ['number']"),
        ("number = 0", "number=0: expected 1 to 65535"),
        ("number = 1\nnmae = 2", "unknown keys ['nmae']"),
        (
            'number = 1\nmodel = "../m.onnx"',
            "model='../m.onnx': expected the name of a .onnx or .plan file in the folder",
        ),
        ("number = 1\n[region]\nroi = 3", "region.roi: 3, expected text"),
        ('number = 1\n[region]\nroi = "1,2"', "region.roi='1,2': expected four integers x,y,w,h"),
        ("number = 1\n[golden]\nrepeats = 0", "golden.repeats=0: expected at least 1"),
        ("number = 1\n[golden]\nlight = -1", "golden.light=-1: expected at least 0"),
        (
            "number = 1\n[operating_point]\nthreshold = -1.0",
            "operating_point.threshold=-1.0: expected a finite number from 0",
        ),
        (
            "number = 1\n[operating_point]\nthreshold = nan",
            "operating_point.threshold: nan, expected a finite number",
        ),
        ("number = ", "not TOML (Invalid value (at end of document))"),
    ],
)
def test_mistakes_name_file_and_setting(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "bottle" / "recipe.toml"
    file.parent.mkdir()
    file.write_text(text)
    with pytest.raises(UsageError) as refused:
        read_recipe(file.parent)
    assert str(refused.value) == f"{file}: {message}"


@pytest.mark.parametrize(
    ("threshold", "said"),
    [
        ("nan", "--threshold nan: expected a finite number from 0"),
        ("inf", "--threshold inf: expected a finite number from 0"),
        ("-1", "--threshold -1.0: expected a finite number from 0"),
        ("1e6", "--threshold 1000000.0: over 1000 times the highest score of a good image (150)"),
    ],
)
def test_a_threshold_that_cannot_be_meant_leaves_no_recipe(
    tmp_path: Path, threshold: str, said: str
) -> None:
    write_brightness_model(tmp_path / "part.onnx")
    new = ("recipe", "new", tmp_path / "all" / "bottle", "--model", tmp_path / "part.onnx")
    assert said in fail(*new, "--threshold", threshold, code=2)
    assert not list(tmp_path.glob("all/*"))
    succeed(*new, "--threshold", "0")
    assert "by hand" in succeed("recipe", "show", new[2]).stdout


def test_a_threshold_written_by_hand_that_would_find_nothing(tmp_path: Path) -> None:
    made = new_recipe(tmp_path / "bottle", approved=False)
    edit(made, "# threshold = 1.0", "threshold = 1e6")
    said = fail("recipe", "approve", made.folder, *OPENING, code=2)
    assert said.startswith("--threshold 1000000.0: over 1000 times the highest score of a good")


def test_folders_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no recipe.toml in it, so it is no recipe"):
        read_recipe(tmp_path)
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b" / "recipe.toml").write_text("number = 1")
    with pytest.raises(UsageError, match="recipe 'a b': expected letters, digits"):
        read_recipe(tmp_path / "a b")
    write_brightness_model(tmp_path / "part.onnx")
    with pytest.raises(UsageError, match="is there already; choose another name"):
        make_recipe(tmp_path / "a", tmp_path / "part.onnx", Settings(number=1)) and make_recipe(
            tmp_path / "a", tmp_path / "part.onnx", Settings(number=2)
        )


def test_recipes_are_found_by_name_and_number(tmp_path: Path) -> None:
    store = RecipeStore(folder=tmp_path)
    assert (store.recipes(), store.find(1), store.free_number()) == ([], None, 1)
    for number, name in ((4, "a"), (2, "b"), (1, "c")):
        new_recipe(tmp_path / name, number=number, approved=False)
    assert [recipe.name for recipe in store.recipes()] == ["c", "b", "a"]
    assert [store.find(key).name for key in (4, "2", "c", " a ")] == ["a", "b", "c", "a"]
    assert [store.find(key) for key in (3, "d", "")] == [None] * 3
    assert store.free_number() == 3


def test_a_name_of_digits_is_refused_and_never_answers_for_a_number(tmp_path: Path) -> None:
    """A PLC that asks for number 2 gets what says number = 2, or nothing."""
    new_recipe(tmp_path / "b", number=2, approved=False)
    shutil.copytree(tmp_path / "b", tmp_path / "2")
    edited = (tmp_path / "2" / "recipe.toml").read_text().replace("number = 2", "number = 7")
    (tmp_path / "2" / "recipe.toml").write_text(edited)
    store = RecipeStore(folder=tmp_path)
    for key in (2, "2", 7, "b"):
        with pytest.raises(UsageError, match="recipe '2': a name of digits alone would be taken"):
            store.find(key)
    shutil.rmtree(tmp_path / "2")
    assert store.find("02").name == store.find(2).name == "b"
    write_brightness_model(tmp_path / "part.onnx")
    said = fail("recipe", "new", tmp_path / "2", "--model", tmp_path / "part.onnx", code=2)
    assert said.startswith("recipe '2': a name of digits alone would be taken for a number; put a")
    assert not (tmp_path / "2").exists()


def test_a_link_of_digits_to_a_recipe_is_refused(tmp_path: Path) -> None:
    new_recipe(tmp_path / "elsewhere" / "b", number=7, approved=False)
    (tmp_path / "line").mkdir()
    (tmp_path / "line" / "2").symlink_to(tmp_path / "elsewhere" / "b")
    with pytest.raises(UsageError, match="recipe '2': a name of digits"):
        RecipeStore(folder=tmp_path / "line").find(2)


def test_a_number_that_is_taken_makes_no_recipe(tmp_path: Path) -> None:
    new_recipe(tmp_path / "b", number=2, approved=False)
    write_brightness_model(tmp_path / "part.onnx")
    new = ("recipe", "new", tmp_path / "c", "--model", tmp_path / "part.onnx", "--number")
    said = fail(*new, 2, code=2)
    assert said.startswith("--number 2: is the number of b; choose another one"), said
    assert not (tmp_path / "c").exists()
    succeed(*new, 3)


def test_two_recipes_of_one_number_are_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        new_recipe(tmp_path / name, number=3, approved=False)
    with pytest.raises(UsageError, match="number=3 is another recipe's too"):
        RecipeStore(folder=tmp_path).recipes()
    with pytest.raises(UsageError, match="no such folder"):
        RecipeStore(folder=tmp_path / "no").recipes()
