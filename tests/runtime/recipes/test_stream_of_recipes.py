"""`edgeseg stream --recipes`, and the versions of a recipe, as people type them."""

import json
from pathlib import Path

import pytest

from edgeseg.base.files import file_sha256
from edgeseg.vision.images import write_image
from tests.support.brightness_model import brightness_metadata, write_brightness_model
from tests.support.commands import fail, run, succeed
from tests.support.recipe_folders import OPENING, new_recipe, part


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    new_recipe(tmp_path / "recipes" / "high", number=1, at_start=True)
    low = {"threshold": 145.0, "good": (120, 140), "bad": (150,)}
    new_recipe(tmp_path / "recipes" / "low", number=2, **low)
    for spot in (130, 150, 160):
        write_image(tmp_path / "camera" / f"{spot}.png", part(spot))
    return tmp_path


def stream(folder: Path, *options: object) -> list[object]:
    source = ("--source", folder / "camera", *OPENING, "--status-every", 0)
    return ["stream", "--recipes", folder / "recipes", *source, *options]


@pytest.mark.parametrize(
    ("key", "verdicts", "check"),
    [("high", ["good"] * 3, True), ("2", ["good", "defect", "defect"], False)],
)
def test_frames_are_judged_by_the_recipe_and_say_so(
    folder: Path, key: str, verdicts: list[str], check: bool
) -> None:
    log, counters = folder / "events.jsonl", folder / "counters.json"
    succeed(*stream(folder, "--recipe", key, "--events", log, "--counters", counters))
    events = [json.loads(line) for line in log.read_text().splitlines()]
    frames = [event for event in events if event["event"] == "frame"]
    name = "low" if key == "2" else "high"
    assert [event["verdict"] for event in frames] == verdicts
    assert {event["recipe"] for event in frames} == {name}
    model = folder / "recipes" / name / "model.onnx"
    assert {event["model_sha256"] for event in frames} == {file_sha256(model)}
    assert ("golden_check" in {event["event"] for event in events}) == check
    assert set(json.loads(counters.read_text())["total"]["recipes"]) == {name}
    assert (model.parent / "versions" / "0001" / "model.onnx").exists()


def test_a_failed_check_at_the_start_ends_a_free_running_stream(folder: Path) -> None:
    write_image(folder / "recipes" / "high" / "golden" / "good" / "150.png", part(151))
    log = folder / "events.jsonl"
    done = run(*stream(folder, "--recipe", "high", "--events", log))
    assert done.exit_code == 1
    assert done.stderr.splitlines()[-1] == (
        "Error: golden check failed: good/150.png: is not the picture that was approved; nothing "
        "is inspected"
    )
    events = [json.loads(line)["event"] for line in log.read_text().splitlines()]
    assert "frame" not in events


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "say with which one to begin: --recipe NAME"),
        (("--recipe", "x"), "--recipe x: expected one of high, low"),
        (
            ("--recipe", "1", "--roi", "0,0,9,9"),
            "--roi 0,0,9,9: stands in each recipe where --recipes is given",
        ),
        (
            ("--recipe", "1", "--model", "m.onnx"),
            "--model m.onnx: stands in each recipe where --recipes is given",
        ),
        (("--recipe", "1", "--warm-mb", 0), "--warm-mb 0.0: expected more than 0"),
    ],
)
def test_mistakes(folder: Path, options: tuple[object, ...], message: str) -> None:
    assert message in fail(*stream(folder, *options), code=2)


def test_neither_model_nor_recipes(folder: Path) -> None:
    source = ("--source", folder / "camera")
    assert fail("stream", *source, code=2) == (
        "no model given; add --model FILE, or --recipes FOLDER"
    )
    assert fail("stream", *source, "--model", "m.onnx", "--recipe", "a", code=2) == (
        "--recipe a: of which folder? Add --recipes FOLDER"
    )


def test_one_recipe_needs_no_name(folder: Path) -> None:
    new_recipe(folder / "alone" / "bottle")
    options = ("--source", folder / "camera", *OPENING)
    done = succeed("stream", "--recipes", folder / "alone", *options)
    assert "3 scored" in done.stdout


def test_a_station_file_names_recipes_and_shifts(folder: Path) -> None:
    station = folder / "line3.toml"
    station.write_text(
        f'recipes = "{folder / "recipes"}"\nrecipe = "low"\nsource = ["{folder / "camera"}"]\n'
        f'backend = "cpu"\ncounters = "{folder / "counters.json"}"\nshifts = "06:00,14:00"\n'
    )
    done = succeed("stream", "--station", station, "--dry-run")
    assert done.stdout == f"low on {folder / 'camera'}, trigger free: ok\n"
    succeed("stream", "--station", station)
    assert json.loads((folder / "counters.json").read_text())["total"]["all"]["parts"] == 3


def test_install_and_rollback(folder: Path) -> None:
    high, better, worse = (folder / name for name in ("recipes/high", "better.onnx", "worse.onnx"))
    write_brightness_model(better, metadata=brightness_metadata(threshold=190.0))
    write_brightness_model(worse, metadata=brightness_metadata(threshold=165.0))
    before = file_sha256(high / "model.onnx")
    refused = fail("recipe", "install", high, worse, *OPENING, "-q", code=1)
    assert refused == (
        f"{worse}: fails the golden pictures of high: good/170.png: judged defect, expected good"
    )
    assert file_sha256(high / "model.onnx") == before
    succeed("recipe", "install", high, better, *OPENING)
    assert file_sha256(high / "model.onnx") != before
    succeed("check", high, *OPENING)
    done = succeed("recipe", "rollback", high)
    assert f"model {before[:12]}... is back" in done.stderr
    assert file_sha256(high / "model.onnx") == before
    succeed("check", high, *OPENING)
    assert "no version before this one" in fail("recipe", "rollback", high, code=2)
