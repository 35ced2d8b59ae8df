"""`edgeseg threshold`: what is stored is what the fit would have chosen, and what runs."""

import html
import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgeseg.cli.threshold_evidence import read_evidence
from edgeseg.cli.threshold_report import (
    EARLIER,
    LABELLED,
    UNDERSTATES,
    facts_of,
    question_lines,
    write_page,
)
from edgeseg.decision.calibration import calibrate
from edgeseg.decision.operating_point import (
    by_rate,
    conformal_threshold,
    operating_point,
    rate_threshold,
)
from edgeseg.decision.score_origin import ScoreOrigin
from edgeseg.decision.score_statistics import ScoreStatistics
from edgeseg.model.artefact import Artefact, load_artefact
from edgeseg.model.model_metadata import describe_model
from edgeseg.modelfile.header import read_header, replace_header
from edgeseg.modelfile.metadata import ModelMetadata
from edgeseg.runtime.backends.choose import open_session
from edgeseg.runtime.backends.model_file import file_metadata
from edgeseg.runtime.backends.session_options import SessionOptions
from edgeseg.vision.images import read_image, write_image
from tests.support.brightness_model import brightness_metadata, write_brightness_model
from tests.support.commands import fail, succeed

SCORES = np.linspace(100.0, 199.0, 100, dtype=np.float32)


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    """A graph that carries the scores of a hundred good images."""
    good = ScoreStatistics.of(SCORES, SCORES + 10)
    metadata = replace(brightness_metadata(threshold=199.0), good_scores=good)
    write_brightness_model(tmp_path / "m.onnx", metadata=metadata)
    return tmp_path / "m.onnx"


@pytest.mark.parametrize("rate", [0.2, 0.35])
def test_a_fitted_model_gets_what_the_fit_would_have_chosen(artefact_copy: Path, rate: float):
    before = load_artefact(artefact_copy)
    succeed("threshold", artefact_copy, "--rate", rate)
    after = load_artefact(artefact_copy)
    fitted = calibrate(
        before.calibration.good,
        false_alarm_rate=rate,
        promise=before.config.promise,
        origin=ScoreOrigin(kind="split"),
        expected_d2=0.0,
        measured_d2=0.0,
    )
    for name in ("score_threshold", "pixel_threshold", "requested_rate", "answered_rate"):
        assert getattr(after.calibration, name) == getattr(fitted, name), name
    assert after.config == before.config
    entry = after.history[-1]
    assert (entry["action"], entry["images"]) == ("threshold", before.calibration.good.count)
    change = f"{before.calibration.score_threshold:.4f} to {fitted.score_threshold:.4f}"
    assert entry["from"] == f"chosen for {100 * rate:g} % false alarms: {change}"


def test_a_graph_runs_with_what_was_stored(graph: Path):
    succeed("threshold", graph, "--rate", 0.05, "--unsure-rate", 0.2)
    limit = conformal_threshold(SCORES.tolist(), false_alarm_rate=0.05).value
    lower = conformal_threshold(SCORES.tolist(), false_alarm_rate=0.2).value
    with open_session(graph, SessionOptions(backend="cpu")) as session:
        stored = session.metadata.threshold
    assert (stored.score, stored.pixel, stored.unsure) == (limit, limit + 10, lower)
    (decision,) = file_metadata(graph).history
    assert (decision.before, decision.after, decision.images) == (199.0, limit, 100)
    assert decision.when.endswith("Z")
    succeed("threshold", graph, "--value", 150)
    again = file_metadata(graph)
    assert (again.threshold.score, again.threshold.unsure) == (150.0, None), "no band left below"
    assert [entry.after for entry in again.history] == [limit, 150.0]


def test_a_band_stays_while_it_fits_and_goes_when_told(graph: Path):
    succeed("threshold", graph, "--rate", 0.01, "--unsure-rate", 0.05)
    succeed("threshold", graph, "--rate", 0.02)
    assert file_metadata(graph).threshold.unsure_rate == 0.05
    succeed("threshold", graph, "--unsure-rate", 0)
    stored = file_metadata(graph).threshold
    assert (stored.unsure, stored.unsure_rate, stored.requested_rate) == (None, None, 0.02)


def test_the_table_and_the_histogram(graph: Path):
    before = {path: path.read_bytes() for path in graph.parent.iterdir()}
    text = succeed("threshold", graph).stdout
    rows = [line.split() for line in text.splitlines() if re.match(r" *\d.* % ", line)]
    assert [row[0] for row in rows] == ["0.5", "1", "2", "5"]
    assert rows[0][2:4] == ["0.99", "%"], "what a hundred images can promise"
    assert rows[3][-4:] == ["195.0000", "205.0000", "4", "-"]
    bars = [line for line in text.splitlines() if "#" in line]
    assert sum(int(line.split()[-1]) for line in bars) == 100
    assert "---- threshold 199.0000" in text
    assert "score 199.0000 decides, pixel 199.0000 marks" in text
    assert {path: path.read_bytes() for path in graph.parent.iterdir()} == before


def test_json_and_files(artefact_copy: Path, tmp_path: Path):
    printed = succeed("threshold", artefact_copy, "--json", "--out", tmp_path / "out")
    told = json.loads(printed.stdout)
    header = read_header(artefact_copy)["calibration"]
    assert told["stored"]["score"] == header["score_threshold"]
    assert {0.005, 0.01, 0.02, 0.05} <= {row["requested_rate"] for row in told["rates"]}
    assert read_image(tmp_path / "out" / "threshold.png").shape[2] == 3
    page = (tmp_path / "out" / "threshold.html").read_text()
    assert "threshold.png" in page
    assert "false alarms" in page


def test_mistakes(graph: Path, tmp_path: Path):
    both = fail("threshold", graph, "--rate", 0.1, "--value", 3, code=2)
    assert both == "--rate 0.1 and --value 3.0: expected one of the two"
    assert fail("threshold", graph, "--rate", 2, code=2).startswith("--rate 2.0: expected above 0")
    assert "--unsure-rate 0.01: expected above 0.05" in fail(
        "threshold", graph, "--rate", 0.05, "--unsure-rate", 0.01, code=2
    )
    assert file_metadata(graph).history == (), "nothing was stored"
    old = tmp_path / "old.onnx"
    write_brightness_model(old)
    assert f"run `edgeseg calibrate {old} GOOD_IMAGES`" in fail("threshold", old, code=1)


def test_no_torch_and_no_onnx(graph: Path, artefact_copy: Path):
    code = (
        "import sys\n"
        "from edgeseg.cli.group import cli\n"
        f"cli(['threshold', {str(graph)!r}, '--rate', '0.05', '-q'], standalone_mode=False)\n"
        f"cli(['threshold', {str(artefact_copy)!r}, '--rate', '0.2'], standalone_mode=False)\n"
        "print({'torch', 'onnx', 'safetensors', 'onnxruntime'} & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "set()"


def test_a_graph_carries_what_its_model_knows(small_artefact: Artefact):
    told = describe_model(
        small_artefact,
        artefact_sha256="0" * 64,
        precision="fp32",
        target="cpu",
        batch=(1, 1, 1),
        outputs=["map", "score"],
    )
    again = ModelMetadata.from_json(told.to_json(), source="part.onnx")
    calibration = small_artefact.calibration
    assert again.threshold == calibration.thresholds
    rate = calibration.requested_rate
    scores, peaks = again.good_scores.scores, again.good_scores.peaks
    point = operating_point(scores, peaks, promise=calibration.promise, rate=rate)
    assert (point.score, point.pixel) == (calibration.score_threshold, calibration.pixel_threshold)
    fitted_only = replace(calibration, answered_rate=1.0)
    assert fitted_only.statistics.scores == (), "scores of fitted images are no evidence"


def test_planted_defects_are_counted_in_both_files(artefact_copy: Path, tmp_path: Path):
    artefact = load_artefact(artefact_copy)
    assert artefact.planted is not None
    told = json.loads(succeed("threshold", artefact_copy, "--json").stdout)
    for row in told["rates"]:
        assert row["recall"] == np.mean(artefact.planted.scores > row["score"])
    good = artefact.calibration.statistics
    planted = tuple(artefact.planted.scores.tolist())
    metadata = replace(
        brightness_metadata(),
        good_scores=good,
        planted_scores=planted,
        threshold=artefact.calibration.thresholds,
    )
    write_brightness_model(tmp_path / "m.onnx", metadata=metadata)
    same = json.loads(succeed("threshold", tmp_path / "m.onnx", "--json").stdout)
    rows = {row["requested_rate"]: row for row in told["rates"]}
    assert all(row == rows[row["requested_rate"]] for row in same["rates"])


def test_the_images_that_set_the_threshold_are_named(artefact_copy: Path, plate: Path):
    """By the names that the fit knew, without the folders they were in."""
    model = load_artefact(artefact_copy)
    falling = sorted(model.calibration.good.scores.tolist(), reverse=True)
    names = [each["image"] for each in model.data["highest"]]
    rate, promise = model.calibration.requested_rate, model.calibration.promise
    assert set(names) <= {path.name for path in (plate / "train/good").iterdir()}
    lines = succeed("threshold", artefact_copy).stdout.splitlines()
    at = lines.index("good images with the highest scores decide it:")
    assert lines[at - 3].startswith("stored: score ")
    assert lines[at - 1].startswith("from fit to fit it varies: eight fits of ten alarm at ")
    rows = [line.split() for line in lines[at + 2 : at + 5]]
    assert [(row[0], row[-1]) for row in rows] == [
        (f"{score:.4f}", name) for score, name in zip(falling[:3], names[:3], strict=True)
    ]
    without = [
        rate_threshold(falling[place:], false_alarm_rate=rate, promise=promise).value
        for place in (1, 2, 3)
    ]
    assert [row[2] for row in rows] == [f"{value:.4f}" for value in without]
    told = json.loads(succeed("threshold", artefact_copy, "--rate", 0.5, "--json").stdout)
    count = sum(score >= told["stored"]["score"] for score in falling)
    assert [each["image"] for each in told["deciding"]] == names[:count], "of the rate in use"


def test_nobody_is_named_who_did_not_set_it(artefact_copy: Path):
    by_hand = max(load_artefact(artefact_copy).calibration.good.scores) * 1.01
    assert "decide it" not in succeed("threshold", artefact_copy, "--value", by_hand).stdout
    succeed("threshold", artefact_copy, "--rate", 0.2)
    header = read_header(artefact_copy)
    header["data"]["highest"][0]["score"] += 1.0
    replace_header(artefact_copy, header)
    assert "decide it" not in succeed("threshold", artefact_copy).stdout, "of other scores"
    header["data"]["highest"] = [{"image": 7}]
    replace_header(artefact_copy, header)
    assert "damaged or edited artefact (data.highest: missing keys" in fail(
        "threshold", artefact_copy, code=1
    )


def test_the_page_has_all_that_the_terminal_shows(artefact_copy: Path, tmp_path: Path):
    bad = tmp_path / "bad"
    write_image(bad / "a.png", np.full((64, 64, 3), 250, np.uint8))
    plain, whole = tmp_path / "plain", tmp_path / "whole"
    succeed("threshold", artefact_copy, "--out", plain)
    shown = succeed("threshold", artefact_copy, "--defects", bad, "--out", whole).stdout
    told = json.loads(succeed("threshold", artefact_copy, "--defects", bad, "--json").stdout)
    before, after = ((each / "threshold.html").read_text() for each in (plain, whole))
    assert "of yours" not in before
    assert after.count("<th>of yours</th>") == 1
    for rate in told["rates"]:
        assert f"<td>{rate['labelled_recall']:.0%}</td></tr>" in after
    for line in shown.splitlines():
        if line.startswith(("found:", "of yours:", "stored:", "planted defects")):
            assert f"<p>{html.escape(line)}</p>" in after
    assert all(f"<td>{each['image']}</td>" in after for each in told["deciding"])
    colours = [
        (read_image(each / "threshold.png") == LABELLED).all(axis=2).any()
        for each in (plain, whole)
    ]
    assert colours == [False, True]


def test_the_page_shows_the_images_that_decide(
    artefact_copy: Path, plate: Path, graph: Path, tmp_path: Path
):
    out, told = tmp_path / "out", json.loads(succeed("threshold", artefact_copy, "--json").stdout)
    names = [each["image"] for each in told["deciding"]]
    done = succeed("threshold", artefact_copy, "--good", plate / "train/good", "--out", out)
    assert f"wrote {out / 'deciding.png'}" in done.stderr
    assert "not shown" not in done.stderr
    assert '<img src="deciding.png"' in (out / "threshold.html").read_text()
    whole = read_image(out / "deciding.png")
    one = tmp_path / "one"
    write_image(one / names[0], read_image(plate / "train/good" / names[0]))
    done = succeed("threshold", artefact_copy, "--good", one, "--out", out)
    missing = ", ".join(names[1:])
    assert f"not shown, because not found under one place below {one}: {missing}" in done.stderr
    assert read_image(out / "deciding.png").size < whole.size
    succeed("threshold", artefact_copy, "--out", out)
    assert not (out / "deciding.png").exists(), "of an earlier threshold"
    assert "deciding.png" not in (out / "threshold.html").read_text()
    done = succeed("threshold", graph, "--good", one, "--out", out)
    assert "the model does not name the good images that decide" in done.stderr


def test_pictures_that_are_not_there(artefact_copy: Path, plate: Path, tmp_path: Path):
    """Two of one name are not guessed between."""
    alone = fail("threshold", artefact_copy, "--good", plate, code=2)
    assert alone.startswith(f"--good {plate}: its pictures are for a page; add --out")
    for folder in ("a", "b"):
        shutil.copytree(plate / "train/good", tmp_path / "twice" / folder)
    twice = tmp_path / "twice"
    assert "is there under one place; expected the folder of the good pictures" in fail(
        "threshold", artefact_copy, "--good", twice, "--out", tmp_path / "out", code=2
    )


def test_what_planted_defects_cost_is_known_after_a_calibration_too(graph: Path, tmp_path: Path):
    """Three of four planted defects are above 199, the threshold of a hundred stored scores."""
    planted = (150.0, 210.0, 220.0, 230.0)
    metadata = replace(file_metadata(graph), planted_scores=planted)
    write_brightness_model(graph, metadata=metadata)
    text = succeed("threshold", graph).stdout
    assert UNDERSTATES in text.splitlines()
    assert text.count("75%") == 4
    assert "about" not in text
    succeed("threshold", graph, "--rate", 0.02)
    assert "about" not in succeed("threshold", graph).stdout, "another rate moves no score"
    for level in range(40):
        write_image(tmp_path / "good" / f"{level}.png", np.full((64, 64, 3), 100 + level, np.uint8))
    succeed("calibrate", graph, tmp_path / "good", "--backend", "cpu", "--threads", 1)
    assert file_metadata(graph).planted_scores == planted
    text = succeed("threshold", graph).stdout
    assert text.count("about 100%") == 4
    assert EARLIER in text.splitlines()
    told = json.loads(succeed("threshold", graph, "--json").stdout)
    assert told["planted"] == {"count": 4, "before_calibration": True}


def test_an_update_keeps_the_rate_that_was_chosen(artefact_copy: Path, plate: Path):
    succeed("threshold", artefact_copy, "--rate", 0.25, "--unsure-rate", 0.4)
    noted = succeed("update", artefact_copy, plate / "test/good", "--out", artefact_copy)
    calibration = load_artefact(artefact_copy).calibration
    assert (calibration.requested_rate, calibration.unsure_rate) == (0.25, None)
    assert "the band of unsure scores is dropped" in noted.stderr


def test_known_defects_show_what_each_rate_finds(graph: Path, tmp_path: Path):
    """The model's score is the brightest pixel: 150, 196 and 250 against thresholds near 199."""
    for name, level in (("a", 150), ("b", 196), ("c", 250)):
        write_image(tmp_path / "bad" / f"{name}.png", np.full((64, 64, 3), level, np.uint8))
    before = graph.read_bytes()
    result = succeed("threshold", graph, "--defects", tmp_path / "bad", "--quiet")
    lines = [line.split() for line in result.stdout.splitlines() if "%" in line]
    assert [line[-1] for line in lines[:4]] == ["33%", "33%", "33%", "67%"]
    assert "of yours: share of the 3 given defects above the threshold" in result.stdout
    facts = json.loads(succeed("threshold", graph, "--defects", tmp_path / "bad", "--json").stdout)
    shares = [rate["labelled_recall"] for rate in facts["rates"]]
    assert shares == pytest.approx([1 / 3, 1 / 3, 1 / 3, 2 / 3])
    assert graph.read_bytes() == before, "they choose nothing"
    bounded = ("threshold", graph, "--defects", tmp_path / "bad", "--max-pixels", 64 * 64 - 1)
    assert "more than --max-pixels 4095; if it is a real picture" in fail(*bounded, code=1)
    missing = fail("threshold", graph, "--defects", tmp_path / "none", code=1)
    assert missing.endswith("none: cannot be read (No such file or directory)")


def test_a_higher_threshold_says_which_share_of_found_defects_it_loses(tmp_path: Path):
    scores = np.linspace(1, 7, 60)
    metadata = replace(
        brightness_metadata(threshold=7.48),
        good_scores=ScoreStatistics.of(scores, scores),
        planted_scores=tuple(7.48 + 0.25 * step for step in range(1, 49)),
    )
    model = tmp_path / "m.onnx"
    write_brightness_model(model, metadata=metadata)
    said = succeed("threshold", model, "--value", 13.1).stderr
    assert "22 of 48 planted defects that are found now would be lost, 45.8%" in said
    assert file_metadata(model).threshold.score == 13.1  # it is told, and not asked
    assert "planted" not in succeed("threshold", model, "--value", 7.0).stderr


def test_the_rule_can_be_chosen_and_is_kept(graph: Path, artefact_copy: Path):
    scores = SCORES.tolist()
    for promise in ("tail", "conformal", "tail"):
        chosen = ("--rate", 0.05, "--promise", promise)
        told = json.loads(succeed("threshold", graph, *chosen, "--json").stdout)
        limit = rate_threshold(scores, false_alarm_rate=0.05, promise=promise).value
        assert (told["stored"]["promise"], told["stored"]["score"]) == (promise, limit)
        assert ("by their tail" in told["stored"]["method"]) == (promise == "tail")
    succeed("threshold", graph, "--rate", 0.1)
    stored = file_metadata(graph).threshold
    assert stored.promise == "tail"
    assert stored.score == rate_threshold(scores, false_alarm_rate=0.1, promise="tail").value
    succeed("threshold", artefact_copy, "--rate", 0.2, "--promise", "conformal")
    assert load_artefact(artefact_copy).calibration.promise == "conformal"
    said = fail("threshold", graph, "--value", 250, "--promise", "tail", code=2)
    assert "--value 250" in said
    assert "leave --promise out" in said


def test_a_good_part_that_scores_unlike_the_others_is_asked_for(
    artefact_copy: Path, tmp_path: Path
):
    """It is not left out by itself: nobody but who knows the parts can tell."""
    told = succeed("threshold", artefact_copy).stdout
    assert "unlike the others" not in told
    evidence = read_evidence(artefact_copy)
    names = tuple(f"{place}.png" for place in range(len(evidence.scores) + 2))
    odd = replace(evidence, scores=(*evidence.scores, 900.0, 800.0), images=names)
    left = rate_threshold(
        evidence.scores,
        false_alarm_rate=evidence.chosen.requested_rate,
        promise=evidence.chosen.promise,
    ).value
    chosen = operating_point(
        odd.scores,
        [*evidence.peaks, 900.0, 800.0],
        rate=evidence.chosen.requested_rate,
        promise=evidence.chosen.promise,
    )
    odd = replace(odd, chosen=by_rate(odd.chosen, chosen))
    facts = json.loads(json.dumps(facts_of(odd)))["question"]
    assert facts == {
        "count": 2,
        "threshold_without": left,
        "planted_found_without": np.mean(np.array(odd.planted) > left),
        "planted_found": np.mean(np.array(odd.planted) > odd.chosen.score),
    }
    assert facts_of(evidence)["question"] is None
    write_page(tmp_path, odd)
    first, second = question_lines(odd)
    page = (tmp_path / "threshold.html").read_text()
    for line in (first, second):
        assert f"<p>{html.escape(line)}</p>" in page
    assert first.startswith("the first 2 score unlike the others: are they good parts? Without")
    assert f"would be {left:.4f}, and " in first
    assert second.startswith("if not, take them out, or fit with --robust drop")
