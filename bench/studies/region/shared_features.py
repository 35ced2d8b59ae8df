"""Several settings fitted and evaluated on one pass of the images through the backbone."""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from edgeseg.artefact.artefact import Artefact
from edgeseg.config import FitConfig
from edgeseg.data.datasets import Dataset
from edgeseg.errors import UsageError
from edgeseg.evaluation.evaluate import Evaluation, evaluate
from edgeseg.fitting.checkpoint import Collected
from edgeseg.fitting.feature_space import FeatureSpace
from edgeseg.fitting.fitting import FitOptions, finish, fitted_data
from edgeseg.fitting.image_pass import collect, split
from edgeseg.fitting.options import Shard
from edgeseg.fitting.pooling import resolved_pool
from edgeseg.fitting.spaces import settle_geometry
from edgeseg.model.gaussian_head import GaussianHead, Insides, Maps
from edgeseg.model.predictor import Embedder, Predictor


def evaluated(
    dataset: Dataset, configs: Mapping[str, FitConfig], options: FitOptions
) -> Iterator[tuple[str, Artefact, Evaluation]]:
    """Fit and evaluate settings that differ in nothing before the moments, as `fit` does."""
    first = settle_geometry(next(iter(configs.values())), dataset, note=options.note)
    space = FeatureSpace.load(first, weights=options.weights, note=options.note)
    embed = _remembering(space.embedder())  # the test images
    done: dict[int, tuple[Artefact, Evaluation]] = {}
    with _collected(space, dataset, options) as collected:
        for name, config in configs.items():
            if replace(config, pool=first.pool, geometry=first.geometry) != first:
                raise UsageError(f"{name}: expected settings that differ in their pool alone")
            asked = replace(space, config=replace(space.config, pool=config.pool))
            chosen = resolved_pool(
                asked, collected.moments, collected.seen, alone=True, note=options.note
            )
            pool = chosen.config.pool
            if pool not in done:
                data = fitted_data(dataset, held_out=0)
                artefact = finish(chosen, collected, data=data, options=options)
                done[pool] = artefact, _evaluation(artefact, dataset, embed)
            yield name, *done[pool]


@contextmanager
def _collected(space: FeatureSpace, dataset: Dataset, options: FitOptions) -> Iterator[Collected]:
    train, held_out = split(dataset, space.config, options.group_by)
    shard = Shard(index=0, count=1)
    with collect(space, train, held_out, shard=shard, options=options) as collected:
        yield collected


def _evaluation(artefact: Artefact, dataset: Dataset, embed: Embedder) -> Evaluation:
    config, calibration = artefact.config, artefact.calibration
    return evaluate(
        _predictor(GaussianHead(config, artefact.factors), embed),
        dataset,
        size_hw=config.image_hw,
        geometry=config.geometry,
        grid_hw=config.grid_hw,
        thresholds=calibration.thresholds,
    )


def _predictor(head: GaussianHead, embed: Embedder) -> Predictor:
    def predict(frames: NDArray[np.uint8], insides: Insides = ()) -> tuple[Maps, Maps]:
        return head.judge(embed(frames), insides)

    return predict


def _remembering(embed: Embedder) -> Embedder:
    """The same, asked once for every batch: evaluations show the same ones in turn."""
    known: dict[bytes, NDArray[np.float32]] = {}

    def ask(frames: NDArray[np.uint8]) -> NDArray[np.float32]:
        key = hashlib.sha256(frames.tobytes()).digest()
        if key not in known:
            known[key] = embed(frames)
        return known[key]

    return ask
