"""`edgeseg recipe` and `edgeseg check`, as people type them."""

import json
from pathlib import Path

import cv2
import pytest

from edgeseg.runtime.recipes.recipe import read_recipe
from edgeseg.vision.images import images_in, write_image
from tests.support.brightness_model import write_brightness_model
from tests.support.commands import fail, run, succeed
from tests.support.recipe_folders import OPENING, edit, new_recipe, part


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    for label, spots in (("ok", (150, 160)), ("nok", (220,)), ("camera", range(150, 164))):
        for spot in spots:
            write_image(tmp_path / label / f"{spot}.png", part(spot))
    return tmp_path


def test_from_a_model_to_a_passed_check(pictures: Path) -> None:
    model, bottle = pictures / "part.onnx", pictures / "recipes" / "bottle"
    write_brightness_model(model)
    made = succeed("recipe", "new", bottle, "--model", model, "--roi", "0,0,96,64")
    assert made.stderr.startswith(f"wrote {bottle}, number 1; approve pictures with: ")
    succeed("recipe", "add-golden", bottle, pictures / "ok", "--good", *OPENING)
    succeed("recipe", "add-golden", bottle, pictures / "nok", "--bad", *OPENING)
    succeed("recipe", "add-master", bottle, "--source", pictures / "camera", *OPENING)
    assert len(images_in(bottle / "golden" / "master")) == 8
    done = succeed("check", bottle, "--source", pictures / "camera", *OPENING)
    assert done.stdout.splitlines() == [
        "bottle: passed, 3 golden pictures as approved",
        "false alarms: 0 of 2, so the rate is between 0.0% and 84.2%",
        "misses: 0 of 1, so the rate is between 0.0% and 97.5%",
        "repeats: 3, scores differ by 0 at most",
        "master part: brightness x1.00, sharpness x1.00, moved 0.0% right and 0.0% down, "
        "turned 0.0 degrees",
    ]
    told = json.loads(succeed("check", bottle, "--json", "-q", *OPENING).stdout)
    assert told["passed"] is True
    assert told["confidence"] == 0.95
    assert len(list((bottle / "checks").glob("*.json"))) == 2
    listed = succeed("recipe", "list", bottle.parent).stdout.splitlines()
    assert listed[1].split()[:5] == ["1", "bottle", "brightness", "fp32", "3"]
    assert "passed" in listed[1]
    shown = succeed("recipe", "show", bottle).stdout
    assert "golden           2 good, 1 bad, approved 20" in shown
    assert json.loads(succeed("recipe", "show", bottle, "--json").stdout)["region"] == "0,0,96,64"


def test_a_failed_check_says_why_with_exit_code_1(pictures: Path) -> None:
    bottle = new_recipe(pictures / "bottle")
    edit(bottle, "# threshold = 1.0", "threshold = 155.0")
    done = run("check", bottle.folder, *OPENING)
    assert done.exit_code == 1
    assert done.stdout.startswith(
        "bottle: FAILED, threshold 155, approved was 200, and 2 more\n"
        "  threshold 155, approved was 200\n"
        "  good/160.png: judged defect, approved was good\n"
    )
    (record,) = (bottle.folder / "checks").iterdir()
    assert json.loads(record.read_text())["passed"] is False


def test_a_darker_master_part_fails(pictures: Path) -> None:
    bottle = new_recipe(pictures / "bottle").folder
    succeed("recipe", "add-master", bottle, "--source", pictures / "camera", *OPENING)
    for path in images_in(pictures / "camera"):
        write_image(path, cv2.convertScaleAbs(cv2.imread(str(path)), alpha=0.7))
    done = run("check", bottle, "--source", pictures / "camera", *OPENING)
    assert done.exit_code == 1
    assert "master part: the light has changed: brightness x0.70" in done.stdout


def test_a_refused_picture_leaves_the_set_as_it_was(pictures: Path) -> None:
    bottle = new_recipe(pictures / "bottle").folder
    before = sorted(bottle.rglob("*"))
    message = fail("recipe", "add-golden", bottle, pictures / "nok", "--good", *OPENING, code=1)
    assert "220.png: judged defect (220, threshold 200), expected good" in message
    assert sorted(bottle.rglob("*")) == before
    succeed("check", bottle, *OPENING)


def test_a_picture_of_the_same_name_is_added_beside_it(pictures: Path) -> None:
    bottle = new_recipe(pictures / "bottle").folder
    succeed("recipe", "add-golden", bottle, pictures / "ok" / "150.png", "--good", *OPENING)
    assert (bottle / "golden" / "good" / "150-1.png").exists()
    succeed("recipe", "approve", bottle, *OPENING)


def test_mistakes(pictures: Path) -> None:
    assert fail("check", pictures, code=2) == (
        f"{pictures}: no recipe.toml in it, so it is no recipe; make one with `edgeseg recipe new`"
    )
    bare = new_recipe(pictures / "bare", good=(), bad=(), approved=False)
    assert fail("check", bare.folder, *OPENING, code=2) == (
        f"{bare.folder}: nothing is approved yet; put pictures into its golden set with "
        "`edgeseg recipe add-golden`"
    )
    assert fail("recipe", "approve", bare.folder, *OPENING, "-q", code=2) == (
        f"{bare.folder}/golden: no pictures; add some with `edgeseg recipe add-golden`"
    )
    ok = pictures / "ok"
    assert fail("recipe", "add-golden", bare.folder, ok, code=2) == (
        f"{ok}: good or bad parts? Add `--good` or `--bad`"
    )
    short = fail("recipe", "add-master", bare.folder, "--source", ok, code=1)
    assert short.startswith(f"{ok}: 2 frames, expected 8 of the master part")
    (bare.golden / "expected.json").write_text("{}")
    assert "approve again with `edgeseg recipe approve`" in fail("check", bare.folder, code=2)
    assert read_recipe(bare.folder).settings.number == 1
