"""Factors and thresholds anew, for a model whose moments have changed."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import torch

from edgeseg.artefact.artefact import Artefact
from edgeseg.data.datasets import Dataset
from edgeseg.errors import ArtefactError
from edgeseg.evaluation.threshold import GoodImages, calibrate
from edgeseg.fitting.embedding_store import EmbeddingSpool
from edgeseg.fitting.feature_space import CPU, Network
from edgeseg.fitting.fitting import needed_images, share_facts, versions, warn_about
from edgeseg.fitting.held_out import Judge
from edgeseg.fitting.image_pass import Gathered, gather
from edgeseg.fitting.options import FitOptions, Shard
from edgeseg.model.moments import Moments


@torch.no_grad()
def refreshed(
    changed: Artefact,
    earlier: Sequence[Artefact],
    *,
    seen: Gathered | None,
    apart: Dataset | None,
    options: FitOptions,
) -> Artefact:
    """Factors and thresholds for new moments, from the best good images there are.

    Images kept apart; else new ones, each judged by the model without its fold; else, or where
    these are too few for the false-alarm rate, with the scores of the earlier models.
    """
    network, moments = Network.of(changed), moments_of(changed, "this model")
    judge = Judge(network=network, batch_size=options.batch_size, progress=options.progress)
    pooled = network.pool(moments)
    factors = network.factors(pooled)
    model = network.model(factors)
    if apart is not None:
        with ExitStack() as stack:
            kept = gathered(stack, network, apart, options, fitted=False)
            good, how = judge.by_one(model, kept.unseen), "split-conformal"
    else:
        new = seen.seen if seen is not None else None
        good, how = _from_new_and_earlier(judge, pooled, new, earlier)
        if "earlier" in how:
            options.note(
                "the threshold rests on scores that an earlier model gave; "
                "--calibrate FOLDER takes it from good images kept apart"
            )
    # Without images nothing can be measured: what the earlier models measured is the next best.
    measured = float(np.mean([one.calibration.measured_d2 for one in earlier]))
    calibration = calibrate(
        good,
        false_alarm_rate=network.config.false_alarm_rate,
        how=how,
        expected_d2=network.expected_d2(factors, moments),
        measured_d2=measured if seen is None else judge.measured_d2(model, seen.seen),
    )
    warn_about(calibration, options)
    if any(one.accuracy for one in earlier):
        options.note("stored figures of accuracy were of an earlier model and are dropped")
    return replace(
        changed, factors=factors, calibration=calibration, accuracy=[], versions=versions()
    )


def _from_new_and_earlier(
    judge: Judge, pooled: Moments, new: EmbeddingSpool | None, earlier: Sequence[Artefact]
) -> tuple[GoodImages, str]:
    scores = [one.calibration.good for one in earlier]
    how = "scores of the earlier model" + "s" * (len(scores) > 1)
    if new is None:
        return joined_scores(scores), how
    config = judge.network.config
    folds = min(config.folds, len(new))
    fresh = judge.by_the_others(pooled, new, folds=folds, seed=config.seed)
    on_new = f"cross-conformal on {fresh.count} new images"
    if fresh.count >= needed_images(config.false_alarm_rate):
        return fresh, on_new
    return joined_scores([fresh, *scores]), f"{on_new} and {how}"


def joined_scores(parts: Sequence[GoodImages]) -> GoodImages:
    """Verdicts on several sets of images, as if on one."""
    weight = np.array([part.count for part in parts], np.float64)
    weight /= weight.sum()
    mean = np.stack([part.d2_mean for part in parts]).astype(np.float64)  # (sets, h, w)
    square = np.stack([part.d2_std for part in parts]).astype(np.float64) ** 2 + mean**2
    whole, whole_square = (np.einsum("p,phw->hw", weight, values) for values in (mean, square))
    return GoodImages(
        scores=np.concatenate([part.scores for part in parts]),
        peaks=np.concatenate([part.peaks for part in parts]),
        frame_d2=np.concatenate([part.frame_d2 for part in parts]),
        d2_mean=whole.astype(np.float32),
        d2_std=np.sqrt(np.clip(whole_square - whole**2, 0, None)).astype(np.float32),
    )


def moments_of(artefact: Artefact, name: str) -> Moments:
    """The sums behind a model, which --no-moments leaves out."""
    if artefact.moments is None:
        raise ArtefactError(
            f"{name} was saved without its moments and cannot change; run "
            "`edgeseg fit DATA --out MODEL` again without --no-moments"
        )
    return artefact.moments


def gathered(
    stack: ExitStack,
    network: Network,
    dataset: Dataset,
    options: FitOptions,
    *,
    fitted: bool = True,
) -> Gathered:
    """Sweep over a folder of images: into moments and spool, or only judged."""
    samples = dataset.train
    sweep = gather(
        network,
        samples if fitted else (),
        () if fitted else samples,
        shard=Shard(),
        options=options,
    )
    found = stack.enter_context(sweep)
    share_facts(found, options)
    found.moments = found.moments.to(CPU)
    return found
