"""`edgeseg eval`: figures, mistakes, pictures, errors."""

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path

from edgeseg.decision.metric_registry import METRICS
from edgeseg.decision.operating_point import p_value
from edgeseg.model.artefact import load_artefact, save_artefact
from tests.support.commands import fail, succeed


def test_eval(plate, artefact_copy, tmp_path):
    before = artefact_copy.read_bytes()
    report, pictures = tmp_path / "r.json", tmp_path / "out"
    result = succeed("eval", artefact_copy, plate, "--json", report, "--pictures", pictures)
    values = json.loads(report.read_text())
    assert set(values) >= {
        *METRICS, "threshold", "images", "anomalies", "seconds",
        "config",
    }  # fmt: skip
    assert (values["images"], values["anomalies"], values["dataset"]) == (7, 4, "plate")
    assert values["config"] == load_artefact(artefact_copy).config.to_dict()
    assert values["threshold"] == load_artefact(artefact_copy).calibration.score_threshold
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["pro", f"{values['pro']:.4f}"]
    assert [line.split()[0] for line in lines[: len(METRICS) + 1]] == [*METRICS, "threshold"]
    assert lines[len(METRICS)].endswith("(cross-conformal, 3 folds, 10 good images, by their tail)")
    assert result.stderr.splitlines() == [f"wrote {report}", f"wrote {pictures / 'sheet.png'}"]
    assert (pictures / "sheet.png").is_file()
    assert len(list(pictures.rglob("*.png"))) == 7 + 1
    assert artefact_copy.read_bytes() == before  # only --store changes it


def test_eval_stores_its_figures(plate, artefact_copy):
    for _ in range(2):  # twice: the second replaces the first
        result = succeed("eval", artefact_copy, plate, "--store")
        assert result.stderr == f"stored in {artefact_copy}; next: edgeseg export {artefact_copy}\n"
    loaded = load_artefact(artefact_copy)
    assert [entry["dataset"] for entry in loaded.accuracy] == ["plate"]
    assert loaded.accuracy[0]["images"] == 7


def test_eval_prints_json(plate, artefact_copy, tmp_path):
    result = succeed("eval", artefact_copy, plate, "--json", "-")
    assert result.stderr == ""
    values = json.loads(result.stdout)
    succeed("eval", artefact_copy, plate, "--json", tmp_path / "r.json")
    written = json.loads((tmp_path / "r.json").read_text())
    for figures in (values, written):
        figures.pop("seconds")
    assert values == written


def raise_threshold(artefact: Path) -> None:
    """Put the threshold of a model above every score, so that all defects are missed."""
    model = load_artefact(artefact)
    calibration = replace(model.calibration, score_threshold=1e9)
    save_artefact(replace(model, calibration=calibration), artefact)


def test_eval_lists_its_mistakes(plate, artefact_copy, tmp_path):
    raise_threshold(artefact_copy)
    report, table = tmp_path / "r.json", tmp_path / "mistakes.csv"
    result = succeed("eval", artefact_copy, plate, "--json", report, "--csv", table)
    assert result.stderr.splitlines() == [f"wrote {report}", f"wrote {table}"]
    values = json.loads(report.read_text())
    wrong = values["mistakes"]
    assert len(wrong) == values["anomalies"] == 4
    assert {row["error"] for row in wrong} == {"miss"}
    distances = [abs(row["score"] - values["threshold"]) for row in wrong]
    assert distances == sorted(distances, reverse=True)
    good = load_artefact(artefact_copy).calibration.good.scores
    for row in wrong:
        place = values["paths"].index(row["path"])
        assert Path(row["path"]).is_file()
        assert (values["labels"][place], values["kinds"][place]) == (1, row["kind"])
        assert row["score"] == values["scores"][place]
        assert row["p_value"] == p_value(row["score"], good)
    read = list(csv.DictReader(table.read_text().splitlines()))
    assert [(row["path"], float(row["score"])) for row in read] == [
        (row["path"], row["score"]) for row in wrong
    ]
    lines = result.stdout.splitlines()
    counts = next(line for line in lines if line.startswith("images "))
    assert "7 (4 anomalous, 4 missed, 0 good ones flagged)" in counts
    head = lines.index(next(line for line in lines if line.startswith("worst ")))
    assert lines[head].split() == ["worst", "kind", "verdict", "score", "p-value", "path"]
    assert [line.split()[-1] for line in lines[head + 1 : head + 5]] == [
        row["path"] for row in wrong
    ]


def test_eval_prints_five_mistakes_at_most(plate, artefact_copy, monkeypatch):
    raise_threshold(artefact_copy)
    monkeypatch.setattr("edgeseg.cli.eval_command.SHOWN", 3)
    lines = succeed("eval", artefact_copy, plate).stdout.splitlines()
    assert sum(line.startswith("miss ") for line in lines) == 3
    assert "... and 1 more: --csv FILE has all of them" in lines


def test_eval_says_what_limits_it(plate, artefact_copy, monkeypatch):
    """Whatever the model makes of the plate: a model that ranks well and finds nothing."""
    raise_threshold(artefact_copy)
    monkeypatch.setattr("edgeseg.evaluation.mistakes.RANKS_WELL", 0.0)
    shown = succeed("eval", artefact_copy, plate).stdout.splitlines()[-1]
    assert shown.startswith("ranks well (image AUROC ")
    assert " but finds 0% at its threshold" in shown
    values = json.loads(succeed("eval", artefact_copy, plate, "--json", "-").stdout)
    assert values["limit"] == shown


def test_eval_without_mistakes(plate, artefact_copy, tmp_path):
    good = tmp_path / "good"
    shutil.copytree(plate, good, ignore=shutil.ignore_patterns("ground_truth"))
    for folder in (good / "test").iterdir():
        if folder.name != "good":
            shutil.rmtree(folder)
    raise_threshold(artefact_copy)
    table = tmp_path / "mistakes.csv"
    result = succeed("eval", artefact_copy, good, "--csv", table, "--json", tmp_path / "r.json")
    assert "worst" not in result.stdout
    values = json.loads((tmp_path / "r.json").read_text())
    assert (values["mistakes"], values["limit"]) == ([], None)
    assert len(table.read_text().splitlines()) == 1


def test_eval_tells_what_was_left_out(plate, artefact_copy, tmp_path):
    root = tmp_path / "plate2"
    shutil.copytree(plate / "train", root / "train")
    shutil.copytree(plate / "test/good", root / "test_public/good")
    shutil.copytree(plate / "test/good", root / "test_private")
    result = succeed("eval", artefact_copy, root)
    assert result.stderr == ("pictures of test_private left out, their truth is not published: 3\n")


def test_eval_quietly(plate, artefact_copy, tmp_path):
    result = succeed(
        "eval", artefact_copy, plate, "--json", tmp_path / "r.json", "--store", "--quiet"
    )
    assert result.stderr == ""
    assert result.stdout.startswith("pro ")  # the figures are data


def test_eval_without_a_test_set(plate, artefact_copy):
    sentence = fail("eval", artefact_copy, plate / "train/good", code=1)
    assert sentence.startswith(f"{plate / 'train/good'}: no test images; evaluation needs")


def test_eval_of_what_is_no_model(plate, tmp_path):
    path = tmp_path / "m.edgeseg"
    assert fail("eval", path, plate, code=1) == (
        f"{path}: no such file; make one with `edgeseg fit DATA --out {path}`"
    )
    path.write_bytes(b"hello, this is a text file\n" * 9)
    assert fail("eval", path, plate, code=1).startswith(f"{path}: not an edgeseg artefact (")
