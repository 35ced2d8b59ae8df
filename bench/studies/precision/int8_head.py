"""Where the error of an int8 head comes from: the embedding's eight bits, and the factors' seven.

    python -m edgeseg.bench.studies.precision.int8_head mvtec_ad/cable mvtec_ad/screw --out out

Each is rounded by itself as the export rounds it, on good images and planted defects, and compared
with the exact head on the same embedding. Rounding noise of variance v adds v |F|^2 to
every squared distance, so most of the error is one shift of all distances: ranks hardly move.
A run that was killed goes on; models are kept in OUT/models.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import click
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgeseg.bench.compare.options import BACKBONES
from edgeseg.bench.harness.accuracy import fingerprint
from edgeseg.bench.harness.machine import describe
from edgeseg.bench.harness.report import Report, write_report
from edgeseg.bench.harness.tabular import column, table_of
from edgeseg.bench.harness.units import Result, Store, Unit, run_units
from edgeseg.bench.studies.precision.asked import Asked, asked_options
from edgeseg.bench.studies.precision.kept_models import kept_fit
from edgeseg.config import FitConfig
from edgeseg.data.datasets import Dataset
from edgeseg.export.calibration_frames import calibration_frames, planted_copies
from edgeseg.export.precision.makers import Head, reach
from edgeseg.export.precision.tolerances import TOLERANCES, Tolerance
from edgeseg.fitting.feature_space import with_context
from edgeseg.model.reference import ReferenceModel
from edgeseg.options import note

SHIPPED = "embedding and factors, as shipped"
_FRAMES = 8  # good ones, and as many planted


@dataclass(frozen=True, kw_only=True)
class Row:
    """One kind of rounding; errors are shares of the exact map's range."""

    rounded: str
    mean: float
    largest: float
    shift: float


@dataclass(frozen=True, kw_only=True)
class MeanRow:
    """The same over all categories."""

    backbone: str = field(metadata=column("backbone"))
    rounded: str = field(metadata=column("rounded"))
    mean: float = field(metadata=column("mean error", digits=5, better="low"))
    worst: float = field(metadata=column("worst mean error", digits=5, better="low"))
    category: str = field(metadata=column("of"))
    largest: float = field(metadata=column("max error", digits=5))
    shift: float = field(metadata=column("of it a shift", digits=5, signed=True))


def factor_rounded(factor: Tensor, *, levels: int) -> Tensor:
    """Factors (B, k, r) in so many levels of each sign, a scale for each block and column."""
    column_scale = factor.abs().amax(dim=1, keepdim=True) / levels
    return (factor / column_scale.clamp_min(torch.finfo().tiny)).round() * column_scale


def embedding_rounded(model: ReferenceModel, grids: Tensor, *, reach_b: Tensor) -> Tensor:
    """Embeddings (N, k, h, w) in eight bits, a range of twice the reach for each block."""
    n, k = grids.shape[:2]
    cells = np.arange(model.windows.cells)
    of_block = model.windows.by_block(cells[None, :, None])  # (B, share^2, 1)
    step = torch.empty(model.windows.cells)
    for block, members in enumerate(of_block.reshape(len(of_block), -1)):
        step[members] = 2 * reach_b[min(block, len(reach_b) - 1)] / 127
    centred = grids.reshape(n, k, -1).mT - model.mean  # (N, P, k)
    rounded = (centred / step[:, None]).round().clamp(-128, 127) * step[:, None] + model.mean
    return rounded.mT.reshape(grids.shape)


@torch.no_grad()
def rows(
    model: ReferenceModel, images: NDArray[np.uint8], seen: NDArray[np.uint8]
) -> Iterator[Row]:
    """Every part of the head rounded by itself, then both; ranges are of the images `seen`."""
    grids = torch.cat([model.embed(torch.from_numpy(image[None])) for image in images])
    head = Head(model=model, embed=model.embeddings)
    reach_b = torch.from_numpy(np.atleast_1d(reach(head, seen)))
    rounded = embedding_rounded(model, grids, reach_b=reach_b)
    exact, factor = model.to_image(model.distances(grids))[0], model.factor.clone()
    span = float(exact.max() - exact.min())
    cases = {
        "factors, seven bits": (grids, factor_rounded(factor, levels=64)),
        "factors, eight bits": (grids, factor_rounded(factor, levels=127)),
        "factors, fp16": (grids, factor.half().float()),
        "embedding, eight bits": (rounded, factor),
        SHIPPED: (rounded, factor_rounded(factor, levels=64)),
    }
    for name, (embedded, used) in cases.items():
        model.factor.copy_(used)
        error = (model.to_image(model.distances(embedded))[0] - exact) / span
        yield Row(
            rounded=name,
            mean=float(error.abs().mean()),
            largest=float(error.abs().max()),
            shift=float(error.mean()),
        )
    model.factor.copy_(factor)


@dataclass(frozen=True, kw_only=True)
class Study:
    """Whose heads are rounded, and where the models are."""

    out: Path
    datasets: tuple[Dataset, ...]
    backbones: tuple[str, ...]
    config: FitConfig
    weights: str | None
    threads: int

    def units(self) -> Iterator[Unit]:
        """One a model."""
        for backbone in self.backbones:
            for dataset in self.datasets:
                yield self._unit(dataset, with_context(replace(self.config, backbone=backbone)))

    def _unit(self, dataset: Dataset, config: FitConfig) -> Unit:
        def run() -> Result:
            artefact = kept_fit(dataset, config, self.out / "models", weights=self.weights)
            seen = calibration_frames(dataset, config)
            planted = planted_copies(seen[:_FRAMES], seed=config.seed)
            images = np.concatenate([seen[:_FRAMES], planted])
            return {"rows": [asdict(row) for row in rows(artefact.model(), images, seen)]}

        settings = {"data": fingerprint(dataset), "config": config.to_dict()}
        return Unit(
            name=f"{dataset.name} {config.backbone}",
            settings=settings | {"weights": self.weights},
            run=run,
        )


def means(study: Study, results: dict[str, Result]) -> Iterator[MeanRow]:
    """Every kind of rounding of every backbone, over the categories."""
    for backbone in study.backbones:
        found = [
            [Row(**row) for row in results[f"{dataset.name} {backbone}"]["rows"]]
            for dataset in study.datasets
        ]
        for same in zip(*found, strict=True):
            worst = max(range(len(same)), key=lambda place: same[place].mean)
            yield MeanRow(
                backbone=backbone,
                rounded=same[0].rounded,
                mean=sum(row.mean for row in same) / len(same),
                worst=same[worst].mean,
                category=study.datasets[worst].name,
                largest=max(row.largest for row in same),
                shift=sum(row.shift for row in same) / len(same),
            )


def findings(found: Sequence[MeanRow]) -> Iterator[str]:
    """How far shipped heads are from exact ones, beside what an export allows."""
    limit = TOLERANCES["int8"].head_error
    for row in found:
        if row.rounded == SHIPPED:
            yield (
                f"{row.backbone}, {SHIPPED}: mean error {row.mean:.1e}, at worst {row.worst:.1e} "
                f"({row.category}); an export allows {limit:g}."
            )
    fine = Tolerance.head_error
    below = sorted({row.rounded for row in found} - {r.rounded for r in found if r.worst > fine})
    yield f"Within {fine:g}, which exact factors have to keep: {', '.join(below) or 'none'}."


def run_study(study: Study, *, fresh: bool) -> Report:
    """Measure, write the report and return it."""
    done = run_units(list(study.units()), Store(study.out, fresh=fresh), note=note)
    found = list(means(study, done.results))
    names = ", ".join(dataset.name for dataset in study.datasets)
    told = (
        f"Over {names}. Errors are shares of the exact map's range, of {_FRAMES} good images and "
        "as many with a planted defect; shift: the mean of the error with its sign."
    )
    facts = describe(threads=study.threads, seeds=(study.config.seed,))
    report = Report(
        name="int8 head",
        title="Where the error of an int8 head comes from",
        findings=tuple(findings(found)),
        tables=(table_of("The head rounded part by part", found, note=told),),
        figures=(),
        facts=facts | {"commits": list(done.commits), "work_seconds": done.seconds},
        raw=done.results,
    )
    write_report(report, study.out)
    return report


@click.command()
@asked_options()
@click.option("--backbone", "backbones", multiple=True, default=BACKBONES, show_default=True)
def main(asked: Asked, backbones: tuple[str, ...]) -> None:
    """Round the heads of models of the categories in DATA, part by part."""
    torch.set_num_threads(asked.threads)
    study = Study(
        out=asked.out,
        datasets=asked.datasets(),
        backbones=backbones,
        config=FitConfig(),
        weights=asked.weights,
        threads=asked.threads,
    )
    asked.show(run_study(study, fresh=asked.fresh))


if __name__ == "__main__":
    main()
