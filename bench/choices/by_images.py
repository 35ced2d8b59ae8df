"""Recall by the number of good images: what a fit on few of them finds, and how often it alarms.

python -m edgeseg.bench.choices.by_images mvtec_ad more surfaces --images 10 --images 40 --out few

Each draw is a fit on that many images, taken at random from the training images of a category, and
judged on all of its test images: as it ships, and at the threshold by ranks of the same scores. A
run that was killed goes on where it was.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import click
import numpy as np
import torch
from numpy.typing import NDArray

from edgeseg.base.errors import EdgesegError
from edgeseg.base.options import FOLDER, note
from edgeseg.bench.choices.threshold_rules import RANKS, TAIL, ThresholdRule
from edgeseg.bench.choices.trial import FeatureMemory, TrialResult, at_threshold, try_setting
from edgeseg.bench.harness.accuracy import categories_in, fingerprint, open_limited
from edgeseg.bench.harness.machine import describe
from edgeseg.bench.harness.report import Report, write_report
from edgeseg.bench.harness.sampling import RESAMPLES
from edgeseg.bench.harness.tabular import column, table_of
from edgeseg.bench.harness.units import FAILED, Result, Store, Unit, run_units
from edgeseg.config import FitConfig
from edgeseg.data.datasets import Dataset
from edgeseg.fitting.fitting import FitOptions

COUNTS = (5, 10, 20, 40, 50, 80, 100)
ALL = "all"


@dataclass(frozen=True, kw_only=True)
class Draw:
    """One fit on some images of a category."""

    category: str
    images: int | None  # None: all
    number: int

    @property
    def name(self) -> str:
        """Name of its unit."""
        return f"{self.category} {self.images or ALL} images draw {self.number}"

    @classmethod
    def parse(cls, name: str) -> "Draw":
        """Read the name of a unit."""
        category, images, _, _, number = name.rsplit(" ", 4)
        count = None if images == ALL else int(images)
        return cls(category=category, images=count, number=int(number))


@dataclass(frozen=True, kw_only=True)
class ImagesRow:
    """What fits on so many images do, by one rule for the threshold."""

    images: str = field(metadata=column("good images"))
    rule: str = field(metadata=column("threshold by"))
    stated: float = field(metadata=column("promised"))
    image_auroc: float = field(metadata=column("image AUROC"))
    recall: float = field(metadata=column("recall"))
    recall_low: float = field(metadata=column("recall, from"))
    recall_high: float = field(metadata=column("to"))
    flagged: float = field(metadata=column("good flagged"))
    flagged_low: float = field(metadata=column("flagged, from"))
    flagged_high: float = field(metadata=column("up to"))
    categories: int = field(metadata=column("categories"))
    fits: int = field(metadata=column("fits"))


def subset(dataset: Dataset, draw: Draw) -> Dataset:
    """Return the dataset with the images of a draw to fit on."""
    if draw.images is None:
        return dataset
    order = np.random.default_rng([draw.number, draw.images]).permutation(len(dataset.train))
    places = sorted(order[: draw.images].tolist())
    return replace(dataset, train=tuple(dataset.train[place] for place in places))


def units(
    datasets: Sequence[Dataset], draws: Mapping[Draw, Dataset], options: FitOptions
) -> Iterator[Unit]:
    """List one unit for each fit; those of a category share the features of its images."""
    config = FitConfig()
    for dataset in datasets:
        memory, data = FeatureMemory(), fingerprint(dataset)
        for draw, some in draws.items():
            if draw.category == dataset.name:
                yield Unit(
                    name=draw.name,
                    settings={
                        "config": config.to_dict(),
                        "data": data,
                        "images": draw.images,
                        "draw": draw.number,
                        "planted": options.planted,
                        "weights": options.weights,
                    },
                    run=partial(_run, some, config, memory, options),
                )


def _run(dataset: Dataset, config: FitConfig, memory: FeatureMemory, options: FitOptions) -> Result:
    try:
        return try_setting(dataset, config, memory=memory, options=options).to_dict()
    except EdgesegError as error:
        return {FAILED: str(error)}


def kept_results(raw: Mapping[str, Result]) -> dict[Draw, TrialResult]:
    """Read what a run kept of its fits; those that failed are left out."""
    return {
        Draw.parse(name): TrialResult.from_dict(result)
        for name, result in raw.items()
        if FAILED not in result
    }


def rows(
    results: Mapping[Draw, TrialResult],
    rules: Sequence[ThresholdRule] = (TAIL, RANKS),
    *,
    seed: int = 0,
) -> Iterator[ImagesRow]:
    """Make a row for each number of images and rule: means over categories, with intervals.

    Draws of a category are averaged, and categories are resampled: another product differs more
    from these than another draw of the same images.
    """
    counts = sorted({draw.images or math.inf for draw in results})
    for count in counts:
        some = {
            draw: tried for draw, tried in results.items() if (draw.images or math.inf) == count
        }
        categories = len({draw.category for draw in some})
        chosen = np.random.default_rng(seed).integers(categories, size=(RESAMPLES, categories))
        for rule in rules:
            table = _by_category(some, rule)
            mean = table.mean(axis=0)
            low, high = np.percentile(table[chosen].mean(axis=1), [2.5, 97.5], axis=0)
            yield ImagesRow(
                images=ALL if math.isinf(count) else f"{count:.0f}",
                rule=rule.name,
                stated=float(mean[0]),
                image_auroc=float(mean[1]),
                recall=float(mean[2]),
                recall_low=float(low[2]),
                recall_high=float(high[2]),
                flagged=float(mean[3]),
                flagged_low=float(low[3]),
                flagged_high=float(high[3]),
                categories=categories,
                fits=len(some),
            )


def _by_category(results: Mapping[Draw, TrialResult], rule: ThresholdRule) -> NDArray[np.float64]:
    """Return the means over the draws of each category, (categories, 4)."""
    figures: dict[str, list[tuple[float, float, float, float]]] = {}
    for draw, tried in results.items():
        figures.setdefault(draw.category, []).append(_figures(tried, rule))
    return np.array([np.mean(figures[category], axis=0) for category in sorted(figures)])


def _figures(tried: TrialResult, rule: ThresholdRule) -> tuple[float, float, float, float]:
    """Return the promised rate, image AUROC, recall and the share of good images flagged."""
    asked, good = rule.wish(tried.rate), np.array(tried.good, np.float32).tolist()
    point = at_threshold(tried, rule.value(good, asked))
    auroc = tried.figures["image_auroc"]
    stated = max(asked, 1 / (len(good) + 1))
    return stated, math.nan if auroc is None else auroc, point.recall, point.flagged / point.good


@click.command()
@click.argument("data", type=FOLDER, nargs=-1, required=True)
@click.option("--images", "counts", type=int, multiple=True, default=COUNTS, show_default=True)
@click.option("--draws", type=click.IntRange(1), default=3, show_default=True)
@click.option("--weights", help="Backbone weights; found as in `edgeseg fit` when absent.")
@click.option("--category", "only", multiple=True, help="These alone; all by default.")
@click.option("--out", type=FOLDER, required=True, help="Folder of the report and its units.")
@click.option("--fresh", is_flag=True, help="Forget earlier results.")
def main(
    data: tuple[Path, ...],
    counts: tuple[int, ...],
    draws: int,
    weights: str | None,
    only: tuple[str, ...],
    out: Path,
    fresh: bool,
) -> None:
    """Fit on few images of every category of folders laid out as MVTec AD."""
    try:
        folders = [path for root in data for path in categories_in(root)]
        opened = [open_limited(path, limit=None) for path in folders]
        datasets = [each for each in opened if not only or each.name in only]
        drawn = {
            draw: subset(dataset, draw)
            for dataset in datasets
            for draw in _draws(dataset, counts, draws)
        }
        options = FitOptions(weights=weights, keep_moments=False, planted=0)
        done = run_units(list(units(datasets, drawn, options)), Store(out, fresh=fresh), note=note)
    except EdgesegError as error:
        raise click.ClickException(str(error)) from None
    failed = {name: each[FAILED] for name, each in done.results.items() if FAILED in each}
    table = table_of(
        "Recall by the number of good images",
        list(rows(kept_results(done.results))),
        note="Means over categories that have so many images, with 95 % intervals over categories.",
    )
    report = Report(
        name="by_images",
        title="Recall by the number of good images",
        findings=(),
        tables=(table,),
        figures=(),
        facts=describe(threads=torch.get_num_threads(), seeds=(0,))
        | {"commits": list(done.commits), "work_seconds": done.seconds},
        notes=tuple(f"{name} failed: {reason}" for name, reason in failed.items()),
        raw=done.results,
    )
    write_report(report, out)
    click.echo(table.markdown())
    click.echo(f"wrote {out / 'report.md'}", err=True)


def _draws(dataset: Dataset, counts: Sequence[int], number: int) -> Iterator[Draw]:
    """List the draws of a category: those it has images for, and one of all."""
    for count in counts:
        if count < len(dataset.train):
            for draw in range(number):
                yield Draw(category=dataset.name, images=count, number=draw)
    yield Draw(category=dataset.name, images=None, number=0)


if __name__ == "__main__":
    main()
