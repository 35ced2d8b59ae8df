"""`edgeseg bench compare`: backbones x presets x precisions, accuracy against milliseconds."""

from pathlib import Path

from edgeseg.bench.compare.recipes import CompareOptions, Comparison
from edgeseg.bench.compare.report import report_of
from edgeseg.bench.compare.trial import Recipe
from edgeseg.bench.harness.machine import describe
from edgeseg.bench.harness.report import Report, write_report
from edgeseg.bench.harness.units import Say, Store, run_units
from edgeseg.bench.latency.report import timing_notes, timing_units
from edgeseg.bench.paper.experiments import available, left_out
from edgeseg.errors import EdgesegError
from edgeseg.progress import Progress, silent


def run_compare(
    options: CompareOptions,
    out: Path,
    *,
    fresh: bool,
    say: Say,
    progress: Progress = silent,
    title: str = "Accuracy against milliseconds",
    name: str = "compare",
) -> Report:
    """Measure everything and write the report."""
    import torch

    torch.set_num_threads(options.threads)
    facts = describe(threads=options.threads, seeds=tuple(range(options.seeds)))
    comparison = Comparison(options, out)
    recipes, notes = _usable(options)
    for line in notes:
        say(line)
    store = Store(out, fresh=fresh)
    done = run_units(list(comparison.accuracy_units(recipes)), store, say=say)
    timed = run_units(
        timing_units(
            comparison.candidates(done),
            schedule=options.schedule,
            threads=options.threads,
            size_hw=options.size_hw,
            progress=progress,
        ),
        store,
        say=say,
    )
    notes += timing_notes(timed, say=say)
    report = report_of(comparison, done, timed, facts=facts, notes=notes, title=title, name=name)
    write_report(report, out)
    return report


def _usable(options: CompareOptions) -> tuple[list[Recipe], list[str]]:
    """Recipes whose backbone has weights here, and a note on each other backbone."""
    notes, missing = [], set()
    for backbone in dict.fromkeys(recipe.backbone for recipe in options.recipes):
        if available(backbone, weights=options.weights) is None:
            missing.add(backbone)
            notes.append(left_out(backbone))
    if options.weights is not None:
        notes.append("Random weights: only the times mean something.")
    if options.limit is not None:
        notes.append(f"A rehearsal with --limit {options.limit}: no result.")
    usable = [recipe for recipe in options.recipes if recipe.backbone not in missing]
    if not usable:
        raise EdgesegError(f"nothing to compare: {notes[0]}")
    return usable, notes
