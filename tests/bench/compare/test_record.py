"""A row has the times and the accuracy of one session, and says what was refused."""

from typing import Any

import pytest

from edgeseg.bench.compare.candidates import OurModel
from edgeseg.bench.compare.files import REFUSED
from edgeseg.bench.compare.findings import findings_of
from edgeseg.bench.compare.plan import ComparisonPlan, Fit, Graph, peer_unit
from edgeseg.bench.compare.record import Record
from edgeseg.bench.compare.summary import forms_of, tables_of
from edgeseg.bench.harness.units import Result, UnitResults
from tests.support.bench_tables import by_column

MODEL = OurModel.of("resnet18", "edge", ("fp32", "int8"))
RATIOS = ("time / anomalib PaDiM (95 %)", "time / anomalib PatchCore (95 %)")


def timing(key: str, rounds: list[float], *, spin: bool | None = False) -> Result:
    return {
        "key": key,
        "arithmetic": "float32",
        "spin": None if key.endswith("openvino") else spin,
        "host_ms": {"p50": 1.0, "p99": 2.0},
        "streamed_ms": {"p50": 3.0, "p95": 3.5, "p99": 4.0},
        "streamed_processor_ms": 5.0,
        "size_bytes": 7_000_000,
        "samples_ms": [[ms, ms] for ms in rounds],
    }


def graph(category: str, precision: str, seed: int = 0) -> str:
    fit = Fit(category=category, model=MODEL, seed=seed)
    return Graph(fit=fit, precision=precision, session="auto").unit


def record(results: dict[str, Any], timings: list[Result], **changed: Any) -> Record:
    settings = {"categories": ("a",), "models": (MODEL,), "backends": ("cpu", "openvino")}
    return Record(
        plan=ComparisonPlan(**(settings | changed)),
        done=UnitResults(results=results, commits=(), seconds=0.0),
        timed=UnitResults(results={"rounds": {"timings": timings}}, commits=(), seconds=0.0),
    )


def summary(measured: Record) -> list[dict[str, Any]]:
    return by_column(next(tables_of(measured, measured.rows())))


@pytest.mark.parametrize("spin", [True, False, None])
def test_a_row_says_in_what_its_times_were_computed(spin: bool | None) -> None:
    timings = [timing("resnet18 edge fp32 on cpu", [1.0], spin=spin)]
    first = record({}, timings).rows()[0]
    assert (first.p50_ms, first.streamed_p50_ms, first.arithmetic) == (1.0, 3.0, "float32")
    assert first.spin == {True: "yes", False: "no", None: None}[spin]


@pytest.mark.parametrize("refused", [True, False])
def test_no_mean_without_the_category_that_was_refused(refused: bool) -> None:
    hard = {REFUSED: "fp32.onnx: disagrees"} if refused else {"pro": 0.5}
    results = {graph("a", "fp32"): {"pro": 0.9, "form": "all fp32"}, graph("b", "fp32"): hard}
    row = record(results, [], categories=("a", "b")).rows()[0]
    assert row.accuracy["pro"] == (None if refused else pytest.approx(0.7))
    assert row.state == ("refused on 1 of 2" if refused else None)


def test_a_category_without_masks_counts_by_its_labels() -> None:
    """PRO is of the others, and the table says so; a file that was refused still has no mean."""
    marked = {"pro": 0.9, "image_auroc": 0.8, "form": "all fp32"}
    bare = {"pro": None, "image_auroc": 0.6, "form": "all fp32"}
    results = {graph("a", "fp32"): bare, graph("b", "fp32"): marked, graph("a", "int8"): bare,
               graph("b", "int8"): {REFUSED: "int8.onnx: disagrees"}}  # fmt: skip
    measured = record(results, [], categories=("a", "b"), seeds=1)
    exact, rounded = measured.rows()
    assert exact.accuracy == {"pro": pytest.approx(0.9), "image_auroc": pytest.approx(0.7)}
    assert rounded.accuracy == {"pro": None, "image_auroc": None}
    tables = {table.title: table for table in tables_of(measured, [exact, rounded])}
    assert tables["Summary"].note.endswith(" PRO: over 1 of 2 categories, not measured on a.")
    assert by_column(tables["PRO by category"])[0]["a"] is None
    assert by_column(tables["Image AUROC by category"])[0]["a"] == 0.6


def test_without_any_masks_there_is_no_column_of_pro() -> None:
    bare = {"pro": None, "image_auroc": 0.6, "form": "all fp32"}
    measured = record({graph("a", "fp32"): bare}, [])
    (shown, _) = summary(measured)
    assert ("PRO" in shown, shown["image AUROC"]) == (False, 0.6)
    assert list(findings_of(measured.rows())) == []


def test_accuracy_is_of_the_session_that_was_asked() -> None:
    results = {graph("a", name): {"pro": pro} for name, pro in (("fp32", 0.9), ("int8", 0.8))}
    both = [
        timing(f"resnet18 edge {precision} on {backend}", [1.0])
        for precision in ("fp32", "int8")
        for backend in ("cpu", "openvino")
    ]
    found = {
        (row["precision"], row["backend"]): row["PRO"] for row in summary(record(results, both))
    }
    assert found == {
        ("fp32", "cpu"): 0.9,
        ("fp32", "openvino"): 0.9,  # the same in all backends
        ("int8", "cpu"): 0.8,
        ("int8", "openvino"): None,
    }


def test_a_precision_is_judged_where_it_runs_first() -> None:
    plan = ComparisonPlan(categories=("a",), models=(MODEL,), backends=("openvino", "cpu"))
    assert plan.judging_backend("int8") == "openvino"
    assert ComparisonPlan(categories=("a",), models=(MODEL,)).judging_backend("bf16") == "openvino"


def test_ratios_are_to_the_peer_in_the_same_backend() -> None:
    timings = [
        timing("resnet18 edge int8 on cpu", [1.0, 2.0, 3.0]),
        timing("resnet18 edge int8 on openvino", [1.0, 1.0, 1.0]),
        timing("anomalib PaDiM on cpu", [4.0, 8.0, 12.0]),
        timing("anomalib PaDiM on openvino", [10.0, 5.0, 2.0]),
        timing("anomalib PatchCore on cpu", [2.0, 2.0, 2.0]),
    ]
    measured = record({}, timings, peers=("padim", "patchcore"))
    timed = [row for row in summary(measured) if row["backend"] is not None]
    assert [[row[name] for name in RATIOS] for row in timed] == [
        ["0.25 (0.25 to 0.25)", "1.00 (0.50 to 1.50)"],  # round by round
        ["0.20 (0.10 to 0.50)", None],  # PatchCore did not run in OpenVINO
        ["1.00 (1.00 to 1.00)", "4.00 (2.00 to 6.00)"],
        ["1.00 (1.00 to 1.00)", None],
        ["0.25 (0.17 to 0.50)", "1.00 (1.00 to 1.00)"],
    ]


def test_peers_are_judged_by_raw_maps_and_as_exported() -> None:
    results = {
        peer_unit(category, "padim"): {"accuracy": {"pro": 0.1}, "exported": {"pro": pro}}
        for category, pro in (("a", 0.4), ("b", 0.2))
    }
    timings = [timing(f"anomalib PaDiM on {backend}", [1.0]) for backend in ("cpu", "openvino")]
    settings = {"categories": ("a", "b"), "models": (), "peers": ("padim",)}
    cpu, openvino = record(results, timings, **settings).rows()
    assert (cpu.accuracy["pro"], cpu.exported_pro) == (pytest.approx(0.1), pytest.approx(0.3))
    assert (openvino.accuracy["pro"], openvino.exported_pro) == (None, None)


def test_forms_are_counted() -> None:
    whole = {"form": "backbone int8", "refused": {}}
    half = {"form": "backbone fp32", "refused": {"backbone int8": ["OpenVINO: ranks 0.5"]}}
    results = {graph("a", "int8", seed): each for seed, each in enumerate((whole, whole, half))}
    found = [(each.form, each.times, each.why) for each in forms_of(record(results, [], seeds=3))]
    assert found == [
        ("backbone int8", "2 of 3", ""),
        ("backbone fp32", "1 of 3", "backbone int8: OpenVINO: ranks 0.5"),
    ]
