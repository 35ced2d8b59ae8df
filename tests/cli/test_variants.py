"""`edgeseg fit --variants` and the commands after it, as people type them."""

import csv
import io
import json
from pathlib import Path

import pytest

from edgeseg.model.artefact import save_artefact
from edgeseg.vision.images import write_image
from tests.support.commands import fail, run, succeed
from tests.support.shares import FIT_TINY
from tests.support.variants import COLOURS, coloured, colours, two_colours, write_colours


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "two.edgeseg"
    save_artefact(two_colours(), path)
    return path


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Parts of today, in one folder."""
    folder = tmp_path_factory.mktemp("today")
    for colour in COLOURS:
        write_image(folder / f"{colour}.png", coloured(colour, 80))
    return folder


def test_a_fit_and_what_it_says(tmp_path: Path, parts: Path) -> None:
    out = tmp_path / "two.edgeseg"
    told = succeed("fit", colours(), "--variants", "--out", out, *FIT_TINY).stderr
    assert "variant  good parts  flagged  named rightly" in told
    lines = succeed("predict", out, parts, "-q").stdout.splitlines()
    assert [line.split(": ")[1].split(",")[0] for line in lines] == ["blue", "red"]
    assert json.loads(succeed("info", out, "--json").stdout)["config"]["variants"] == [
        "blue",
        "red",
    ]


def test_predictions_as_lines_json_and_a_table(model: Path, parts: Path, tmp_path: Path) -> None:
    table = tmp_path / "out.csv"
    told = succeed("predict", model, parts, "--json", "--csv", table, "-q").stdout
    assert [json.loads(line)["variant"] for line in told.splitlines()] == ["blue", "red"]
    rows = list(csv.DictReader(io.StringIO(table.read_text())))
    assert [row["variant"] for row in rows] == ["blue", "red"]
    assert list(rows[0])[-1] == "variant"


def test_tables_of_one_product_have_no_such_column(
    artefact_copy: Path, parts: Path, tmp_path: Path
) -> None:
    table = tmp_path / "out.csv"
    told = succeed("predict", artefact_copy, parts, "--json", "--csv", table, "-q").stdout
    assert all("variant" not in json.loads(line) for line in told.splitlines())
    assert "variant" not in table.read_text().splitlines()[0]


def test_an_evaluation_by_variant(model: Path, tmp_path: Path) -> None:
    data = tmp_path / "set"
    write_colours(data / "train/good", each=2)
    for colour in COLOURS:
        write_image(data / "test/good" / colour / "0.png", coloured(colour, 90))
    write_image(data / "test/dent/blue/0.png", 255 - coloured("blue", 91))
    told = succeed("eval", model, data, "--json", tmp_path / "r.json").stdout.splitlines()
    (place,) = (at for at, line in enumerate(told) if line.startswith("variant "))
    assert told[place].split()[1:4] == ["images", "named", "rightly"]
    blue, red = told[place + 1 : place + 3]
    assert blue.split()[:2] == ["blue", "2"]
    assert " ".join(red.split()) == "red 1 1 of 1 - 0 of 1 0 of 0"
    values = json.loads((tmp_path / "r.json").read_text())
    assert values["variants"] == ["blue", "blue", "red"]
    assert values["named"][1:] == ["blue", "red"]


def test_an_export_of_variants_runs_in_a_stream(model: Path, parts: Path, tmp_path: Path) -> None:
    graph, log = tmp_path / "two.onnx", tmp_path / "events.jsonl"
    succeed("export", model, "--out", graph, "--allow-random-weights", "-q")
    source = ("--source", parts, "--events", log, "--allow-random-weights")
    succeed("stream", "--model", graph, *source, "--backend", "cpu", "--threads", 1)
    events = [json.loads(line) for line in log.read_text().splitlines()]
    named = [event["variant"] for event in events if event["event"] == "frame"]
    assert named == ["blue", "red"]
    tiled = run("stream", "--model", graph, *source, "--backend", "cpu", "--tile")
    assert tiled.exit_code == 2
    assert "each tile would be taken for one of its own" in tiled.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--robust"], "run it on the folder of each variant"),
        (["--all"], "--variants are of one product"),
        (["--graph", "lite0.onnx"], "has room for one product"),
        (["--tile", "32"], "fit without tiles"),
        (["--pool", "auto"], "--pool auto: compares pictures of one product"),
    ],
)
def test_what_does_not_go_with_variants(tmp_path: Path, options: list[str], words: str) -> None:
    (tmp_path / "lite0.onnx").touch()
    given = [tmp_path / each if each.endswith(".onnx") else each for each in options]
    out = tmp_path / "m.edgeseg"
    assert words in fail("fit", colours(), "--variants", "--out", out, *FIT_TINY, *given, code=2)


def test_a_folder_without_variants_is_refused(tmp_path: Path) -> None:
    write_image(tmp_path / "good/0.png", coloured("red", 0))
    out = tmp_path / "m.edgeseg"
    sentence = fail("fit", tmp_path / "good", "--variants", "--out", out, code=2)
    assert sentence == (
        f"--variants: {tmp_path / 'good'} has no folders with good pictures; expected one for each "
        "variant, such as red/ and blue/"
    )


def test_a_model_of_variants_grows_by_no_command(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "m.edgeseg"
    assert "fit again on all pictures" in fail("update", model, colours(), "--out", out, code=2)
    assert not out.exists()
