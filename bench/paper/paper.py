"""`edgeseg bench paper`: the experiments of the paper on the data that is present.

options, the data that is here -> plan: units of work, and notes on what is absent
a category -> feature maps on disk, once -> every embedding, size and method of it   (units)
results, by their names -> Findings -> tables and figures, published numbers beside ours
-> report.md, report.json, report.html
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from edgeseg.base.computer import processor_name
from edgeseg.base.progress import Note, Progress, silent
from edgeseg.bench.fit_cost.fits import SIZES
from edgeseg.bench.fit_cost.inverse_time import METHODS, inverse_unit
from edgeseg.bench.harness.accuracy import categories_in, open_limited
from edgeseg.bench.harness.machine import describe
from edgeseg.bench.harness.report import Report, write_report
from edgeseg.bench.harness.units import Store, Unit, run_units
from edgeseg.bench.harness.weights import available, missing_weights_sentence
from edgeseg.bench.paper.distances_over_k import FULL, Variant
from edgeseg.bench.paper.experiments import (
    Banks,
    PaperDataset,
    eigen_unit,
    kolektor_sources,
    mstc_units,
    picture_unit,
    variant_unit,
)
from edgeseg.bench.paper.figures import figures_of
from edgeseg.bench.paper.parts import PaperOptions
from edgeseg.bench.paper.pictures import draw_examples
from edgeseg.bench.paper.published import CATEGORIES
from edgeseg.bench.paper.results import Findings
from edgeseg.bench.paper.tables import tables_of

KINDS = ("semi_orthogonal", "sampled", "gaussian")
K = 100


@dataclass
class PaperPlan:
    """Units of work, and notes on what cannot be done."""

    sources: list[PaperDataset]
    weights: dict[str, str]  # backbone -> hash
    units: list[Unit] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def run_paper(
    options: PaperOptions, out: Path, *, fresh: bool, note: Note, progress: Progress = silent
) -> Report:
    """Run all experiments whose data is here, and write the report."""
    import torch

    torch.set_num_threads(options.threads)
    facts = describe(threads=options.threads, seeds=tuple(range(options.seeds)))
    banks = Banks(
        out / "features", keep=options.keep_features, weights=options.weights, progress=progress
    )
    plan = make_plan(options, out, banks)
    for line in plan.notes:
        note(line)
    done = run_units(plan.units, Store(out, fresh=fresh), note=note)
    banks.close()
    names = [source.name for source in plan.sources]
    findings = Findings(done=done, options=options, categories=names, weights=plan.weights)
    report = Report(
        name="paper",
        title="The paper's experiments, published numbers beside ours",
        findings=tuple(findings.sentences()),
        tables=tuple(tables_of(findings)),
        figures=tuple(figures_of(findings, out)),
        facts=facts | {"commits": list(done.commits), "work_seconds": done.seconds},
        notes=tuple([*plan.notes, *findings.notes()]),
        raw=done.results,
    )
    write_report(report, out)
    return report


def make_plan(options: PaperOptions, out: Path, banks: Banks) -> PaperPlan:
    """List all units, ordered so that the features of a dataset are made once."""
    sources = [
        PaperDataset(
            name=path.resolve().name,
            dataset=open_limited(path, limit=options.limit),
            size_hw=options.size_hw,
        )
        for path in categories_in(options.mvtec)
    ]
    plan = PaperPlan(sources=sources, weights={})
    absent = [name for name in CATEGORIES if name not in {source.name for source in sources}]
    if absent:
        plan.notes.append(f"MVTec AD categories that are absent here: {', '.join(absent)}.")
    if options.limit is not None:
        plan.notes.append(f"A rehearsal with --limit {options.limit}: no result.")
    for backbone in options.backbones:
        sha256 = available(backbone, weights=options.weights)
        if sha256 is None:
            plan.notes.append(missing_weights_sentence(backbone))
        else:
            plan.weights[backbone] = sha256
    for source in sources:
        for backbone, sha256 in plan.weights.items():
            for variant in variants_of(options, backbone):
                plan.units.append(
                    variant_unit(banks, source, backbone, variant, weights_sha256=sha256)
                )
            if backbone == "resnet18":
                plan.units += _inspection_units(options, out, banks, source, sha256)
    _add_other_datasets(plan, options, banks)
    if "inverse" in options.parts:
        plan.units += [
            inverse_unit(k, method, threads=options.threads, machine=processor_name())
            for k in SIZES
            for method in METHODS
        ]
    return plan


def variants_of(options: PaperOptions, backbone: str) -> Iterator[Variant]:
    """List the variants of one backbone that the tables and the curve need."""
    tables = bool({"categories", "ablation"} & set(options.parts))
    semi_sizes = {"wide_resnet50_2": (K, 300)}.get(backbone, (K,))
    sampled = {"resnet18": K, "wide_resnet50_2": 550}.get(backbone)
    for seed in range(options.seeds if tables else 0):
        for k in semi_sizes:
            yield Variant(embedding="semi_orthogonal", sizes=(k,), seed=seed)
        if sampled is not None:
            yield Variant(embedding="sampled", sizes=(sampled,), seed=seed)
        if backbone == "resnet18" and "ablation" in options.parts:
            yield Variant(embedding="gaussian", sizes=(K,), seed=seed)
    if backbone != "resnet18":
        return
    if "ablation" in options.parts:
        yield Variant(embedding="identity", sizes=(FULL,), method="global")
        yield Variant(embedding="identity", sizes=(K,), method="eigen")
        for layer in (1, 2, 3):
            yield Variant(embedding="identity", sizes=(FULL,), layers=(layer,))
    if {"ablation", "curve"} & set(options.parts):
        yield Variant(embedding="identity", sizes=(FULL,))
    if "curve" in options.parts:
        for seed in range(options.curve_seeds):
            for kind in KINDS:
                yield Variant(embedding=kind, sizes=options.curve_sizes, seed=seed)


def _inspection_units(
    options: PaperOptions, out: Path, banks: Banks, source: PaperDataset, sha256: str
) -> Iterator[Unit]:
    if "eigenvalues" in options.parts:
        for kind in KINDS:
            for seed in range(options.seeds):
                variant = Variant(embedding=kind, sizes=(K,), seed=seed)
                yield eigen_unit(banks, source, "resnet18", variant, weights_sha256=sha256, every=1)
        everything = Variant(embedding="identity", sizes=(FULL,))
        yield eigen_unit(banks, source, "resnet18", everything, weights_sha256=sha256, every=8)
    if "pictures" in options.parts:
        yield picture_unit(
            banks,
            source,
            "resnet18",
            weights_sha256=sha256,
            draw=lambda source, maps: draw_examples(source, maps, out),
        )


def _add_other_datasets(plan: PaperPlan, options: PaperOptions, banks: Banks) -> None:
    """Add KolektorSDD, KolektorSDD2 and mSTC, or a note that they are not here."""
    if "kolektor" in options.parts and "resnet18" in plan.weights:
        sources, notes = kolektor_sources(options.kolektor, options.kolektor2, limit=options.limit)
        plan.notes += notes
        for source in sources:
            for kind in ("semi_orthogonal", "sampled"):
                for seed in range(min(options.seeds, 3)):  # three, as the paper
                    variant = Variant(embedding=kind, sizes=(K,), seed=seed)
                    sha256 = plan.weights["resnet18"]
                    plan.units.append(
                        variant_unit(banks, source, "resnet18", variant, weights_sha256=sha256)
                    )
    if "mstc" in options.parts and "resnet18" in plan.weights:
        units, notes = mstc_units(options.mstc, weights=options.weights)
        plan.units += units
        plan.notes += notes
