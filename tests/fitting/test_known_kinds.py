"""Kinds of known defects from a fit to every door: API, graph, lines, tables, events and a PLC."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import edgeseg.runtime
from edgeseg.api import Model
from edgeseg.base.errors import UsageError
from edgeseg.data.known_defects import read_known_defects
from edgeseg.data.synthetic.scene import write_dataset
from edgeseg.model.artefact import Artefact, load_artefact, save_artefact
from tests.support.commands import fail, succeed
from tests.support.small_models import RANDOM, SIZE_HW, SMALL, fit_small

EACH = 4


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("known") / "plate"
    write_dataset(folder, size_hw=SIZE_HW, train=16, test_good=2, test_defective=EACH, seed=3)
    return folder


@pytest.fixture(scope="module")
def fitted(data: Path) -> Artefact:
    known = read_known_defects(data / "test")
    severity = (("scratch", "minor"), ("stain", "major"))
    options = replace(RANDOM, known=known, severity=severity)
    return fit_small(data, config=replace(SMALL, folds=5), options=options)


@pytest.fixture(scope="module")
def graph(fitted: Artefact, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("graph") / "part.onnx"
    return Model(fitted).export(out, allow_random_weights=True)


def test_a_model_knows_its_kinds_and_how_well_it_tells_them(fitted: Artefact, tmp_path: Path):
    kinds = fitted.kinds
    assert kinds is not None
    assert kinds.names == tuple(sorted(kinds.names))
    assert {"scratch", "stain"} <= set(kinds.names)
    assert kinds.tried == EACH * len(kinds.names)
    assert 0 <= kinds.right <= kinds.tried
    assert dict(zip(kinds.names, kinds.severity, strict=True))["scratch"] == "minor"
    save_artefact(fitted, tmp_path / "m.edgeseg")
    again = load_artefact(tmp_path / "m.edgeseg")
    assert (again.kinds, again.reasons) == (kinds, fitted.reasons)


def test_the_graph_says_what_the_model_says(fitted: Artefact, graph: Path, data: Path):
    model, told = Model(fitted), 0
    with edgeseg.runtime.open(graph, allow_random_weights=True) as detector:
        for picture in sorted((data / "test").glob("*/*.png")):
            ours, theirs = model.predict(picture), detector.predict(picture)
            for mine, other in zip(ours.regions, theirs.regions, strict=True):
                assert mine.kind is not None
                assert other.kind is not None
                assert mine.kind.name == other.kind.name
                assert mine.why is not None
                assert other.why is not None
                assert mine.why.change == other.why.change
                told += 1
            assert ours.apart_pk is None, "what is kept of a result is small"
            assert ours.describe is None
    assert told


def test_a_severity_is_that_of_the_kind(fitted: Artefact, graph: Path, data: Path, tmp_path: Path):
    out = tmp_path / "events.jsonl"
    run = ("--model", graph, "--source", data / "test" / "scratch", "--events", out)
    succeed("stream", *run, "--allow-random-weights", "--threads", 1, "--backend", "cpu")
    events = [json.loads(line) for line in out.read_text().splitlines()]
    regions = [region for event in events for region in event.get("regions", ())]
    assert regions
    set_by_kind = {"scratch": "minor", "stain": "major"}
    for region in regions:
        assert set(region["why"]) == {"layer", "share", "change", "words"}
        assert (region["kind_number"] == 0) == (region["kind"] == "unknown")
        if region["kind"] in set_by_kind:
            assert region["severity"] == set_by_kind[region["kind"]]
    assert any(region["kind"] in set_by_kind for region in regions)


def test_a_table_has_kind_and_why(graph: Path, data: Path, tmp_path: Path):
    table = tmp_path / "out.csv"
    opened = ("--allow-random-weights", "--backend", "cpu")
    succeed("predict", graph, data / "test", "--csv", table, "-q", *opened)
    rows = list(csv.DictReader(table.open()))
    assert {"kind", "why"} <= set(rows[0])
    described = [row for row in rows if row["regions"]]
    assert described
    assert all(row["kind"] and row["why"] for row in described)
    assert not any(row["kind"] or row["why"] for row in rows if not row["regions"])


def test_a_kind_keeps_its_number_whether_there_are_defects_of_it_or_not(data: Path, tmp_path: Path):
    known = read_known_defects(data / "test")
    options = replace(RANDOM, known=known, kind_order=("stain", "gone"))
    artefact = fit_small(data, config=replace(SMALL, folds=5), options=options)
    save_artefact(artefact, tmp_path / "part.edgeseg")
    kinds = load_artefact(tmp_path / "part.edgeseg").kinds
    assert kinds.names[:2] == ("stain", "gone")
    assert kinds.names[2:] == tuple(sorted({str(each.kind) for each in known} - {"stain"}))
    assert kinds.facts()["known"] == [EACH, 0, *[EACH] * (len(kinds.names) - 2)]


def test_info_lists_kinds_and_no_packed_numbers(graph: Path, fitted: Artefact, tmp_path: Path):
    save_artefact(fitted, tmp_path / "m.edgeseg")
    for path in (graph, tmp_path / "m.edgeseg"):
        facts = json.loads(succeed("info", path, "--json").stdout)
        shown = facts.get("metadata", facts)
        assert shown["kinds"]["names"] == list(fitted.kinds.names)
        assert shown["kinds"]["known"] == [EACH] * len(fitted.kinds.names)
        assert "projection" not in shown["kinds"]
        assert "forms" not in shown["reasons"]


def test_a_model_without_known_defects_says_why_and_no_kind(data: Path):
    artefact = fit_small(data)
    assert artefact.kinds is None
    results = Model(artefact).predict([data / "test"])
    regions = [region for result in results for region in result.regions]
    assert regions
    assert all(region.kind is None and region.why is not None for region in regions)


def test_a_model_that_does_not_say_why_predicts_as_before(fitted: Artefact, data: Path):
    """As of a file of 0.2.0: the same score and regions, and nothing said of them."""
    plain = Model(replace(fitted, reasons=None, kinds=None))
    assert "apart" not in plain.artefact.outputs
    for picture in sorted((data / "test").glob("*/000.png")):
        ours, other = plain.predict(picture), Model(fitted).predict(picture)
        assert ours.score == pytest.approx(other.score, rel=1e-5)
        assert [each.box_xywh for each in ours.regions] == [each.box_xywh for each in other.regions]
        assert all(each.kind is None and each.why is None for each in ours.regions)


def test_kinds_change_no_verdict(fitted: Artefact, data: Path):
    """The threshold is that of the scores: kinds only name what is found."""
    without = replace(fitted, kinds=None)
    np.testing.assert_array_equal(without.factors.factor, fitted.factors.factor)
    for picture in sorted((data / "test").glob("*/001.png")):
        assert Model(without).predict(picture).verdict == Model(fitted).predict(picture).verdict


def test_a_severity_of_no_kind_is_refused(data: Path, tmp_path: Path):
    with pytest.raises(UsageError, match="severity=dent: no such kind"):
        fit_small(data, options=replace(RANDOM, severity=(("dent", "minor"),)))
    words = ("fit", data, "--out", tmp_path / "m.edgeseg", "--severity", "dent")
    assert "such as scratch=minor" in fail(*words, code=2)
