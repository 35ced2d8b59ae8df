"""`edgeseg bench compare`: backbones x presets x precisions, accuracy against milliseconds.

recipes x categories x seeds -> fit -> export -> accuracy of the exported file   (units)
the files of the first category -> timing in interleaved rounds                  (units)
both, by their names -> Measurements -> rows -> tables, Pareto picture           (report)
-> report.md, report.json, report.html
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from edgeseg.bench.compare.options import CompareOptions, Recipe
from edgeseg.bench.compare.report import Measurements, report_of, unit_name
from edgeseg.bench.compare.trial import (
    SHIPPED,
    backends_of,
    draw_decisions,
    export_and_measure,
)
from edgeseg.bench.harness.accuracy import categories_in, fingerprint, open_limited
from edgeseg.bench.harness.machine import describe
from edgeseg.bench.harness.report import Report, write_report
from edgeseg.bench.harness.units import FAILED, Done, Result, Store, Unit, run_units
from edgeseg.bench.harness.weights import available, left_out
from edgeseg.bench.latency.report import timing_notes, timing_units
from edgeseg.bench.latency.turns import Candidate
from edgeseg.data.datasets import Dataset
from edgeseg.errors import EdgesegError, UsageError
from edgeseg.fitting.fitting import FitOptions, fit
from edgeseg.progress import Note, Progress, silent
from edgeseg.runtime.backends.session_options import SessionOptions


def run_compare(
    options: CompareOptions,
    out: Path,
    *,
    fresh: bool,
    note: Note,
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
        note(line)
    store = Store(out, fresh=fresh)
    done = run_units(list(comparison.accuracy_units(recipes)), store, note=note)
    timed = run_units(
        timing_units(
            comparison.candidates(done),
            schedule=options.schedule,
            options=SessionOptions(threads=options.threads),
            size_hw=options.size_hw,
            progress=progress,
        ),
        store,
        note=note,
    )
    notes += timing_notes(timed, note=note)
    categories = tuple(dataset.name for dataset in comparison.datasets)
    measured = Measurements(options=options, categories=categories, done=done, timed=timed)
    report = report_of(measured, out, facts=facts, notes=notes, title=title, name=name)
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


class Comparison:
    """The units of a comparison, and the files they leave for timing."""

    def __init__(self, options: CompareOptions, out: Path) -> None:
        self.options, self.out = options, out
        self.datasets = [
            open_limited(path, limit=options.limit) for path in categories_in(options.data)
        ]

    def accuracy_units(self, recipes: Sequence[Recipe]) -> Iterator[Unit]:
        """Category by category: fit, export and measure every recipe with every seed."""
        for dataset in self.datasets:
            for recipe in recipes:
                for seed in range(self.options.seeds):
                    yield self._unit(dataset, recipe, seed)

    def _unit(self, dataset: Dataset, recipe: Recipe, seed: int) -> Unit:
        options = self.options
        config = recipe.config(seed=seed, size_hw=options.size_hw)
        # Latency depends on the category as little as a graph does: one is kept for timing.
        first = dataset is self.datasets[0] and seed == 0

        def run() -> Result:
            fit_options = FitOptions(weights=options.weights, keep_moments=False)
            artefact = fit(dataset, config, fit_options)
            folder = self.model_path(recipe, "", category=dataset.name, seed=seed).parent
            by_precision = export_and_measure(
                artefact,
                dataset,
                folder,
                precisions=recipe.precisions,
                threads=options.threads,
                keep=first,
            )
            path = self.model_path(recipe, recipe.precisions[0], category=dataset.name)
            if first and recipe is options.recipes[0] and path.is_file():
                draw_decisions(artefact, path, dataset, self.out / f"examples-{dataset.name}.png")
            return by_precision

        return Unit(
            name=unit_name(dataset.name, recipe, seed),
            settings={
                "data": fingerprint(dataset),
                "config": config.to_dict(),
                "precisions": list(recipe.precisions),
                "weights": options.weights,
                "kept": first,
                "export": SHIPPED,
            },
            run=run,
            weight=len(dataset.train) + len(dataset.test) * (1 + len(recipe.precisions)),
        )

    def model_path(
        self, recipe: Recipe, precision: str, *, category: str | None = None, seed: int = 0
    ) -> Path:
        """Where the exported file of a recipe lies."""
        folder = self.out / "models" / (category or self.datasets[0].name)
        return folder / f"{recipe.name.replace(' ', '-')}-seed{seed}" / f"{precision}.onnx"

    def candidates(self, done: Done) -> list[Candidate]:
        """Every graph that was exported, on every backend."""
        candidates = []
        for recipe in self.options.recipes:
            result = done.results.get(unit_name(self.datasets[0].name, recipe, 0))
            for precision in recipe.precisions:
                if result is None or FAILED in result.get(precision, {FAILED: ""}):
                    continue
                path = self.model_path(recipe, precision)
                if not path.is_file():
                    raise UsageError(f"{path}: deleted since it was measured; give fresh=True")
                name = f"{recipe.name} {precision}"
                candidates += [
                    Candidate(name=name, path=path, backend=backend)
                    for backend in backends_of(precision, self.options.backends)
                ]
        return candidates
