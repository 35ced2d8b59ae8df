"""`edgeseg bench fit-cost`: seconds and memory of fitting one category, and of its factors."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from edgeseg.bench.compare.trial import Recipe
from edgeseg.bench.harness.accuracy import fingerprint, open_limited
from edgeseg.bench.harness.figures import Line, curves
from edgeseg.bench.harness.machine import busy_warning, describe, processor
from edgeseg.bench.harness.report import Figure, Report, write_report
from edgeseg.bench.harness.staging import stage
from edgeseg.bench.harness.tabular import Cell, Column, Table
from edgeseg.bench.harness.units import FAILED, Done, Result, Say, Store, Unit, run_units
from edgeseg.bench.paper.inverse_time import SIZES, inverse_unit
from edgeseg.bench.peers.fit_worker import fit_in_process
from edgeseg.bench.peers.process import PeerRequest, run_peer
from edgeseg.data.datasets import Dataset
from edgeseg.model.backbones import backbone_spec
from edgeseg.model.weights import find_weights

COUNTS = (50, 400)  # images: memory must not grow with them
METHODS = ("cholesky", "eigenvectors")
PADIM = "anomalib PaDiM"
_TIMEOUT_S = 7200


@dataclass(frozen=True, kw_only=True)
class FitCostOptions:
    """The category, and who fits it."""

    data: Path
    python: Path | None  # with anomalib; None leaves it out
    recipes: tuple[Recipe, ...]
    counts: tuple[int, ...] = COUNTS
    sizes: tuple[int, ...] = SIZES
    size_hw: tuple[int, int] = (256, 256)
    threads: int = 2


def run_fit_cost(options: FitCostOptions, out: Path, *, fresh: bool, say: Say) -> Report:
    """Measure in fresh processes and write the report."""
    import torch

    torch.set_num_threads(options.threads)
    facts = describe(threads=options.threads)
    warning = busy_warning()
    if warning:
        say(warning)
    dataset = open_limited(options.data, limit=None)
    done = run_units(list(_units(options, dataset, out)), Store(out, fresh=fresh), say=say)
    shutil.rmtree(out / "staged", ignore_errors=True)
    notes = [
        "Each fit runs in a process of its own and reads the same PNG files; seconds count from "
        "the first image to the saved model, memory is the peak of the process. For more images "
        "than the category has, its images are repeated.",
        *([f"While timing, {warning}."] if warning else []),
        *([] if options.python else ["anomalib was left out: give --peers-python or --install."]),
    ]
    names = [recipe.name for recipe in options.recipes] + ([PADIM] if options.python else [])
    _draw(done, options, out)
    report = Report(
        name="fit-cost",
        title=f"What a fit costs: {dataset.name}",
        findings=tuple(_findings(done, options, names)),
        tables=(_fits(done, options, names), _factors(done, options)),
        figures=(Figure(title="Seconds for the factors over k", file="factors_over_k.png"),),
        facts=facts | {"commits": list(done.commits), "work_seconds": done.seconds},
        notes=tuple(notes),
        raw=done.results,
    )
    write_report(report, out)
    return report


def _units(options: FitCostOptions, dataset: Dataset, out: Path) -> Iterator[Unit]:
    common = {
        "data": fingerprint(dataset),
        "size_hw": list(options.size_hw),
        "threads": options.threads,
        "machine": processor(),
    }
    for count in options.counts:
        for recipe in options.recipes:
            yield Unit(
                name=f"{recipe.name} {count} images",
                settings=common | {"config": _config(options, recipe)},
                run=lambda recipe=recipe, count=count: _our_fit(  # type: ignore[misc]
                    options, dataset, recipe, count, out
                ),
                weight=count,
            )
        if options.python is not None:
            yield Unit(
                name=f"{PADIM} {count} images",
                settings=common,
                run=lambda count=count: _their_fit(  # type: ignore[misc]
                    options, dataset, count, out
                ),
                weight=2 * count,
            )
    for k in options.sizes:
        for method in METHODS:
            yield inverse_unit(k, method, threads=options.threads, machine=processor())


def _config(options: FitCostOptions, recipe: Recipe) -> Result:
    return recipe.config(seed=0, size_hw=options.size_hw).to_dict()


def _our_fit(
    options: FitCostOptions, dataset: Dataset, recipe: Recipe, count: int, out: Path
) -> Result:
    staged = stage(dataset, out / "staged" / str(count), size_hw=options.size_hw, train=count)
    artefact = staged.root.parent / "model.edgeseg"
    request = {
        "data": str(staged.root),
        "config": _config(options, recipe),
        "weights": None,
        "threads": options.threads,
        "artefact": str(artefact),
    }
    found = fit_in_process(request, staged.root.parent)
    artefact.unlink()
    return found


def _their_fit(options: FitCostOptions, dataset: Dataset, count: int, out: Path) -> Result:
    if options.python is None:
        return {FAILED: "no interpreter with anomalib"}
    staged = stage(dataset, out / "staged" / str(count), size_hw=options.size_hw, train=count)
    request = PeerRequest(
        peer="padim",
        data=staged.root,
        weights=find_weights(backbone_spec("resnet18"), weights=None),
        size_hw=options.size_hw,
        threads=options.threads,
        fit_only=True,
    )
    folder = out / "models" / f"padim-{count}"
    found = run_peer(options.python, request, folder, timeout_s=_TIMEOUT_S)
    shutil.rmtree(folder)
    return found | ({FAILED: f"{found['step']}: {found['error']}"} if "error" in found else {})


def _fits(done: Done, options: FitCostOptions, names: list[str]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name in names:
        row: list[Cell] = [name]
        for count in options.counts:
            found = done.results.get(f"{name} {count} images", {})
            peak, base = found.get("peak_mb"), found.get("base_mb")
            added = None if peak is None or base is None else float(peak) - float(base)
            row += [found.get("fit_s", found.get(FAILED)), peak, added]
        rows.append(tuple(row))
    columns = [Column(name="model")]
    for count in options.counts:
        columns += [
            Column(name=f"N={count}: fit s", digits=1, better="low"),
            Column(name="peak MB", digits=0, better="low"),
            Column(name="of which fit MB", digits=0, better="low"),
        ]
    return Table(
        title="Fit of one category",
        columns=tuple(columns),
        rows=tuple(rows),
        note="of which fit: the peak less what the process had before the fit, mostly imports.",
    )


def _factors(done: Done, options: FitCostOptions) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for k in options.sizes:
        found = [done.results[f"inverse k{k} {method}"] for method in METHODS]
        seconds = [float(result["grid_seconds"]) for result in found]
        rows.append((k, *seconds, float(found[0]["factor_mb"]), found[0]["locations"]))
    return Table(
        title="Factors of 4096 locations",
        columns=(
            *(Column(name="k"), Column(name="Cholesky s (full rank)", digits=2)),
            *(Column(name="eigenvectors s (rank 0.64 k)", digits=2),),
            *(Column(name="full-rank factors MB", digits=0), Column(name="locations timed")),
        ),
        rows=tuple(rows),
        note="Scaled to 4096 locations where fewer were timed.",
    )


def _draw(done: Done, options: FitCostOptions, out: Path) -> None:
    lines = [
        Line(
            name=name,
            x=options.sizes,
            y=[done.results[f"inverse k{k} {method}"]["grid_seconds"] for k in options.sizes],
        )
        for method, name in (("cholesky", "Cholesky"), ("eigenvectors", "eigenvectors"))
    ]
    curves(
        lines,
        out / "factors_over_k.png",
        x_name="k",
        y_name="seconds for 4096 locations",
        log_x=True,
        log_y=True,
    )


def _findings(done: Done, options: FitCostOptions, names: list[str]) -> Iterator[str]:
    for name in names:
        found = [done.results.get(f"{name} {count} images", {}) for count in options.counts]
        if any("fit_s" not in result for result in found):
            reason = next((r[FAILED] for r in found if FAILED in r), "not measured")
            yield f"{name}: failed ({reason})."
            continue
        parts = [
            f"{result['fit_s']:.1f} s and {result['peak_mb']:.0f} MB at {count} images"
            for count, result in zip(options.counts, found, strict=True)
        ]
        yield f"{name}: {', '.join(parts)}."
    if 100 in options.sizes:
        seconds = done.results["inverse k100 cholesky"]["grid_seconds"]
        yield f"Factors of 4096 locations with k=100: {seconds:.2f} s."
