"""The committed reports are what this code makes of the raw numbers inside them."""

import json
from pathlib import Path
from typing import Any

import pytest

from edgeseg.bench.compare.candidates import BACKBONES, PEERS, OurModel
from edgeseg.bench.compare.findings import findings_of
from edgeseg.bench.compare.plan import ComparisonPlan
from edgeseg.bench.compare.record import Record
from edgeseg.bench.compare.summary import tables_of as compared_tables
from edgeseg.bench.harness.report import Report, read_report
from edgeseg.bench.harness.units import Result, UnitResults
from edgeseg.bench.paper.parts import PaperOptions
from edgeseg.bench.paper.results import Findings
from edgeseg.bench.paper.tables import tables_of
from tests.support import REPO

RESULTS = REPO / "bench" / "results"
CATEGORIES = ("bottle", "cable", "grid", "screw")
OF_COMPARE = ("efficientnet_lite1", "resnet18", "mobilenet_v3_small")


def done(results: dict[str, Result]) -> UnitResults:
    return UnitResults(results=results, commits=(), seconds=0.0)


def read(name: str) -> tuple[Report, dict[str, Any]]:
    """A report, and its tables as they stand in its file."""
    values = json.loads((RESULTS / name / "report.json").read_text(encoding="utf-8"))
    return read_report(RESULTS / name), values["tables"]


def as_written(tables: Any) -> Any:
    return json.loads(json.dumps([table.to_dict() for table in tables]))


COMPARED = ("bottle", "cable", "grid")
BOTH = ("cpu", "openvino")
PLANS = {
    "compare": ComparisonPlan(
        categories=COMPARED,
        models=tuple(
            OurModel.of(backbone, preset, ("fp32",))
            for backbone in OF_COMPARE
            for preset in ("edge", "paper")
        ),
        backends=BOTH,
    ),
    "peers": ComparisonPlan(
        categories=CATEGORIES,
        models=tuple(
            OurModel.of(backbone, "edge", ("fp32", "int8"), prefix="edgeseg ")
            for backbone in BACKBONES
        ),
        peers=tuple(PEERS),
        backends=BOTH,
    ),
}


@pytest.mark.parametrize("name", PLANS)
def test_comparisons(name: str) -> None:
    report, tables = read(name)
    record = Record(
        plan=PLANS[name], done=done(report.raw["accuracy"]), timed=done(report.raw["timing"])
    )
    rows = record.rows()
    assert as_written(compared_tables(record, rows)) == tables
    assert tuple(findings_of(rows)) == report.findings


def test_paper() -> None:
    report, tables = read("paper")
    findings = Findings(
        done=done(report.raw),
        options=PaperOptions(mvtec=Path(), curve_seeds=5),
        categories=CATEGORIES,
        weights={},
    )
    assert as_written(tables_of(findings)) == tables
    assert tuple(findings.sentences()) == report.findings


@pytest.mark.parametrize("name", ["compare", "peers", "paper"])
def test_the_text_is_that_of_the_values(name: str) -> None:
    report, _ = read(name)
    assert (RESULTS / name / "report.md").read_text(encoding="utf-8") == report.markdown()
