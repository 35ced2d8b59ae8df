"""What a comparison is made of: recipes on categories, and the files they leave for timing."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgeseg.bench.compare.trial import Recipe, draw_decisions, export_and_measure
from edgeseg.bench.harness.accuracy import (
    categories_in,
    fingerprint,
    open_limited,
    over_seeds,
)
from edgeseg.bench.harness.units import FAILED, Done, Result, Unit
from edgeseg.bench.latency.turns import Candidate, Schedule
from edgeseg.data.datasets import Dataset
from edgeseg.errors import UsageError
from edgeseg.fitting.fitting import FitOptions, fit


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """What is compared, and on how much data."""

    data: Path
    recipes: tuple[Recipe, ...]
    backends: tuple[str, ...] = ("cpu",)
    size_hw: tuple[int, int] = (256, 256)
    seeds: int = 1
    limit: int | None = None
    weights: str | None = None  # "random" times backbones whose weights are not here
    schedule: Schedule = field(default_factory=Schedule)
    threads: int = 2

    def __post_init__(self) -> None:
        names = [recipe.name for recipe in self.recipes]
        if not names or len(set(names)) != len(names):
            raise UsageError(f"recipes {names}: expected one or more, each once")


class Comparison:
    """The units of a comparison, and what their results say."""

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
            found = export_and_measure(
                artefact,
                dataset,
                folder,
                precisions=recipe.precisions,
                threads=options.threads,
                keep=first,
            )
            if first and recipe is options.recipes[0]:
                path = self.model_path(recipe, recipe.precisions[0], category=dataset.name)
                draw_decisions(artefact, path, dataset, self.out / f"examples-{dataset.name}.png")
            return found

        return Unit(
            name=f"{dataset.name} {recipe.name} seed {seed}",
            settings={
                "data": fingerprint(dataset),
                "config": config.to_dict(),
                "precisions": list(recipe.precisions),
                "weights": options.weights,
                "kept": first,
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
        found = []
        for recipe in self.options.recipes:
            result = done.results.get(f"{self.datasets[0].name} {recipe.name} seed 0")
            for precision in recipe.precisions:
                if result is None or FAILED in result.get(precision, {FAILED: ""}):
                    continue
                path = self.model_path(recipe, precision)
                if not path.is_file():
                    raise UsageError(f"{path}: deleted since it was measured; run with --fresh")
                name = f"{recipe.name} {precision}"
                found += [
                    Candidate(name=name, path=path, backend=backend)
                    for backend in self.options.backends
                ]
        return found

    def accuracy(self, done: Done, recipe: Recipe, precision: str) -> dict[str, Any]:
        """Metrics by category, each as mean and deviation over seeds."""
        by_category = {}
        for dataset in self.datasets:
            names = [f"{dataset.name} {recipe.name} seed {s}" for s in range(self.options.seeds)]
            found = [done.results[n][precision] for n in names if n in done.results]
            usable = [result for result in found if FAILED not in result]
            if usable:
                by_category[dataset.name] = over_seeds(usable)
        return by_category
