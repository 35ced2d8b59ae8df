"""What the report of a comparison says of the presets and of the precisions."""

from pathlib import Path

import pytest

from edgeseg.bench.compare.options import CompareOptions, Recipe
from edgeseg.bench.compare.report import (
    Measurements,
    Row,
    accuracy_tables,
    costs_of_precision,
    edge_beside_paper,
    findings_of,
    unit_name,
)
from edgeseg.bench.harness.tabular import Table
from edgeseg.bench.harness.units import FAILED, Done, Result
from tests.support.bench_tables import by_column


def row(
    preset: str, precision: str, *, pro: float | None, image_auroc: float | None, p50_ms: float
) -> Row:
    return Row(
        backbone="net",
        preset=preset,
        precision=precision,
        backend="cpu",
        accuracy={"pro": pro, "pixel_auroc": 0.98, "image_auroc": image_auroc},
        decided={"recall": 0.5},
        pro_std=None,
        p50_ms=p50_ms,
        streamed={},
        computed={},
        megabytes=27.0,
    )


PAPER = row("paper", "fp32", pro=0.93, image_auroc=0.88, p50_ms=25.0)


@pytest.mark.parametrize(
    ("pro", "image_auroc", "p50_ms", "verdict"),
    [
        (0.95, 0.96, 20.0, "better in all of it"),
        (0.95, 0.87, 20.0, "not as expected in image AUROC"),
        (0.92, 0.96, 30.0, "not as expected in PRO and speed"),
    ],
)
def test_where_edge_breaks_its_promise(
    pro: float, image_auroc: float, p50_ms: float, verdict: str
) -> None:
    edge = row("edge", "fp32", pro=pro, image_auroc=image_auroc, p50_ms=p50_ms)
    sentence = edge_beside_paper(edge, PAPER)
    assert sentence.startswith("net fp32, preset edge against paper: PRO")
    assert sentence.endswith(f"{verdict}.")


def test_precisions_that_cost_accuracy() -> None:
    rows = [
        row("edge", "fp32", pro=0.950, image_auroc=0.960, p50_ms=20.0),
        row("edge", "fp16", pro=0.949, image_auroc=0.957, p50_ms=20.0),
        row("edge", "int8", pro=0.930, image_auroc=0.959, p50_ms=10.0),
        row("paper", "int8", pro=0.900, image_auroc=0.900, p50_ms=10.0),  # nothing to compare
    ]
    sentence = "net edge in int8 is less accurate than in fp32: PRO 0.930 against 0.950."
    assert list(costs_of_precision(rows)) == [sentence]


def test_what_was_not_measured_is_not_compared() -> None:
    unknown = row("edge", "fp32", pro=None, image_auroc=None, p50_ms=1.0)
    sentences = list(findings_of([unknown, PAPER]))
    assert sentences[0].startswith("net fp32 (paper): mean PRO 0.930 in 25.0 ms")
    assert sentences[1:] == [
        "net fp32, preset edge against paper: 1.0 ms against 25.0; better in all of it."
    ]


TIMING = {
    "key": "resnet18 edge fp32 on cpu",
    "host_ms": {"p50": 20.0},
    "size_bytes": 1_000_000,
    "streamed_ms": {"p50": 21.0},
    "streamed_processor_ms": 40.0,
}


@pytest.mark.parametrize("spin", [True, False, None])
def test_the_summary_says_in_what_its_times_were_computed(spin: bool | None) -> None:
    timed = TIMING | {"arithmetic": "bfloat16", "spin": spin}
    (row,) = by_column(summary(timed))
    assert (row["p50 ms"], row["streamed p50 ms"], row["arithmetic"]) == (20.0, 21.0, "bfloat16")
    assert row["spin"] == {True: "yes", False: "no", None: None}[spin]
    (older,) = by_column(summary(TIMING))
    assert "spin" not in older, "a run of version 0.1.0 did not say it"


@pytest.mark.parametrize("refused", [True, False])
def test_no_mean_without_the_category_that_was_refused(refused: bool) -> None:
    easy = {"fp32": {"pro": 0.9}}
    hard = {"fp32": {FAILED: "fp32.onnx: disagrees"}} if refused else {"fp32": {"pro": 0.5}}
    (row,) = by_column(summary(TIMING, bottle=easy, grid=hard))
    assert row["PRO"] == (None if refused else pytest.approx(0.7))


def summary(timing: dict[str, object], **by_category: Result) -> Table:
    recipe = Recipe(backbone="resnet18", preset="edge", precisions=("fp32",))
    results = {unit_name(category, recipe, 0): found for category, found in by_category.items()}
    measured = Measurements(
        options=CompareOptions(data=Path(), recipes=(recipe,)),
        categories=tuple(by_category) or ("bottle",),
        done=Done(results=results, commits=(), seconds=0.0),
        timed=Done(results={"rounds": {"timings": [timing]}}, commits=(), seconds=0.0),
    )
    return next(accuracy_tables(measured, list(measured.rows())))
