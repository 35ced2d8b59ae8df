"""Good images to an artefact: one pass through the backbone, then linear algebra."""

import platform
from collections.abc import Sequence

import numpy as np
import torch
import torchvision

from edgeseg import __version__
from edgeseg.artefact.artefact import Artefact
from edgeseg.artefact.history import Origin, entry
from edgeseg.config import FitConfig
from edgeseg.data.datasets import Dataset, Sample, load_batches
from edgeseg.errors import DatasetError, EdgesegError
from edgeseg.evaluation.evaluate import frame_predictor, torch_predictor
from edgeseg.evaluation.threshold import Calibration, GoodImages, calibrate
from edgeseg.fitting.feature_space import CPU, Network
from edgeseg.fitting.held_out import Judge
from edgeseg.fitting.image_pass import Gathered, gather, split
from edgeseg.fitting.options import FitOptions, Shard
from edgeseg.fitting.parallel.group import sum_moments_
from edgeseg.model.moments import Moments
from edgeseg.model.reference import Model

__all__ = ["FitOptions", "finish", "fit"]


def fit(dataset: Dataset, config: FitConfig, options: FitOptions | None = None) -> Artefact:
    """Fit the Gaussian of every location on the good images of a dataset.

    With a group of processes each sweeps over its share, and all return the same artefact.
    """
    options = options or FitOptions()
    network = Network.load(config, weights=options.weights, note=options.note)
    train, held_out = split(dataset, config)
    options.note(f"fitting on {len(train)} good images of {dataset.name}")
    shard = Shard(index=options.group.rank, count=options.group.size)
    with gather(network, train, held_out, shard=shard, options=options) as found:
        share_facts(found, options)
        found.moments = sum_moments_(found.moments, options.group).to(CPU)
        origin = Origin(name=dataset.name, layout=dataset.layout, held_out=len(held_out))
        return finish(network, found, origin=origin, options=options)


def share_facts(found: Gathered, options: FitOptions) -> None:
    """Every process learns what all of them skipped."""
    used = found.moments.images + len(found.unseen)
    parts = options.group.gather((found.bad, found.newest, used))
    found.bad = set().union(*(bad for bad, _, _ in parts))
    found.newest = max(newest for _, newest, _ in parts)
    if len(found.bad) > options.max_bad:
        raise DatasetError(
            f"{len(found.bad)} pictures cannot be read and --max-bad allows {options.max_bad}: "
            "repair them or allow more"
        )
    if found.bad and not any(used for _, _, used in parts):
        raise DatasetError(
            f"none of the {len(found.bad)} pictures can be read, {min(found.bad)} the first"
        )


@torch.no_grad()
def finish(network: Network, found: Gathered, *, origin: Origin, options: FitOptions) -> Artefact:
    """Moments of all images and spools of some to factors, thresholds and the artefact."""
    group, moments = options.group, found.moments
    judge = Judge(
        network=network, group=group, batch_size=options.batch_size, progress=options.progress
    )
    pooled = network.pool(moments)
    factors = network.factors(pooled, group)
    model = network.model(factors)
    expected = network.expected_d2(factors, moments, group)
    measured = judge.measured_d2(model, found.seen)
    seen, unseen = (sum(group.gather(len(spool))) for spool in (found.seen, found.unseen))
    _check_d2(expected, measured, whole=seen == moments.images)
    good, how = _good_images(judge, model, pooled, found, counts=(seen, unseen))
    calibration = calibrate(
        good,
        false_alarm_rate=network.config.false_alarm_rate,
        how=how,
        expected_d2=expected,
        measured_d2=measured,
        unseen=seen + unseen > 1,
        anomaly_scores=_anomaly_scores(model, network.config, options),
    )
    warn_about(calibration, options)
    return Artefact(
        config=network.config,
        backbone=network.backbone,
        origin=network.origin,
        embedding=network.embedding,
        factors=factors,
        moments=moments if options.keep_moments else None,
        calibration=calibration,
        data=origin.facts(images=moments.images, bad=found.bad),
        versions=versions(),
        history=[entry("fit", images=moments.images, source=origin.name, newest=found.newest)],
    )


def _good_images(
    judge: Judge, model: Model, pooled: Moments, found: Gathered, *, counts: tuple[int, int]
) -> tuple[GoodImages, str]:
    seen, unseen = counts
    config = judge.network.config
    if unseen:
        return judge.by_one(model, found.unseen), "split-conformal"
    folds = min(config.folds, seen)
    if folds < 2:
        alone = "the fitted image itself (no other was given)"
        return judge.by_one(model, found.seen), alone
    good = judge.by_the_others(pooled, found.seen, folds=folds, seed=config.seed)
    return good, f"cross-conformal, {folds} folds"


def _check_d2(expected: float, measured: float, *, whole: bool) -> None:
    # Two ways to the same number: the moments in float64, the images through the model in
    # float32. They part only if the numerics failed.
    if whole and abs(measured - expected) > 0.01 * max(expected, 1e-3):
        raise EdgesegError(
            f"the fit is numerically unsound: mean d^2 is {measured:.4g} on the fitted images, "
            f"expected {expected:.4g} from their moments; try a larger --ridge"
        )


def _anomaly_scores(model: Model, config: FitConfig, options: FitOptions) -> list[float]:
    mine: Sequence[Sample] = options.anomalies[options.group.rank :: options.group.size]
    size = options.for_images(config.image_hw).batch_size
    batches = load_batches(mine, size_hw=config.image_hw, batch_size=size, max_bad=options.max_bad)
    predict = frame_predictor(torch_predictor(model), config)
    scores: list[float] = []
    for batch in options.progress(batches, length=-(-len(mine) // size), label="Scoring anomalies"):
        scores += predict(batch.frames)[1].tolist()
    return [score for part in options.group.gather(scores) for score in part]


def warn_about(calibration: Calibration, options: FitOptions) -> None:
    """Say so if there were too few good images for the rate that was asked for."""
    wish, answer = calibration.requested_rate, calibration.answered_rate
    if answer > wish and not options.anomalies:
        options.note(
            f"{calibration.good.count} good images answer for a false-alarm rate of "
            f"{answer:.1%}, not {wish:.1%}; {needed_images(wish)} would do"
        )


def needed_images(rate: float) -> int:
    """How many good images can answer for a false-alarm rate."""
    return int(np.ceil(1 / rate - 1))


def versions() -> dict[str, str]:
    """What made the artefact."""
    return {
        "edgeseg": __version__,
        "torch": torch.__version__,
        "torchvision": torchvision.__version__,
        "python": platform.python_version(),
    }
