"""The report of a comparison: a summary, tables by category and form, and findings."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgeseg.bench.compare.files import REFUSED
from edgeseg.bench.compare.findings import findings_of, row_dot
from edgeseg.bench.compare.record import ComparedFile, Record
from edgeseg.bench.harness.accuracy import COMPARED, LABELS, by_category, fewer_categories
from edgeseg.bench.harness.figures import pareto
from edgeseg.bench.harness.report import Figure, Report, write_report
from edgeseg.bench.harness.tabular import Table, column, table_of
from edgeseg.bench.harness.units import Result, UnitResults
from edgeseg.bench.latency.latency import speed_table
from edgeseg.bench.latency.timing import timing_facts
from edgeseg.runtime.backends.session_options import AUTO

NOTE = (
    "Each row is a file in one backend, its times and its accuracy of the same session; a dash: "
    "not measured there. Accuracy is of the exported file on the test images, the mean over all "
    "categories; of a peer it is of its raw maps, and `exported PRO` of its ONNX file. recall, "
    "false alarms and F1: at the threshold of the file, which peers have not. streamed: at the "
    "pace of a camera. time / a peer: median over rounds of the ratio back to back, to the peer in "
    "the same backend; below 1 is faster. Times and MB are of the first category."
)
PLANTED_NOTE = (
    "planted found: share of defects planted on copies of good images that are above the file's "
    "own threshold; planted AUROC: of them against the good images; both by models without those "
    "images. A rounded graph is fitted again for each backend, and judged through that backend's "
    "session; on a GPU through ONNX Runtime's, and wants `edgeseg calibrate` there. fp32 is judged "
    "as it was fitted. streamed: at the pace of a camera, the 95th percentile is what the budget "
    "is for. processor: of all threads for such a frame."
)


@dataclass(frozen=True, kw_only=True)
class CategoryAccuracy:
    """One metric of one model, category by category."""

    model: str = field(metadata=column("model"))
    compared: dict[str, float | None] = field(metadata=column("{}", better="high"))
    decided: dict[str, float | None] = field(metadata=column("{}"))


@dataclass(frozen=True, kw_only=True)
class ExportedForm:
    """A form that the export gave a model, and on how many data sets."""

    model: str = field(metadata=column("model"))
    form: str = field(metadata=column("exported as"))
    times: str = field(metadata=column("times"))
    why: str = field(metadata=column("what was refused before it"))


def write_summary(
    record: Record,
    rows: Sequence[ComparedFile],
    out: Path,
    *,
    name: str,
    title: str,
    facts: dict[str, Any],
    notes: Sequence[str],
    findings: Sequence[str] = (),
    budget_ms: float | None = None,
    others: Sequence[UnitResults] = (),
) -> Report:
    """Write the report of a record; `findings` come before those that every comparison has."""
    report = Report(
        name=name,
        title=title,
        findings=(*findings, *findings_of(rows)),
        tables=tuple(tables_of(record, rows)),
        figures=tuple(_figures(record, rows, out, budget_ms=budget_ms)),
        facts=facts | timing_facts(record.timed, record.done, *others),
        notes=tuple(notes),
        raw={"accuracy": record.done.results, "timing": record.timed.results},
    )
    write_report(report, out)
    return report


def tables_of(record: Record, rows: Sequence[ComparedFile]) -> Iterator[Table]:
    """Make the tables: the summary, exported forms, every metric by category, and times."""
    note = PLANTED_NOTE if record.plan.by_planted else NOTE
    categories = record.plan.categories
    measured = f" Measured on {', '.join(categories)}; seeds: {record.plan.seeds}." + "".join(
        fewer_categories(LABELS[key], record.measured_on(key), categories) for key in record.metrics
    )
    yield table_of("Summary", rows, note=note + measured).without_empty_columns()
    forms = list(forms_of(record))
    if forms:
        yield table_of("What the export made of it", forms)
    for key in by_category(record.metrics):
        accuracies = list(_category_accuracies(record, key))
        if accuracies:
            yield table_of(f"{LABELS[key][:1].upper()}{LABELS[key][1:]} by category", accuracies)
    if any(name.startswith("cold start") for name in record.timed.results):
        yield speed_table(record.timed)


def _category_accuracies(record: Record, key: str) -> Iterator[CategoryAccuracy]:
    for model, means in record.accuracies():
        if means:
            cells = {c: means.get(c, {}).get(key, (None,))[0] for c in record.plan.categories}
            best, plain = (cells, {}) if key in COMPARED else ({}, cells)
            yield CategoryAccuracy(model=model, compared=best, decided=plain)


def forms_of(record: Record) -> Iterator[ExportedForm]:
    """List the form of every file that was exported or refused."""
    for graph in record.plan.first_graphs():
        own = "" if graph.session == AUTO else f" for {graph.session}"
        known = [each for results in record.files(graph).values() for each in results if each]
        yield from _forms(f"{graph.title}{own}", known)


def _forms(model: str, results: Sequence[Result]) -> Iterator[ExportedForm]:
    forms = Counter(str(result.get("form", "refused")) for result in results)
    for form, count in forms.items():
        alike = [result for result in results if result.get("form", "refused") == form]
        yield ExportedForm(
            model=model,
            form=form,
            times=f"{count} of {len(results)}",
            why="; ".join(dict.fromkeys(filter(None, map(_why, alike)))),
        )


def _why(result: Result) -> str:
    if REFUSED in result:
        return str(result[REFUSED])
    refused = result.get("refused", {})
    return "; ".join(f"{form}: {', '.join(failures)}" for form, failures in refused.items())


def _figures(
    record: Record, rows: Sequence[ComparedFile], out: Path, *, budget_ms: float | None
) -> Iterator[Figure]:
    dots = [dot for row in rows if (dot := row_dot(row)) is not None]
    if dots and record.plan.by_planted:
        value = "share of planted defects found"
        pareto(dots, out / "pareto.png", value_name=value, time_name="streamed, p95",
               budget_ms=budget_ms)  # fmt: skip
        yield Figure(title="Planted defects found against milliseconds", file="pareto.png")
    elif dots:
        pareto(dots, out / "pareto.png", value_name="mean PRO")
        yield Figure(
            title="PRO against milliseconds",
            file="pareto.png",
            note="Area of a dot: size of the file. Dotted, and bold in the list: no other model is "
            "faster and as accurate.",
        )
    first = record.plan.categories[0]
    file = f"examples-{first}.png"
    if (out / file).is_file():
        yield Figure(title=f"Example maps: {first}", file=file, shareable=False)
