"""A data set whose defects nobody has marked, by every command that takes one."""

import json
import shutil
from pathlib import Path

import pytest

from edgeseg.model.artefact import load_artefact
from tests.support.commands import FIT, fail, succeed
from tests.support.export_models import SHORT, data, remember_traces, saved

NOTE = (
    "no masks: 4 of 4 defective pictures are known by their labels alone, so PRO and the other "
    "figures of pixels are a dash"
)
OF_PIXELS = ("pro", "pro_05", "pixel_auroc")
STREAM = ("--backend", "cpu", "--threads", 1)


def without_masks(data: Path, root: Path) -> Path:
    shutil.copytree(data, root, ignore=shutil.ignore_patterns("ground_truth"))
    return root


@pytest.fixture
def bare(plate, tmp_path) -> Path:
    """The plate, without its masks."""
    return without_masks(plate, tmp_path / "bare")


def test_a_fit_is_the_same_without_masks(plate, bare, small_artefact, tmp_path):
    fitted = succeed("fit", bare, "--out", tmp_path / "part.edgeseg", *FIT)
    assert NOTE in fitted.stderr.splitlines()
    model = load_artefact(tmp_path / "part.edgeseg")
    assert model.calibration.thresholds == small_artefact.calibration.thresholds


def test_more_good_images_are_taken_without_masks(plate, bare, artefact_copy, tmp_path):
    for path in (bare / "train/good").iterdir():
        path.unlink()
    for path in (plate / "test/good").iterdir():
        shutil.copy(path, bare / "train/good/new.png")
    shutil.rmtree(bare / "test/good")
    done = succeed("update", artefact_copy, bare, "--out", tmp_path / "more.edgeseg")
    assert "(11 images)" in done.stderr


def test_eval_has_dashes_for_pixels_and_keeps_them(plate, bare, artefact_copy, tmp_path):
    report, pictures = tmp_path / "r.json", tmp_path / "pictures"
    told = succeed("eval", artefact_copy, bare, "--json", report, "--pictures", pictures, "--store")
    assert told.stderr.splitlines()[0] == NOTE
    shown = dict(line.split()[:2] for line in told.stdout.splitlines())
    assert [shown[key] for key in OF_PIXELS] == ["-", "-", "-"]
    assert len(list(pictures.rglob("*.png"))) == 7 + 1
    values = json.loads(report.read_text())
    marked = json.loads(succeed("eval", artefact_copy, plate, "--json", "-").stdout)
    for key in ("image_auroc", "f1", "recall", "false_alarm_rate", "false_regions", "mistakes"):
        assert_alike(values[key], marked[key])
    (row,) = load_artefact(artefact_copy).accuracy
    assert [row[key] for key in OF_PIXELS] == [None] * 3
    assert row["image_auroc"] == values["image_auroc"]
    assert (
        "dataset bare, pro -, pro_05 -, pixel_auroc -, image_auroc "
        in succeed("info", artefact_copy).stdout
    )


def assert_alike(found: object, expected: object) -> None:
    """Equal, but for the folder of the pictures."""
    text = json.dumps(expected)
    for row in expected if isinstance(expected, list) else ():
        root = row["path"].partition("/test/")[0]
        text = text.replace(root, found[0]["path"].partition("/test/")[0])
    assert found == json.loads(text)


def test_a_graph_has_its_accuracy_without_masks(tmp_path, monkeypatch):
    remember_traces(monkeypatch, SHORT)
    graph, report = tmp_path / "part.onnx", tmp_path / "latency.json"
    bare = without_masks(data(), tmp_path / "bare")
    options = ("--out", graph, "--data", bare, "--no-verify")
    lines = succeed("export", saved(tmp_path), *options).stderr.splitlines()
    assert lines[0] == NOTE
    table = {line[:12].strip(): line[12:].split() for line in lines}
    assert (table["PRO"], table["pixel AUROC"]) == (["-", "-"], ["-", "-"])
    assert all(0 <= float(value) <= 1 for value in table["image AUROC"])
    rows = json.loads(graph.with_suffix(".json").read_text())["accuracy"]
    assert [[row[key] for key in OF_PIXELS] for row in rows] == [[None] * 3]
    source = f"{bare}/test/**"
    succeed("stream", "--model", graph, "--source", source, "--report", report, *STREAM)
    lines = report.with_suffix(".txt").read_text().splitlines()
    (shown,) = (line.split("4 bad)")[1].split() for line in lines if "4 bad)" in line)
    assert shown[:3] == ["-", "-", "-"]
    assert all(0 <= float(value) <= 1 for value in shown[3:])


def test_a_single_missing_mask_is_still_a_mistake(plate, artefact_copy, tmp_path):
    root = tmp_path / "plate"
    shutil.copytree(plate, root)
    bad = min(path for path in (root / "test").rglob("*.png") if path.parent.name != "good")
    shutil.copy(bad, bad.with_name("other.png"))
    told = fail("eval", artefact_copy, root, code=1)
    assert told.startswith(f"{bad.with_name('other.png')}: defective, but its mask ")
