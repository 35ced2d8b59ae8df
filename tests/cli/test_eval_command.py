"""`edgeseg eval`: figures, mistakes, pictures, errors."""

import json

from edgeseg.artefact.artefact import load_artefact
from edgeseg.contract.metrics import METRICS
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
    assert lines[len(METRICS)].endswith("(cross-conformal, 3 folds, 10 good images)")
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
