"""The report of a run with peers."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from edgeseg.bench.harness.accuracy import METRICS
from edgeseg.bench.harness.figures import Dot, pareto
from edgeseg.bench.harness.machine import describe
from edgeseg.bench.harness.report import Figure, Report, write_report
from edgeseg.bench.harness.tabular import Cell, Column, Table
from edgeseg.bench.harness.units import FAILED, Done, Result, Say, Store, run_units
from edgeseg.bench.latency.report import speed_table, timing_facts, timing_notes, timing_units
from edgeseg.bench.peers.peers import TITLES, PeerOptions, PeerRun
from edgeseg.progress import Progress, silent

TIMED_ONLY = "timed only: untrained (needs the authors' teacher weights)"
NOTES = (
    "Peers: the same images, the same backbone weights (torchvision's ResNet-18) and the same "
    "metric code; their own model classes, engine, defaults and export. Accuracy is of their raw "
    "maps, before clamping; `exported PRO` is of what their ONNX file answers.",
    "fit: seconds from images on disk to a saved model, without the start of Python; anomalib "
    "without its validation pass. peak: of the process that fits. base: of the same process just "
    "before, mostly imports.",
    "Peers are exported for one frame at a time: with anomalib's default of a free batch, "
    "PatchCore comes out with a batch fixed at two.",
    "p50: feed on the host to outputs on the host. Our graphs take the camera's uint8 frame; "
    "peers take float images, and the conversion (prepare ms) is not counted against them.",
)


def run_peers(
    options: PeerOptions, out: Path, *, fresh: bool, say: Say, progress: Progress = silent
) -> Report:
    """Measure ours and theirs, and write the report."""
    import torch

    torch.set_num_threads(options.threads)
    facts = describe(threads=options.threads, seeds=(options.seed,))
    run = PeerRun(options, out)
    store = Store(out, fresh=fresh)
    done = run_units(list(run.units()), store, say=say)
    units = timing_units(
        run.candidates(done),
        schedule=options.schedule,
        threads=options.threads,
        size_hw=options.size_hw,
        progress=progress,
    )
    timed = run_units(units, store, say=say)
    notes = [*NOTES, *timing_notes(timed, say=say)]
    if options.limit is not None:
        notes.append(f"A rehearsal with --limit {options.limit}: no result.")
    report = _report(run, done, timed, facts=facts, notes=notes)
    write_report(report, out)
    return report


def _report(
    run: PeerRun, done: Done, timed: Done, *, facts: dict[str, Any], notes: list[str]
) -> Report:
    rows = list(_rows(run, done, timed))
    dots = [dot for row in rows if (dot := _dot(row)) is not None]
    figures = []
    if dots:
        pareto(dots, run.out / "pareto.png", value_name="mean PRO")
        figures.append(Figure(title="PRO against milliseconds", file="pareto.png"))
    anomalib = sorted({r["version"] for r in done.results.values() if "version" in r})
    return Report(
        name="peers",
        title="edgeseg beside anomalib, in one run",
        findings=tuple(_findings(rows)),
        tables=(_table(rows, run), _by_category(run, done), speed_table(timed)),
        figures=tuple(figures),
        facts=facts
        | timing_facts(timed, done)
        | {"versions": facts["versions"] | {"anomalib": ", ".join(anomalib) or "none"}},
        notes=tuple(notes),
        raw={"accuracy": done.results, "timing": timed.results},
    )


def _rows(run: PeerRun, done: Done, timed: Done) -> Iterator[tuple[Cell, ...]]:
    timings = {timing["key"]: timing for timing in timed.results["rounds"]["timings"]}
    for recipe in run.options.recipes:
        found = [done.results.get(f"{d.name} {recipe.name}", {}) for d in run.datasets]
        for precision in recipe.precisions:
            name = f"edgeseg {recipe.name} {precision}"
            models = [result.get("models", {}).get(precision, {}) for result in found]
            yield _row(name, found, models, models, timings, state=_state(models))
    for peer in run.options.peers:
        results = [done.results.get(f"{d.name} {peer}", {}) for d in run.datasets]
        state = TIMED_ONLY if peer == "efficientad" else _state(results)
        accuracies = [result.get("accuracy", {}) for result in results]
        exported = [result.get("exported", {}) for result in results]
        yield _row(TITLES[peer], results, accuracies, exported, timings, state=state)


def _row(
    name: str,
    costs: Sequence[Result],
    accuracies: Sequence[Result],
    exported: Sequence[Result],
    timings: dict[str, Any],
    *,
    state: str,
) -> tuple[Cell, ...]:
    on_cpu, on_openvino = timings.get(f"{name} on cpu"), timings.get(f"{name} on openvino")
    metrics = [_mean([result.get(metric) for result in accuracies]) for metric in METRICS]
    return (
        name,
        *metrics,
        _mean([result.get("pro") for result in exported]),
        _mean([result.get("fit_s") for result in costs]),
        _mean([result.get("peak_mb") for result in costs]),
        None if on_cpu is None else float(on_cpu["host_ms"]["p50"]),
        None if on_cpu is None else on_cpu["size_bytes"] / 1e6,
        None if on_openvino is None else float(on_openvino["host_ms"]["p50"]),
        state,
    )


def _table(rows: list[tuple[Cell, ...]], run: PeerRun) -> Table:
    return Table(
        title="Ours and theirs",
        columns=(
            *(Column(name="model"), Column(name="PRO", better="high")),
            *(Column(name="pixel AUROC", better="high"), Column(name="image AUROC", better="high")),
            *(Column(name="exported PRO"), Column(name="fit s", digits=1, better="low")),
            *(Column(name="peak MB", digits=0, better="low"),),
            *(Column(name="p50 ms", digits=2, better="low"),),
            *(Column(name="MB", digits=1, better="low"),),
            *(Column(name="p50 ms OpenVINO", digits=2, better="low"), Column(name="state")),
        ),
        rows=tuple(rows),
        note=f"Means over {', '.join(d.name for d in run.datasets)}. p50 in ONNX Runtime on "
        f"{run.options.threads} threads, of the models of {run.datasets[0].name}; OpenVINO runs "
        "our ONNX file and the peers' own IR.",
    )


def _by_category(run: PeerRun, done: Done) -> Table:
    rows: list[tuple[Cell, ...]] = []
    names = [dataset.name for dataset in run.datasets]
    for recipe in run.options.recipes:
        for precision in recipe.precisions:
            found = [done.results.get(f"{n} {recipe.name}", {}) for n in names]
            models = [result.get("models", {}).get(precision, {}) for result in found]
            rows.append((f"edgeseg {recipe.name} {precision}", *_cells(models)))
    for peer in run.options.peers:
        if peer != "efficientad":
            results = [done.results.get(f"{n} {peer}", {}) for n in names]
            rows.append((TITLES[peer], *_cells([r.get("accuracy", {}) for r in results])))
    columns = [Column(name="model")]
    for name in names:
        columns += [Column(name=f"{name} PRO", better="high")]
        columns += [Column(name=f"{name} image AUROC", better="high")]
    return Table(title="By category", columns=tuple(columns), rows=tuple(rows))


def _cells(results: Sequence[Result]) -> list[Cell]:
    return [result.get(metric) for result in results for metric in ("pro", "image_auroc")]


def _state(results: Sequence[Result]) -> str:
    """How many categories were measured, and the first thing that went wrong."""
    errors = [result.get("error") or result.get(FAILED) for result in results]
    wrong = [error for error in errors if error]
    if not wrong:
        return "measured"
    steps = [result["step"] for result in results if "step" in result and "error" in result]
    where = f" at {steps[0]}" if steps else ""
    return f"failed on {len(wrong)} of {len(results)}{where}: {wrong[0]}"


def _mean(values: Sequence[Any]) -> float | None:
    known = [float(value) for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _dot(row: tuple[Cell, ...]) -> Dot | None:
    group, _, name = str(row[0]).partition(" ")  # edgeseg or anomalib
    pro, ms, megabytes = row[1], row[7], row[8]
    if not isinstance(pro, float) or not isinstance(ms, float) or not isinstance(megabytes, float):
        return None
    return Dot(name=name, ms=ms, value=pro, size_mb=megabytes, group=group)


def _findings(rows: list[tuple[Cell, ...]]) -> Iterator[str]:
    ours = [row for row in rows if str(row[0]).startswith("edgeseg") and isinstance(row[7], float)]
    if not ours:
        return
    base = ours[0]
    for row in rows:
        if str(row[0]).startswith("edgeseg") or not isinstance(row[7], float):
            continue
        parts = [f"{row[7]:.1f} ms per frame against {base[7]:.1f} of {base[0]}"]
        for index, name in ((1, "PRO"), (3, "image AUROC")):
            theirs, mine = row[index], base[index]
            if isinstance(theirs, float) and isinstance(mine, float):
                parts.append(f"{name} {theirs:.3f} against {mine:.3f}")
        if isinstance(row[5], float) and isinstance(base[5], float):
            parts.append(f"fit {row[5]:.0f} s against {base[5]:.0f} s")
        yield f"{row[0]}: {'; '.join(parts)}."
