"""`edgeseg bench fit-cost`: seconds and memory of fitting one category, and of its factors.

counts x models -> images staged as PNG -> our fits, each in its own process     (units)
counts -> the same images -> anomalib's PaDiM, in its process                     (units)
sizes k x methods -> factors of made-up covariances                               (units)
results, by their names -> FitRow and FactorRow -> tables and a plot -> report
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from edgeseg.base.computer import processor_name
from edgeseg.base.progress import Note
from edgeseg.bench.compare.candidates import PEERS, OurModel
from edgeseg.bench.compare.peer_process import PeerRequest, run_peer
from edgeseg.bench.fit_cost.fits import FitCostOptions
from edgeseg.bench.fit_cost.inverse_time import inverse_unit
from edgeseg.bench.harness.accuracy import fingerprint, open_limited
from edgeseg.bench.harness.figures import Curve, curves
from edgeseg.bench.harness.fit_worker import FitWorkerRequest, fit_in_process
from edgeseg.bench.harness.machine import busy_warning, describe
from edgeseg.bench.harness.report import Figure, Report, write_report
from edgeseg.bench.harness.staging import stage
from edgeseg.bench.harness.tabular import Table, column, table_of
from edgeseg.bench.harness.units import FAILED, Result, Store, Unit, UnitResults, run_units
from edgeseg.config import FitConfig
from edgeseg.data.datasets import Dataset
from edgeseg.model.backbones import backbone_spec
from edgeseg.model.weights import find_weights

METHODS = ("cholesky", "eigenvectors")
PADIM = PEERS["padim"]
_TIMEOUT_S = 7200


@dataclass(frozen=True, kw_only=True)
class CountCost:
    """A fit on so many images."""

    fit_s: float | str | None = field(metadata=column("N={}: fit s", digits=1, better="low"))
    peak_mb: float | None = field(metadata=column("peak MB", digits=0, better="low"))
    added_mb: float | None = field(metadata=column("of which fit MB", digits=0, better="low"))


@dataclass(frozen=True, kw_only=True)
class FitRow:
    """Cost of one model by the number of images."""

    model: str = field(metadata=column("model"))
    by_count: dict[str, CountCost]


@dataclass(frozen=True, kw_only=True)
class FactorRow:
    """The factors of one size."""

    k: int = field(metadata=column("k"))
    cholesky_s: float = field(metadata=column("Cholesky s (full rank)", digits=2))
    eigenvectors_s: float = field(metadata=column("eigenvectors s (rank 0.64 k)", digits=2))
    factor_mb: float = field(metadata=column("full-rank factors MB", digits=0))
    locations: int = field(metadata=column("locations timed"))


def run_fit_cost(options: FitCostOptions, out: Path, *, fresh: bool, note: Note) -> Report:
    """Measure in fresh processes and write the report."""
    import torch

    torch.set_num_threads(options.threads)
    facts = describe(threads=options.threads)
    warning = busy_warning()
    if warning:
        note(warning)
    dataset = open_limited(options.data, limit=None)
    done = run_units(list(_units(options, dataset, out)), Store(out, fresh=fresh), note=note)
    shutil.rmtree(out / "staged", ignore_errors=True)
    notes = [
        "Each fit runs in a process of its own and reads the same PNG files; seconds count from "
        "the first image to the saved model, memory is the peak of the process. For more images "
        "than the category has, its images are repeated.",
        *([f"While timing, {warning}."] if warning else []),
        *([] if options.python else ["anomalib was left out: give --peers-python or --install."]),
    ]
    names = [model.name for model in options.models] + ([PADIM] if options.python else [])
    fits = [fit_row(done, name, options.counts) for name in names]
    factors = [factor_row(done, k) for k in options.sizes]
    _draw(factors, out)
    report = Report(
        name="fit-cost",
        title=f"What a fit costs: {dataset.name}",
        findings=tuple(findings_of(fits, factors)),
        tables=tuple(_tables(fits, factors)),
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
        "machine": processor_name(),
    }
    for count in options.counts:
        for model in options.models:
            yield Unit(
                name=f"{model.name} {count} images",
                settings=common
                | {"config": _config(options, model).to_dict(), "weights": options.weights},
                run=partial(_our_fit, options, dataset, model, count, out),
                weight=count,
            )
        if options.python is not None:
            yield Unit(
                name=f"{PADIM} {count} images",
                settings=common,
                run=partial(_their_fit, options, dataset, count, out),
                weight=2 * count,
            )
    for k in options.sizes:
        for method in METHODS:
            yield inverse_unit(k, method, threads=options.threads, machine=processor_name())


def _config(options: FitCostOptions, model: OurModel) -> FitConfig:
    return replace(model.config, size_hw=options.size_hw)


def _our_fit(
    options: FitCostOptions, dataset: Dataset, model: OurModel, count: int, out: Path
) -> Result:
    staged = stage(dataset, out / "staged" / str(count), size_hw=options.size_hw, train=count)
    artefact = staged.root.parent / "model.edgeseg"
    request = FitWorkerRequest(
        data=staged.root,
        config=_config(options, model),
        weights=options.weights,
        threads=options.threads,
        artefact=artefact,
    )
    figures = fit_in_process(request, staged.root.parent)
    artefact.unlink()
    return figures


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
    result = run_peer(options.python, request, folder, timeout_s=_TIMEOUT_S)
    shutil.rmtree(folder)
    failed = {FAILED: f"{result['step']}: {result['error']}"} if "error" in result else {}
    return result | failed


def fit_row(done: UnitResults, name: str, counts: tuple[int, ...]) -> FitRow:
    """Make the row of one model; a failed fit says so in place of its seconds."""
    by_count = {}
    for count in counts:
        result = done.results.get(f"{name} {count} images", {})
        peak, base = result.get("peak_mb"), result.get("base_mb")
        by_count[str(count)] = CountCost(
            fit_s=result.get("fit_s", result.get(FAILED)),
            peak_mb=peak,
            added_mb=None if peak is None or base is None else float(peak) - float(base),
        )
    return FitRow(model=name, by_count=by_count)


def factor_row(done: UnitResults, k: int) -> FactorRow:
    """Make the row of one size, with both methods."""
    cholesky, eigenvectors = (done.results[f"inverse k{k} {method}"] for method in METHODS)
    return FactorRow(
        k=k,
        cholesky_s=float(cholesky["grid_seconds"]),
        eigenvectors_s=float(eigenvectors["grid_seconds"]),
        factor_mb=float(cholesky["factor_mb"]),
        locations=cholesky["locations"],
    )


def _tables(fits: list[FitRow], factors: list[FactorRow]) -> Iterator[Table]:
    yield table_of(
        "Fit of one category",
        fits,
        note="of which fit: the peak less what the process had before the fit, mostly imports.",
    )
    yield table_of(
        "Factors of 4096 locations",
        factors,
        note="Scaled to 4096 locations where fewer were timed.",
    )


def _draw(factors: list[FactorRow], out: Path) -> None:
    sizes = [row.k for row in factors]
    lines = [
        Curve(name="Cholesky", x=sizes, y=[row.cholesky_s for row in factors]),
        Curve(name="eigenvectors", x=sizes, y=[row.eigenvectors_s for row in factors]),
    ]
    curves(
        lines,
        out / "factors_over_k.png",
        x_name="k",
        y_name="seconds for 4096 locations",
        log_x=True,
        log_y=True,
    )


def findings_of(fits: list[FitRow], factors: list[FactorRow]) -> Iterator[str]:
    """Write what the numbers say."""
    for row in fits:
        costs = row.by_count.values()
        wrong = [cost.fit_s for cost in costs if not isinstance(cost.fit_s, float)]
        if wrong:
            reason = next((reason for reason in wrong if reason), "not measured")
            yield f"{row.model}: failed ({reason})."
            continue
        parts = [
            f"{cost.fit_s:.1f} s and {cost.peak_mb:.0f} MB at {count} images"
            for count, cost in row.by_count.items()
        ]
        yield f"{row.model}: {', '.join(parts)}."
    for factor in factors:
        if factor.k == 100:
            yield f"Factors of 4096 locations with k=100: {factor.cholesky_s:.2f} s."
