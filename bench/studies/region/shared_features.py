"""Several settings fitted and evaluated on one pass of the images through the backbone."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgeseg.artefact.artefact import Artefact
from edgeseg.config import FitConfig
from edgeseg.data.camera import looked_at
from edgeseg.data.datasets import Dataset
from edgeseg.errors import UsageError
from edgeseg.evaluation.evaluate import Evaluation, evaluate
from edgeseg.fitting.checkpoint import Collected
from edgeseg.fitting.feature_space import CPU, FeatureSpace
from edgeseg.fitting.fitting import FitOptions, finish, fitted_data
from edgeseg.fitting.image_pass import collect, split
from edgeseg.fitting.options import Shard
from edgeseg.model.predictor import Maps, Predictor
from edgeseg.model.reference import Insides, ReferenceModel


def evaluated(
    dataset: Dataset, configs: Mapping[str, FitConfig], options: FitOptions
) -> Iterator[tuple[str, Artefact, Evaluation]]:
    """Fit and evaluate settings that differ in nothing before the moments, as `fit` does."""
    first = looked_at(next(iter(configs.values())), dataset, note=options.note)
    space = FeatureSpace.load(first, weights=options.weights, note=options.note)
    embedded: list[Tensor] = []  # of the test images, batch by batch
    done: dict[int, tuple[Artefact, Evaluation]] = {}
    with _collected(space, dataset, options) as collected:
        for name, config in configs.items():
            if replace(config, pool=first.pool, geometry=first.geometry) != first:
                raise UsageError(f"{name}: expected settings that differ in their pool alone")
            chosen = replace(space, config=replace(first, pool=config.pool))
            data = fitted_data(dataset, held_out=0)
            artefact = finish(chosen, collected, data=data, options=options)
            pool = artefact.config.pool
            if pool not in done:
                done[pool] = artefact, _evaluation(artefact, dataset, embedded)
            yield name, *done[pool]


@contextmanager
def _collected(space: FeatureSpace, dataset: Dataset, options: FitOptions) -> Iterator[Collected]:
    train, held_out = split(dataset, space.config)
    shard = Shard(index=0, count=1)
    with collect(space, train, held_out, shard=shard, options=options) as collected:
        collected.moments = collected.moments.to(CPU)
        yield collected


def _evaluation(artefact: Artefact, dataset: Dataset, embedded: list[Tensor]) -> Evaluation:
    config, calibration = artefact.config, artefact.calibration
    return evaluate(
        _remembering(artefact.model(), embedded),
        dataset,
        size_hw=config.image_hw,
        geometry=config.geometry,
        grid_hw=config.grid_hw,
        threshold=calibration.score_threshold,
        pixel_threshold=calibration.pixel_threshold,
        threshold_method=calibration.method,
    )


def _remembering(model: ReferenceModel, embedded: list[Tensor]) -> Predictor:
    """A predictor that asks the backbone once for the n-th batch of all its like."""
    number = 0

    @torch.no_grad()
    def predict(frames: NDArray[np.uint8], insides: Insides = ()) -> tuple[Maps, Maps]:
        nonlocal number
        if number == len(embedded):
            embedded.append(model.embed(torch.from_numpy(frames)))
        grid = model.counted(model.distances(embedded[number]))
        number += 1
        image_map, score = model.to_image(grid, insides)
        return image_map.numpy(), score.numpy()

    return predict
