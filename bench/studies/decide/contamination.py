"""What defective images among the good ones cost, and what `edgeseg fit --robust drop` saves.

python -m edgeseg.bench.studies.decide.contamination DATA --category bottle --out contamination.json

Defective test images, chosen by a seed, are mixed into the training images until they are 5 or 10 %
of them. All that are ever mixed in leave the test set for every row, so that rows of a category
compare; those of 5 % are among those of 10 %.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import click
import numpy as np

from edgeseg.bench.harness.category_study import CategoryStudy, category_options
from edgeseg.bench.harness.tabular import Table, column, table_of
from edgeseg.config import FitConfig
from edgeseg.data.datasets import Dataset, Sample
from edgeseg.errors import DatasetError
from edgeseg.evaluation.evaluate import evaluate
from edgeseg.fitting.fitting import FitOptions, fit
from edgeseg.fitting.screening.screen import screen
from edgeseg.model.predictor import torch_predictor

SHARES = (0.0, 0.05, 0.10)


@dataclass(frozen=True, kw_only=True)
class Reached:
    """What one fit reached on the test set."""

    pro: float | None
    image_auroc: float | None
    recall: float | None  # defective images above the threshold
    false_alarms: int  # good images above it
    pro_05: float | None = None  # earlier runs had neither
    f1: float | None = None


@dataclass(frozen=True, kw_only=True)
class Row:
    """One share of defective images in training: fitted on all, and without the suspects."""

    category: str
    share: float
    images: int
    mixed_in: int
    test_good: int
    plain: Reached
    robust: Reached
    found: int  # suspects that were mixed in
    wrongly: int  # suspects that are good images


def mixed(dataset: Dataset, *, seed: int) -> Iterator[tuple[float, Dataset, frozenset[Path]]]:
    """Each share with its dataset and the images mixed in."""
    bad = [sample for sample in dataset.test if sample.label]
    order = np.random.default_rng(seed).permutation(len(bad))
    counts = [round(share / (1 - share) * len(dataset.train)) for share in SHARES]
    if counts[-1] >= len(bad):
        raise DatasetError(
            f"{dataset.root}: {len(bad)} defective test images, expected more than {counts[-1]} "
            f"to mix {SHARES[-1]:.0%} into training and keep some to test on"
        )
    chosen = [bad[index] for index in order[: counts[-1]]]
    test = tuple(sample for sample in dataset.test if sample not in chosen)
    for share, count in zip(SHARES, counts, strict=True):
        mixed_in = tuple(Sample(image=sample.image) for sample in chosen[:count])
        paths = frozenset(sample.image for sample in mixed_in)
        yield share, replace(dataset, train=dataset.train + mixed_in, test=test), paths


def reached(dataset: Dataset, config: FitConfig, options: FitOptions) -> Reached:
    """Fit, and measure on the test set."""
    artefact = fit(dataset, config, options)
    evaluation = evaluate(
        torch_predictor(artefact.model()),
        dataset,
        size_hw=config.size_hw,
        thresholds=artefact.calibration.thresholds,
    )
    return Reached(
        pro=evaluation.pro,
        image_auroc=evaluation.image_auroc,
        recall=evaluation.recall,
        false_alarms=evaluation.false_alarms,
        pro_05=evaluation.figures["pro_05"],
        f1=evaluation.f1,
    )


def rows(dataset: Dataset, config: FitConfig, options: FitOptions, *, seed: int) -> Iterator[Row]:
    """Every share of one category."""
    for share, spoilt, paths in mixed(dataset, seed=seed):
        screening = screen(spoilt, config, options)
        suspects = {suspect.sample.image for suspect in screening.suspects}
        plain = reached(spoilt, config, options)
        cleaned = screening.without_suspects(spoilt)
        yield Row(
            category=dataset.name,
            share=share,
            images=len(spoilt.train),
            mixed_in=len(paths),
            test_good=sum(1 - sample.label for sample in spoilt.test),
            plain=plain,
            robust=reached(cleaned, config, options) if suspects else plain,
            found=len(suspects & paths),
            wrongly=len(suspects - paths),
        )


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One figure of both fits."""

    plain: float | None = field(metadata=column("{}"))
    robust: float | None = field(metadata=column("{}, robust"))


@dataclass(frozen=True, kw_only=True)
class TableRow:
    """A row as people read it: plain beside robust."""

    category: str = field(metadata=column("category"))
    mixed_in: str = field(metadata=column("mixed in"))
    figures: dict[str, Pair]
    found: int = field(metadata=column("found"))
    wrongly: int = field(metadata=column("good images listed"))


def table(measured: list[Row]) -> Table:
    """Plain beside robust."""
    shown = [
        TableRow(
            category=row.category,
            mixed_in=f"{row.share:.0%}: {row.mixed_in} of {row.images}",
            figures={
                "PRO": Pair(plain=row.plain.pro, robust=row.robust.pro),
                "PRO 0.05": Pair(plain=row.plain.pro_05, robust=row.robust.pro_05),
                "image AUROC": Pair(plain=row.plain.image_auroc, robust=row.robust.image_auroc),
                "recall": Pair(plain=row.plain.recall, robust=row.robust.recall),
                "false alarms": Pair(plain=row.plain.false_alarms, robust=row.robust.false_alarms),
                "F1": Pair(plain=row.plain.f1, robust=row.robust.f1),
            },
            found=row.found,
            wrongly=row.wrongly,
        )
        for row in measured
    ]
    return table_of("Defective images in training", shown)


@click.command()
@category_options(backbone=FitConfig().backbone, seed_of="the images that are mixed in")
def main(study: CategoryStudy) -> None:
    """Measure fits on training images with defective ones among them, as MVTec AD lays them out."""
    options = FitOptions(weights=study.weights, keep_moments=False)
    measured: list[Row] = []
    for dataset in study.datasets():
        for row in rows(dataset, study.config, options, seed=study.seed):
            measured.append(row)
            click.echo(f"{row.category} {row.share:.0%}: done", err=True)
            study.keep(measured)
    click.echo(table(measured).markdown())
    study.tell()


if __name__ == "__main__":
    main()
