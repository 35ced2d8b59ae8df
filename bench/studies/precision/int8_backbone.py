"""Where a backbone breaks in int8: ways of rounding it, one at a time.

    python -m edgeseg.bench.studies.precision.int8_backbone mvtec_ad/cable mvtec_ad/screw \
        --backbone mobilenet_v3_small --rounds 30 --out out

Noise is what rounding adds to the embedding of good images, as a share of how much they vary around
their mean at each cell: above 1 the model sees more of the rounding than of the parts. The rest is
of the model fitted again through the rounded graph, with an exact head. A run that was killed goes
on.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import click
import numpy as np
import torch
from numpy.typing import NDArray
from onnx import ModelProto

from edgeseg.artefact.artefact import Artefact
from edgeseg.artefact.model_metadata import describe_model
from edgeseg.bench.harness.accuracy import LABELS, fingerprint
from edgeseg.bench.harness.machine import describe
from edgeseg.bench.harness.report import Report, write_report
from edgeseg.bench.harness.units import Done, Result, Store, Unit, run_units
from edgeseg.bench.latency.report import runnable, timing_facts, timing_notes, timing_units
from edgeseg.bench.latency.turns import Candidate, Schedule
from edgeseg.bench.studies.precision.asked import Asked, asked_options
from edgeseg.bench.studies.precision.int8_tables import Rounded
from edgeseg.bench.studies.precision.int8_variants import VARIANTS
from edgeseg.bench.studies.precision.kept_models import kept_fit
from edgeseg.config import FitConfig
from edgeseg.contract.metadata import ModelMetadata
from edgeseg.data.datasets import Dataset
from edgeseg.evaluation.evaluate import evaluate
from edgeseg.export.calibration_frames import calibration_frames
from edgeseg.export.graph import GraphOptions, build_graph, set_metadata
from edgeseg.export.precision.int8 import Quantiser, quantise_form
from edgeseg.export.precision.refit import EMBEDDING, cut, embedder, refitted
from edgeseg.export.sessions import installed_runs
from edgeseg.fitting.feature_space import with_context
from edgeseg.model.predictor import Embedder
from edgeseg.model.reference import ReferenceModel
from edgeseg.options import note
from edgeseg.progress import bar, ignore, silent
from edgeseg.runtime.backends.session_options import SessionOptions

Arrays = tuple[NDArray[np.float32], NDArray[np.float32]]  # maps and scores
_REACH = 1.0  # of int8 embeddings, where only time is asked for
_LOOKED_AT = 24  # good images whose embeddings are compared
_FRAMES = 32  # that ranges are taken from: histograms keep all activations of them at once


def noise(model: ReferenceModel, embed: Embedder, images: NDArray[np.uint8]) -> float:
    """What rounding changes of embeddings, as a share of how they vary."""
    changed = spread = 0.0
    for image in images:
        exact = model.embeddings(image[None])  # (1, k, P)
        changed += float(np.square(embed(image[None]) - exact).sum())
        spread += float(np.square(exact[0].T - model.mean.numpy()).sum())
    return changed / spread


class Category:
    """A model of one category, its graph and its images; made when the first variant asks."""

    def __init__(self, dataset: Dataset, fitted: Callable[[], Artefact], folder: Path) -> None:
        self._dataset, self._fitted, self._folder = dataset, fitted, folder

    @cached_property
    def _artefact(self) -> Artefact:
        return self._fitted()

    @cached_property
    def _model(self) -> ReferenceModel:
        return self._artefact.model()

    @cached_property
    def _graph(self) -> ModelProto:
        return build_graph(self._model, GraphOptions(), size_hw=self._artefact.config.size_hw)

    @cached_property
    def _images(self) -> NDArray[np.uint8]:
        return calibration_frames(self._dataset, self._artefact.config)

    @cached_property
    def _metadata(self) -> ModelMetadata:
        return describe_model(
            self._artefact,
            artefact_sha256="",
            precision="int8",
            target="cpu",
            batch=(1, 1, 1),
            outputs=["map", "score", "grid"],
        )

    def rounded(self, variant: str, *, accuracy: bool, keep: bool) -> Result:
        """Noise, and what the model finds when it is fitted again; the graph is kept for timing."""
        rounding, proto = VARIANTS[variant], self._graph
        if rounding is not None:
            frames = self._images[:: -(-len(self._images) // _FRAMES)]
            proto = Quantiser(proto, frames, target="cpu", rounding=rounding).quantise()
        if keep:
            self._keep(proto, self.file(variant))
        embed = self._embedder(proto)
        found: Result = {"noise": noise(self._model, embed, self._images[:_LOOKED_AT])}
        return found | (self._judged(embed) if accuracy else {})

    def file(self, variant: str) -> Path:
        """Where the whole graph of a way of rounding is, for timing: its map means nothing."""
        slug = re.sub("[^a-z0-9]+", "-", variant)
        return self._folder / f"{self._dataset.name}-{slug}.onnx"

    def _keep(self, proto: ModelProto, path: Path) -> None:
        whole = ModelProto()
        whole.CopyFrom(proto)
        whole = quantise_form(whole, largest=_REACH)
        set_metadata(whole, self._metadata)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(whole.SerializeToString())

    def _embedder(self, proto: ModelProto) -> Embedder:
        """The rounded graph up to its embedding, in ONNX Runtime as a stream opens it."""
        probe = cut(proto)
        set_metadata(probe, self._metadata)
        path = self._folder / "probe.onnx"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(probe.SerializeToString())
        runs = installed_runs(
            path, precision="int8", target="cpu", batch=(1, 1, 1), outputs=(EMBEDDING,)
        )
        return embedder(runs["cpu"]())

    def _judged(self, embed: Embedder) -> Result:
        """The model fitted again through the rounded graph, on the test images."""
        fitted = refitted(self._artefact, embed, self._dataset, note=ignore, progress=silent)
        head = fitted.head()

        def predict(frames: NDArray[np.uint8]) -> Arrays:
            embedded = np.concatenate([embed(frame[None]) for frame in frames])
            return head.judge(embedded.reshape(len(frames), -1, *head.windows.grid_hw))

        evaluation = evaluate(
            predict,
            self._dataset,
            size_hw=self._artefact.config.size_hw,
            thresholds=fitted.calibration.thresholds,
        )
        return {key: evaluation.figures[key] for key in LABELS}


@dataclass(frozen=True, kw_only=True)
class Study:
    """What is rounded, and where the files are."""

    out: Path
    datasets: tuple[Dataset, ...]
    variants: tuple[str, ...]
    config: FitConfig
    weights: str | None
    threads: int
    accuracy: bool = True

    def category(self, dataset: Dataset) -> Category:
        """With a fit that is kept."""
        models = self.out / "models"
        return Category(
            dataset,
            lambda: kept_fit(dataset, self.config, models, weights=self.weights),
            models / self.config.backbone,
        )

    def units(self) -> Iterator[Unit]:
        """Every way of rounding on every category."""
        for dataset in self.datasets:
            category = self.category(dataset)
            settings = {
                "data": fingerprint(dataset),
                "config": self.config.to_dict(),
                "weights": self.weights,
                "accuracy": self.accuracy,
            }
            for variant in self.variants:
                run = partial(
                    category.rounded,
                    variant,
                    accuracy=self.accuracy,
                    keep=dataset is self.datasets[0],
                )
                yield Unit(name=f"{dataset.name}, {variant}", settings=settings, run=run)

    def timed(self, store: Store, schedule: Schedule) -> Done:
        """Of the first category's graphs: time depends on the category not at all."""
        category = self.category(self.datasets[0])
        candidates = [
            Candidate(name=variant, path=category.file(variant), backend=backend)
            for variant in self.variants
            for backend in runnable(("auto",))
        ]
        rounds, *_ = timing_units(
            candidates,
            schedule=schedule,
            options=SessionOptions(threads=self.threads),
            size_hw=self.config.size_hw,
            progress=bar,
        )
        return run_units([rounds], store, note=note)


def run_study(study: Study, schedule: Schedule | None, *, fresh: bool) -> Report:
    """Measure, write the report and return it."""
    store = Store(study.out, fresh=fresh)
    done = run_units(list(study.units()), store, note=note)
    timed = study.timed(store, schedule) if schedule is not None else None
    rounded = Rounded(
        backbone=study.config.backbone,
        categories=tuple(dataset.name for dataset in study.datasets),
        variants=study.variants,
        results=done.results,
        timings=timed.results["rounds"]["timings"] if timed else (),
    )
    facts = describe(threads=study.threads, seeds=(study.config.seed,))
    known = {"commits": list(done.commits), "work_seconds": done.seconds}
    report = Report(
        name="int8 backbone",
        title=f"Ways of rounding {study.config.backbone} to int8",
        findings=tuple(rounded.findings()),
        tables=tuple(rounded.tables()),
        figures=(),
        facts=facts | (timing_facts(timed, done) if timed else known),
        notes=tuple(timing_notes(timed, note=note)) if timed else (),
        raw=done.results | (timed.results if timed else {}),
    )
    write_report(report, study.out)
    return report


@click.command()
@asked_options()
@click.option("--backbone", default="mobilenet_v3_small", show_default=True)
@click.option("--variant", "variants", multiple=True, type=click.Choice(tuple(VARIANTS)))
@click.option("--noise-only", is_flag=True, help="Do not fit again and test: seconds a variant.")
@click.option("--rounds", type=click.IntRange(0), default=0, help="Of timing; 0: none.")
@click.option("--size", type=int, default=FitConfig.size_hw[0], show_default=True)
def main(
    asked: Asked,
    backbone: str,
    variants: tuple[str, ...],
    noise_only: bool,
    rounds: int,
    size: int,
) -> None:
    """Round a backbone in every way of VARIANTS on the categories in DATA."""
    torch.set_num_threads(asked.threads)
    study = Study(
        out=asked.out,
        datasets=asked.datasets(),
        variants=variants or tuple(VARIANTS),
        config=with_context(FitConfig(backbone=backbone, size_hw=(size, size))),
        weights=asked.weights,
        threads=asked.threads,
        accuracy=not noise_only,
    )
    asked.show(run_study(study, Schedule(rounds=rounds) if rounds else None, fresh=asked.fresh))


if __name__ == "__main__":
    main()
