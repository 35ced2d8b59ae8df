"""Other rules for what is added to a covariance before it is inverted, beside the one that ships.

    python -m edgeseg.bench.studies.decide.shrinkage mvtec_ad more --out shrinkage

One fit a category gives the moments; every rule makes its own factors of them, and all see the same
embeddings of the test images. Each has a threshold of its own, by the folds of a fit. Two rows
score images by one Gaussian of the mean over all cells.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from numpy.typing import NDArray

from edgeseg.bench.harness.accuracy import (
    ACCURACY_COLUMNS,
    DECISION_COLUMNS,
    accuracy_of,
    categories_in,
    compared,
    decided,
    fingerprint,
    open_limited,
)
from edgeseg.bench.harness.machine import describe
from edgeseg.bench.harness.report import Report, write_report
from edgeseg.bench.harness.tabular import Table, column, table_of
from edgeseg.bench.harness.units import Result, Store, Unit, run_units
from edgeseg.config import FitConfig
from edgeseg.contract.operating_point import conformal_threshold
from edgeseg.data.datasets import Dataset
from edgeseg.data.samples import load_batches
from edgeseg.errors import DatasetError, EdgesegError
from edgeseg.fitting.feature_space import FeatureSpace
from edgeseg.fitting.fitting import FitOptions, fit_in
from edgeseg.fitting.held_out import permutation
from edgeseg.model.factors import make_factors, ridge_number, with_diagonal
from edgeseg.model.gaussian_head import GaussianHead
from edgeseg.model.moments import Floats, Moments
from edgeseg.options import FOLDER, SIZE, note

Rows = NDArray[np.float32]
Fold = tuple[list[int], Moments]  # places of its images, and the moments of all others
SHIPPED = "shipped"
_ALONE, _BOTH = "whole image alone", "shipped + whole image"
SHOWN = ("pro", "pro_05", "image_auroc", "f1", "recall", "false_alarm_rate")
_WHOLE_RIDGE = 0.3  # of the mean variance
_BATCH = 16


def covariances(moments: Moments) -> Floats:
    """(B, k, k)."""
    return moments.scatter / moments.count[:, None, None]


def _mean_variance(covariance: Floats) -> Floats:
    return np.asarray(covariance.diagonal(axis1=1, axis2=2).mean(axis=1))


def by_mean_square(share: float, moments: Moments) -> Floats:
    """As shipped, with another share of the features' mean square."""
    added = ridge_number(moments, ridge=share, unit="mean_square")
    return with_diagonal(covariances(moments), added)


def by_model_variance(share: float, moments: Moments) -> Floats:
    """A share of the mean variance over all locations."""
    covariance = covariances(moments)
    return with_diagonal(covariance, share * _mean_variance(covariance).mean())


def by_own_variance(share: float, moments: Moments) -> Floats:
    """A share of each location's own mean variance."""
    covariance = covariances(moments)
    return with_diagonal(covariance, share * _mean_variance(covariance))


def oas(moments: Moments) -> Floats:
    """Oracle approximating shrinkage (Chen et al. 2010) of each location to its mean variance."""
    covariance, n = covariances(moments), moments.count
    k = covariance.shape[1]
    square, mean = np.square(covariance).mean(axis=(1, 2)), _mean_variance(covariance)
    top = square + np.square(mean)
    bottom = (n + 1) * (square - np.square(mean) / k)
    weight = np.where(bottom > 0, np.minimum(top / np.where(bottom > 0, bottom, 1), 1), 1)
    return with_diagonal(covariance * (1 - weight)[:, None, None], weight * mean)


RULES: dict[str, Callable[[Moments], Floats]] = {
    SHIPPED: partial(by_mean_square, FitConfig().ridge),
    "0.03 x mean square": partial(by_mean_square, 0.03),
    "0.3 x mean square": partial(by_mean_square, 0.3),
    "1 x mean square": partial(by_mean_square, 1.0),
    "0.3 x mean variance": partial(by_model_variance, 0.3),
    "0.3 x own variance": partial(by_own_variance, 0.3),
    "1 x own variance": partial(by_own_variance, 1.0),
    "OAS": oas,
}


def head_of(config: FitConfig, pooled: Moments, rule: Callable[[Moments], Floats]) -> GaussianHead:
    """What judges by the covariances that a rule gives."""
    scatter = rule(pooled) * pooled.count[:, None, None]
    changed = Moments(count=pooled.count, mean=pooled.mean, scatter=scatter)
    factors = make_factors(changed, ridge=0.0, rank=config.rank, directions=config.directions)
    return GaussianHead(config, factors)


class WholeImage:
    """One Gaussian of the mean embedding of good images."""

    def __init__(self, good_nk: Rows) -> None:
        self.mean = good_nk.mean(axis=0)
        covariance = np.cov(good_nk.T, bias=True)
        ridge = _WHOLE_RIDGE * covariance.diagonal().mean()
        self.precision = np.linalg.inv(with_diagonal(covariance[None], ridge)[0])

    def distance(self, rows_nk: Rows) -> Floats:
        """Of each image."""
        away = rows_nk - self.mean
        return np.asarray(np.sqrt(np.einsum("nk,kl,nl->n", away, self.precision, away)))


class Trial:
    """One category: embeddings of its images, the moments, and what each rule makes of them."""

    def __init__(self, dataset: Dataset, config: FitConfig, weights: str | None) -> None:
        options = FitOptions(weights=weights, keep_moments=True, planted=0)
        space = FeatureSpace.load(config, weights=weights, note=note)
        self.artefact = fit_in(space, dataset, options)
        if self.artefact.moments is None:
            raise DatasetError(f"{dataset.name}: a fit without moments")
        self.dataset, self.config = dataset, self.artefact.config
        self.space = FeatureSpace.of(self.artefact)
        self.pooled = space.windows.pooled(self.artefact.moments)
        self._embed = self.space.embedder()
        self.good = np.concatenate([rows for _, rows in self._batches(dataset.train)])

    def results(self) -> Result:
        """Figures by the name of a rule."""
        batches = list(self._batches(self.dataset.test))
        truth = (
            [mask for batch, _ in batches for mask in batch.masks],
            [sample.label for batch, _ in batches for sample in batch.samples],
        )
        rows = [embedded for _, embedded in batches]
        folds, results = list(self.folds()), {}
        for name, rule in RULES.items():
            head = head_of(self.config, self.pooled, rule)
            maps, scores = zip(*(head.judge(each) for each in rows), strict=True)
            judged = np.concatenate(maps), np.concatenate(scores)
            unseen = self.unseen(rule, folds)
            results[name] = self._figures(judged[0], judged[1], unseen, *truth)
            if name == SHIPPED:
                (shipped_maps, shipped), shipped_unseen = judged, unseen
        good, test = (_whole(each) for each in (self.good, np.concatenate(rows)))
        away, away_unseen = WholeImage(good).distance(test), _whole_unseen(good, folds)
        both, both_unseen = (
            a / shipped.mean() + b / away.mean()
            for a, b in ((shipped, away), (shipped_unseen, away_unseen))
        )
        results[_ALONE] = self._figures(shipped_maps, away, away_unseen, *truth)
        results[_BOTH] = self._figures(shipped_maps, both, both_unseen, *truth)
        return results

    def folds(self) -> Iterator[Fold]:
        """As a fit has them: which images, and the moments of all others."""
        windows, count = self.space.windows, len(self.good)
        order, folds = permutation(count, self.config.seed), min(self.config.folds, count)
        for fold in range(folds):
            members = sorted(order[fold::folds])
            own = windows.new_moments(self.space.k)
            windows.add_(own, self.good[members], images=len(members))
            yield members, self.pooled.remove(windows.pooled(own))

    def unseen(self, rule: Callable[[Moments], Floats], folds: Sequence[Fold]) -> Floats:
        """The score of each good image by the model without its fold."""
        scores = np.zeros(len(self.good))
        for members, rest in folds:
            scores[members] = head_of(self.config, rest, rule).judge(self.good[members])[1]
        return scores

    def _figures(
        self, maps: Rows, scores: Any, unseen: Floats, masks: Any, labels: list[int]
    ) -> Result:
        rate = self.config.false_alarm_rate
        chosen = conformal_threshold(unseen.tolist(), false_alarm_rate=rate)
        found = accuracy_of(
            maps,
            masks,
            list(map(float, scores)),
            labels,
            name=self.dataset.name,
            threshold=chosen.value,
        )
        return {key: found.figures[key] for key in SHOWN}

    def _batches(self, samples: Sequence[Any]) -> Any:
        for batch in load_batches(samples, size_hw=self.config.size_hw, batch_size=_BATCH):
            yield batch, self.space.inputs(self._embed(batch.frames))


def _whole(rows_nkhw: Rows) -> Rows:
    return np.asarray(rows_nkhw.mean(axis=(2, 3)))


def _whole_unseen(good_nk: Rows, folds: Sequence[Fold]) -> Floats:
    """As Trial.unseen, by the Gaussian of whole images."""
    scores = np.zeros(len(good_nk))
    for members, _ in folds:
        others = np.delete(good_nk, members, axis=0)
        scores[members] = WholeImage(others).distance(good_nk[members])
    return scores


def tried(dataset: Dataset, config: FitConfig, weights: str | None) -> Result:
    """The result of one category."""
    return Trial(dataset, config, weights).results()


@dataclass(frozen=True, kw_only=True)
class Row:
    """A rule as people read it."""

    rule: str = field(metadata=column("rule"))
    accuracy: dict[str, float | None] = field(metadata=ACCURACY_COLUMNS)
    decided: dict[str, float | None] = field(metadata=DECISION_COLUMNS)
    by_category: dict[str, str] = field(metadata=column("{}"))


def table(results: dict[str, Result], categories: Sequence[str]) -> Table:
    """Means over categories, and each of them as PRO / image AUROC."""
    rows = []
    for rule in (*RULES, _ALONE, _BOTH):
        found = {name: results[name][rule] for name in categories}
        means = {key: float(np.mean([each[key] for each in found.values()])) for key in SHOWN}
        cells = {
            name: f"{each['pro']:.3f} / {each['image_auroc']:.3f}" for name, each in found.items()
        }
        rows.append(
            Row(rule=rule, accuracy=compared(means), decided=decided(means), by_category=cells)
        )
    return table_of(
        "Rules side by side",
        rows,
        note="Means over categories; F1, recall and false alarms at the threshold that a fit with "
        "this rule would ship. Single categories: PRO / image AUROC.",
    )


@click.command()
@click.argument("data", type=FOLDER, nargs=-1, required=True)
@click.option("--backbone", default=FitConfig.backbone, show_default=True)
@click.option("--size", type=SIZE, default="256x256", show_default=True)
@click.option("--weights", help="Backbone weights; found as in `edgeseg fit` when absent.")
@click.option("--limit", type=click.IntRange(2), help="Images of each kind, for a rehearsal.")
@click.option("--out", type=FOLDER, required=True, help="Folder of the report and its units.")
def main(
    data: tuple[Path, ...],
    backbone: str,
    size: tuple[int, int],
    weights: str | None,
    limit: int | None,
    out: Path,
) -> None:
    """Compare rules on every category of folders laid out as MVTec AD."""
    config = FitConfig().with_options({"backbone": backbone, "size_hw": size})
    try:
        folders = [path for root in data for path in categories_in(root)]
        datasets = [open_limited(path, limit=limit) for path in folders]
        units = [
            Unit(
                name=dataset.name,
                settings={"config": config.to_dict(), "data": fingerprint(dataset)}
                | {"rules": list(RULES), "figures": list(SHOWN), "weights": weights},
                run=partial(tried, dataset, config, weights),
            )
            for dataset in datasets
        ]
        done = run_units(units, Store(out), note=note)
    except EdgesegError as error:
        raise click.ClickException(str(error)) from None
    report = Report(
        name="shrinkage",
        title="What is added to a covariance",
        findings=(),
        tables=(table(done.results, [dataset.name for dataset in datasets]),),
        figures=(),
        facts=describe(threads=torch.get_num_threads(), seeds=(config.seed,)),
        raw=done.results,
    )
    write_report(report, out)
    click.echo(report.tables[0].markdown())
    click.echo(f"wrote {out / 'report.md'}", err=True)


if __name__ == "__main__":
    main()
