"""The search of `edgeseg tune` for the most accurate model within a budget.

each backbone -> a few images, fp32, timed: far too slow ones are not fitted     glance units
the others x precisions -> fitted, exported, verified, judged by planted defects and timed, as in
every comparison; a rounded one for each backend, through the session that will run it
"""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from edgeseg.base.files import atomic_path, write_text
from edgeseg.base.progress import Note, Progress
from edgeseg.bench.compare.candidates import OurModel, TuneOptions
from edgeseg.bench.compare.choice import best_of, choice_sentences, choose
from edgeseg.bench.compare.comparison_work import ComparisonWork
from edgeseg.bench.compare.grid import grid_here
from edgeseg.bench.compare.plan import ComparisonPlan
from edgeseg.bench.compare.record import ComparedFile, Record
from edgeseg.bench.compare.summary import forms_of, write_summary
from edgeseg.bench.harness.accuracy import fingerprint
from edgeseg.bench.harness.machine import describe
from edgeseg.bench.harness.report import Report
from edgeseg.bench.harness.units import Result, Store, Unit, UnitResults, run_units
from edgeseg.bench.latency.timing import timing_notes
from edgeseg.bench.latency.turns import LatencyCandidate, measure_latency
from edgeseg.data.datasets import Dataset
from edgeseg.export.onnx_export import export_onnx
from edgeseg.export.options import ExportOptions
from edgeseg.fitting.fitting import FitOptions, fit

# No precision here is faster than fp32 by more: what takes longer cannot come within the budget.
MOST_GAIN = 4.0
_GLANCE_IMAGES = 8


def search(
    options: TuneOptions,
    dataset: Dataset,
    out: Path,
    *,
    fresh: bool,
    note: Note,
    progress: Progress,
) -> tuple[Report, ComparedFile | None]:
    """Search, write the report and best.onnx; return both, or no best if none is fast enough."""
    import torch

    torch.set_num_threads(options.session.thread_count)
    facts = describe(threads=options.session.thread_count, seeds=(options.config.seed,))
    grid = grid_here(options)
    store = Store(out, fresh=fresh)
    models = options.models(grid.backbones, grid.precisions)
    glances = run_units(
        [glance_unit(options, model, dataset, out, backends=grid.backends) for model in models],
        store,
        note=note,
    )
    slow = too_slow(glances, budget_ms=options.budget_ms)
    work = ComparisonWork(
        plan=ComparisonPlan(
            categories=(dataset.name,),
            models=tuple(model for model in models if model.name not in slow),
            backends=grid.backends,
            by_planted=True,
        ),
        datasets=(dataset,),
        out=out,
        session=options.session,
        weights=options.weights,
        planted=options.planted,
        progress=progress,
        size_hw=options.config.size_hw,
    )
    record = work.measure(store, schedule=options.schedule, note=note, cold_starts=False)
    rows = choose(record.rows(), budget_ms=options.budget_ms)
    skipped = (*grid.left_out, *slow.values(), *refusals(record))
    notes = timing_notes(record.timed, note=note)
    report = write_summary(
        record,
        rows,
        out,
        name="tune",
        title=f"The most accurate model within {options.budget_ms:g} ms on this computer",
        facts=facts,
        notes=(*notes, *(f"Not tried or not taken: {each}" for each in skipped)),
        findings=tuple(choice_sentences(rows, budget_ms=options.budget_ms)),
        budget_ms=options.budget_ms,
        others=(glances,),
    )
    write_text(out / "table.csv", report.tables[0].csv())
    best = best_of(rows)
    if best is not None:
        _keep(best, work, out)
    return report, best


def glance_unit(
    options: TuneOptions, model: OurModel, dataset: Dataset, out: Path, *, backends: Sequence[str]
) -> Unit:
    """Time a model fitted on few images: their number does not change its speed."""

    def run() -> Result:
        few = replace(dataset, train=dataset.train[:_GLANCE_IMAGES])
        fitting = FitOptions(weights=options.weights, keep_moments=False, planted=0)
        artefact = fit(few, replace(model.config, folds=2), fitting)
        path = out / "models" / f"{model.name}-glance.onnx"
        unverified = ExportOptions(verify=False, allow_random_weights=True)
        export_onnx(artefact, path, options=unverified, good=few)
        candidates = [LatencyCandidate(name="glance", path=path, backend=name) for name in backends]
        timings = measure_latency(candidates, schedule=options.glance, options=options.session)
        path.unlink()
        path.with_suffix(".json").unlink()
        return {
            "ms": {
                name: timing.to_dict(timing)["streamed_ms"]["p50"]
                for name, timing in zip(backends, timings, strict=True)
            }
        }

    settings = {
        "data": fingerprint(dataset),
        "config": model.config.to_dict(),
        "weights": options.weights,
        "session": {"threads": options.session.threads, "spin": options.session.spin},
        "backends": list(backends),
    }
    return Unit(name=f"glance {model.name}", settings=settings, run=run, weight=1.0)


def too_slow(glances: UnitResults, *, budget_ms: float) -> dict[str, str]:
    """Find backbones that no precision brings within the budget, with a sentence on each."""
    fastest = {
        name.removeprefix("glance "): min(glance["ms"].values())
        for name, glance in glances.results.items()
    }
    return {
        name: f"{name}: not fitted, {ms:.1f} ms in fp32 are more than {MOST_GAIN:g} times the "
        "budget."
        for name, ms in fastest.items()
        if ms > MOST_GAIN * budget_ms
    }


def refusals(record: Record) -> list[str]:
    """Write a sentence on each file that was refused, or exported in another form."""
    return [
        f"{each.model}: {each.form}, {each.why.rstrip('.')}."
        if each.form == "refused"
        else f"{each.model}: exported as {each.form}; refused before it: {each.why.rstrip('.')}."
        for each in forms_of(record)
        if each.why
    ]


def _keep(best: ComparedFile, work: ComparisonWork, out: Path) -> None:
    """Copy the chosen graph to best.onnx, with its sidecar."""
    (file,) = [
        work.path(graph)
        for graph in work.plan.first_graphs()
        if (graph.fit.model, graph.precision) == (best.settings, best.precision)
        and best.backend in work.plan.backends_for(graph)
    ]
    for suffix in (".json", ".onnx"):
        with atomic_path((out / "best.onnx").with_suffix(suffix)) as temporary:
            shutil.copyfile(file.with_suffix(suffix), temporary)
