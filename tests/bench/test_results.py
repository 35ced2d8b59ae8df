"""The committed reports are what this code makes of the raw numbers inside them.

But for their last tables, of times: later benchmarks time more than those runs did.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from edgeseg.bench.compare import report as compare_report
from edgeseg.bench.compare.options import BACKBONES, CompareOptions, Recipe
from edgeseg.bench.harness.report import Report, read_report
from edgeseg.bench.harness.units import Done, Result
from edgeseg.bench.paper.options import PaperOptions
from edgeseg.bench.paper.results import Findings
from edgeseg.bench.paper.tables import tables_of
from edgeseg.bench.peers import report as peer_report
from edgeseg.bench.peers.options import PeerOptions
from tests.support import REPO

RESULTS = REPO / "bench" / "results"
CATEGORIES = ("bottle", "cable", "grid", "screw")
OF_COMPARE = ("efficientnet_lite1", "resnet18", "mobilenet_v3_small")


def done(results: dict[str, Result]) -> Done:
    return Done(results=results, commits=(), seconds=0.0)


def read(name: str) -> tuple[Report, dict[str, Any]]:
    """A report, and its tables as they stand in its file."""
    values = json.loads((RESULTS / name / "report.json").read_text(encoding="utf-8"))
    return read_report(RESULTS / name), values["tables"]


def recipes(
    backbones: tuple[str, ...], presets: tuple[str, ...], precisions: tuple[str, ...]
) -> tuple[Recipe, ...]:
    return tuple(
        Recipe(backbone=backbone, preset=preset, precisions=precisions)
        for backbone in backbones
        for preset in presets
    )


def as_written(tables: Any) -> Any:
    return json.loads(json.dumps([table.to_dict() for table in tables]))


def test_compare() -> None:
    report, tables = read("compare")
    options = CompareOptions(data=Path(), recipes=recipes(OF_COMPARE, ("edge", "paper"), ("fp32",)))
    measured = compare_report.Measurements(
        options=options,
        categories=CATEGORIES,
        done=done(report.raw["accuracy"]),
        timed=done(report.raw["timing"]),
    )
    rows = list(measured.rows())
    assert as_written(compare_report.accuracy_tables(measured, rows)) == tables[:-1]
    assert tuple(compare_report.findings_of(rows)) == report.findings


def test_peers() -> None:
    report, tables = read("peers")
    options = PeerOptions(
        data=Path(),
        python=Path(),
        recipes=recipes(BACKBONES, ("edge",), ("fp32", "int8")),
        threads=2,
    )
    results = peer_report.PeerResults(
        options=options,
        categories=CATEGORIES,
        done=done(report.raw["accuracy"]),
        timed=done(report.raw["timing"]),
    )
    rows = list(results.rows())
    assert as_written(peer_report.accuracy_tables(results, rows)) == tables[:-1]
    assert tuple(peer_report.findings_of(rows)) == report.findings


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


@pytest.mark.parametrize("name", ["compare", "peers", "paper", "precision", "precision/more"])
def test_the_text_is_that_of_the_values(name: str) -> None:
    report, _ = read(name)
    assert (RESULTS / name / "report.md").read_text(encoding="utf-8") == report.markdown()
