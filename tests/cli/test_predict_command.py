"""`edgeseg predict`: pictures and folders, fitted models and graphs, lines, tables and drawings."""

import csv
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgeseg.api import load
from edgeseg.cli.predict_command import PredictionRow
from edgeseg.decision.doubt import SENTENCES, Doubt, DoubtKind
from edgeseg.model.artefact import load_artefact
from edgeseg.vision.images import read_image, write_image
from tests.support import HANGS_S
from tests.support.brightness_model import brightness_metadata, write_brightness_model
from tests.support.commands import fail, run, succeed
from tests.support.decision_tile import outlined


def test_predict(plate, artefact_copy, tmp_path):
    images = [plate / "test/good/000.png", plate / "test/good/001.png"]
    result = succeed("predict", artefact_copy, *images, "--out", tmp_path / "out")
    threshold = load_artefact(artefact_copy).calibration.score_threshold
    lines = result.stdout.splitlines()
    assert len(lines) == 2
    for path, line in zip(images, lines, strict=True):
        assert line.startswith((f"{path}: good, ", f"{path}: defect, "))
        assert line.endswith(f" (threshold {threshold:.3f})")
        assert (tmp_path / "out" / path.name).is_file()
    notes = result.stderr.splitlines()
    assert notes[-2].startswith(f"wrote 2 pictures to {tmp_path / 'out'} in ")
    assert notes[-1].startswith("scored 2 images in ")


def test_predict_json(plate, artefact_copy, tmp_path):
    """Two images of one name: two rows and two pictures."""
    images = sorted((plate / "test").glob("*/000.png"))[:2]
    result = succeed("predict", artefact_copy, *images, "--out", tmp_path / "out", "--json", "-q")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["image"] for row in rows] == [str(path) for path in images]
    assert len({row["picture"] for row in rows}) == 2
    for row in rows:
        assert row["anomalous"] == (row["score"] > row["threshold"]) == (row["verdict"] == "defect")
        assert all(len(region["box_xywh"]) == 4 for region in row["regions"])
        assert Path(row["picture"]).is_file()
    assert result.stderr == ""


def test_rows_are_what_the_library_says(plate, artefact_copy):
    image = plate / "test/good/000.png"
    (line,) = succeed("predict", artefact_copy, image, "--json", "-q").stdout.splitlines()
    row, result = json.loads(line), load(artefact_copy).predict(read_image(image))
    assert row["score"] == result.score
    assert (row["verdict"], row["p_value"]) == (result.verdict, result.p_value)
    assert "picture" not in row


def test_predict_a_picture_that_is_not_there(artefact_copy, tmp_path):
    sentence = fail(
        "predict", artefact_copy, tmp_path / "none.png", "--out", tmp_path / "out", code=1
    )
    assert sentence.startswith(f"{tmp_path / 'none.png'}: ")
    assert "Missing argument" in fail("predict", artefact_copy, "--out", tmp_path / "out", code=2)


@pytest.fixture
def graph(tmp_path) -> Path:
    """Its score is the brightest pixel, its threshold 200."""
    path = tmp_path / "part.onnx"
    write_brightness_model(path)
    return path


@pytest.fixture
def today(tmp_path) -> Path:
    """A folder of grey pictures, one below it, one that cannot be read, and a letter."""
    folder = tmp_path / "today"
    for name, grey in (("a.png", 100), ("b.png", 230), ("c/d.png", 210)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_image(folder / name, np.full((32, 48, 3), grey, np.uint8))
    (folder / "broken.png").write_bytes(b"no picture")
    (folder / "letter.txt").write_text("not a picture either")
    return folder


def test_a_folder_by_a_graph_as_a_table(graph, today, tmp_path):
    out = tmp_path / "out.csv"
    result = succeed("predict", graph, today, "--csv", out, "--sort")
    rows = list(csv.DictReader(out.open()))
    assert list(rows[0]) == [
        "path", "score", "threshold", "p_value", "verdict", "regions", "error",
    ]  # fmt: skip
    names = ["broken.png", "b.png", "c/d.png", "a.png"]  # the worst first, what has no score before
    assert [row["path"] for row in rows] == [str(today / name) for name in names]
    assert [row["verdict"] for row in rows] == ["invalid", "defect", "defect", "good"]
    assert [row["score"] for row in rows] == ["", "230.0", "210.0", "100.0"]
    assert [row["regions"] for row in rows] == ["", "0 0 48 32", "0 0 48 32", ""]
    assert "not a picture" in rows[0]["error"]
    printed = [line.split(": ")[0] for line in result.stdout.splitlines()]
    assert printed == [row["path"] for row in rows]
    last = result.stderr.splitlines()[-1]
    assert last.startswith("scored 4 images in ")
    assert last.endswith(f" s: 1 good, 2 defect, 1 invalid; wrote {out}")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "out.csv", "part.json", "part.onnx", "today",
    ]  # fmt: skip  # no pictures: nobody asked for them


def test_in_the_order_given_without_sort(graph, today):
    result = succeed("predict", graph, today / "c", today / "a.png", "--json", "-q")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["image"] for row in rows] == [str(today / "c/d.png"), str(today / "a.png")]


def test_a_picture_that_cannot_be_read_is_never_good(graph, today):
    result = succeed("predict", graph, today / "a.png", today / "broken.png", "--json", "-q")
    row = json.loads(result.stdout.splitlines()[1])
    assert (row["verdict"], row["anomalous"], row["score"]) == ("invalid", True, None)
    result = run("predict", graph, today / "broken.png")
    assert result.exit_code == 1
    assert f"Error: {today / 'broken.png'}: " in result.stderr


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--backend", "cpu", "--threads", 1), "ONNX Runtime CPU, 1 thread, float32, no spin"),
        (
            ("--backend", "cpu", "--threads", 2, "--spin"),
            "ONNX Runtime CPU, 2 threads, float32, spin",
        ),
        (("--backend", "openvino", "--threads", 1), "OpenVINO CPU, 1 thread, float32"),
    ],
)
def test_the_backend_of_a_graph_is_chosen_as_in_the_stream(graph, today, words, named):
    result = succeed("predict", graph, today / "b.png", *words)
    assert f"part.onnx runs on {named}" in result.stderr.splitlines()
    assert result.stdout.startswith(f"{today / 'b.png'}: defect, 230.000")


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("--backend", "auto"), "--backend"),
        (("--threads", 2), "--threads"),
        (("--no-spin",), "--spin"),
    ],
)
def test_a_fitted_model_has_no_backend_to_choose(artefact_copy, today, words, option):
    sentence = fail("predict", artefact_copy, today / "a.png", *words, code=2)
    assert sentence == (
        f"{option}: is for .onnx and .plan files, and {artefact_copy} is a fitted model; export "
        f"it, or leave {option} out"
    )


def test_a_graph_needs_no_torch(graph, today, tmp_path):
    code = (
        "import sys; from click.testing import CliRunner; from edgeseg.cli.group import cli\n"
        "result = CliRunner().invoke(cli, ['predict', *sys.argv[1:]])\n"
        "assert result.exit_code == 0, result.output\n"
        "assert not {'torch', 'onnx', 'safetensors'} & set(sys.modules)\n"
    )
    arguments = [graph, today, "--out", tmp_path / "out", "--csv", tmp_path / "out.csv"]
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True, text=True, timeout=HANGS_S, env=os.environ | {"LANG": "C"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a.png", "b.png", "d.png"]


def test_an_alarm_is_outlined_though_no_pixel_is_above(today, tmp_path):
    """A whole picture of 230, and one with a spot of 210, below a pixel threshold of 250."""
    high = brightness_metadata()
    high = replace(high, threshold=replace(high.threshold, pixel=250.0))
    write_brightness_model(tmp_path / "part.onnx", metadata=high)
    spot = np.full((32, 48, 3), 50, np.uint8)
    spot[8:20, 12:30] = 210
    write_image(today / "spot.png", spot)
    pictures = tmp_path / "out"
    done = succeed("predict", tmp_path / "part.onnx", today, "--out", pictures, "--json", "-q")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    seen = {
        Path(row["image"]).name: outlined(read_image(Path(row["picture"]))).any()
        for row in rows
        if "picture" in row
    }
    assert seen == {"a.png": False, "b.png": True, "d.png": True, "spot.png": True}
    assert all(row["regions"] for row in rows if row["verdict"] == "defect")


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (
            {"verdict": "good", "oddness": "as a good part looks"},
            "good, 9.000, as a good part looks (threshold 5.000)",
        ),
        ({"verdict": "defect"}, "defect, 9.000 (threshold 5.000)"),
        (
            {"verdict": "invalid", "doubt": Doubt(kind=DoubtKind.FOREIGN), "p_value": 0.01},
            f"invalid ({SENTENCES[DoubtKind.FOREIGN]}), 9.000 (threshold 5.000)",
        ),
    ],
)
def test_a_row_for_people(row, text):
    assert (
        PredictionRow(path=Path("a.png"), score=9.0, threshold=5.0, **row).text()
        == f"a.png: {text}"
    )
