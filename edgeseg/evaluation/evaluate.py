"""A predictor over the test images of a dataset, and every metric of what it said."""

import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeseg.contract.geometry import PLAIN, Geometry
from edgeseg.contract.judgement import Verdict, verdict_on
from edgeseg.contract.metadata import Thresholds
from edgeseg.contract.metrics import METRICS, stored_metrics
from edgeseg.contract.picture_size import MAX_PIXELS
from edgeseg.contract.prediction import find_regions
from edgeseg.data.datasets import Dataset, Sample, load_batches
from edgeseg.data.samples import Batch, frames_at_once
from edgeseg.errors import DatasetError
from edgeseg.evaluation.metrics import Measured
from edgeseg.evaluation.pro import MapEvaluator
from edgeseg.model.predictor import Predictor
from edgeseg.progress import Progress, silent

# called for every test image: sample, frame, mask, map, score
Visitor = Callable[[Sample, NDArray[np.uint8], NDArray[np.bool_], NDArray[np.float32], float], None]


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Accuracy on one dataset; None where a figure needs images that are not there."""

    dataset: str
    figures: dict[str, float | None]  # by the keys of METRICS
    threshold: float
    threshold_method: str
    false_alarms: int  # good images above the threshold
    images: int
    anomalies: int
    seconds: float
    scores: tuple[float, ...]
    labels: tuple[int, ...]
    paths: tuple[str, ...]
    kinds: tuple[str, ...]
    verdicts: tuple[Verdict, ...] = ()  # of each image, by the rule of every frame

    @property
    def invalid(self) -> int:
        """Images that do not show this part at all, by the model."""
        return sum(verdict == "invalid" for verdict in self.verdicts)

    @property
    def not_found(self) -> int:
        """Images whose part was not found: alarms, whatever their score."""
        return sum(verdict == "not_found" for verdict in self.verdicts)

    @property
    def pro(self) -> float | None:
        """Area under the per-region overlap of the maps."""
        return self.figures["pro"]

    @property
    def pixel_auroc(self) -> float | None:
        """Chance that an anomalous pixel outscores a good one."""
        return self.figures["pixel_auroc"]

    @property
    def image_auroc(self) -> float | None:
        """Chance that an anomalous image outscores a good one."""
        return self.figures["image_auroc"]

    @property
    def f1(self) -> float | None:
        """At the threshold, like precision and recall."""
        return self.figures["f1"]

    @property
    def precision(self) -> float | None:
        """Share of the alarms that were anomalies."""
        return self.figures["precision"]

    @property
    def recall(self) -> float | None:
        """Share of the anomalies that gave an alarm."""
        return self.figures["recall"]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, each figure under its own key."""
        others = {name: value for name, value in asdict(self).items() if name != "figures"}
        return {"dataset": self.dataset, **self.figures, **others}

    def summary(self) -> dict[str, Any]:
        """The figures that stay with a model."""
        stored = {metric.key: self.figures[metric.key] for metric in stored_metrics()}
        counts = {"images": self.images, "anomalies": self.anomalies}
        return {"dataset": self.dataset} | stored | counts


def evaluate(
    predict: Predictor,
    dataset: Dataset,
    *,
    size_hw: tuple[int, int],
    geometry: Geometry = PLAIN,
    grid_hw: tuple[int, int] | None = None,
    threshold: float,
    pixel_threshold: float,
    threshold_method: str,
    foreign: float | None = None,
    batch_size: int = 16,
    max_bad: int = 0,
    max_pixels: int = MAX_PIXELS,
    progress: Progress = silent,
    on_bad: Callable[[Path, str], None] | None = None,
    visit: Visitor | None = None,
) -> Evaluation:
    """Score every test image and compare with its mask, on maps as they are.

    Where parts are followed, `grid_hw` tells which cells of the grid the camera has not seen.
    """
    _check_labelled(dataset)
    started = time.perf_counter()
    batch_size = frames_at_once(size_hw, most=batch_size)
    batches = load_batches(
        dataset.test,
        size_hw=size_hw,
        geometry=geometry,
        batch_size=batch_size,
        max_bad=max_bad,
        max_pixels=max_pixels,
        on_bad=on_bad,
    )
    length = -(-len(dataset.test) // batch_size)
    watched = progress(batches, length=length, label="Evaluating")
    limits = Thresholds(
        score=threshold,
        pixel=pixel_threshold,
        false_alarm_rate=1.0,
        method=threshold_method,
        foreign=foreign,
    )
    measured, samples, verdicts = _measured(predict, watched, limits, grid_hw=grid_hw, visit=visit)
    return Evaluation(
        dataset=dataset.name,
        figures={key: metric.value(measured) for key, metric in METRICS.items()},
        threshold=threshold,
        threshold_method=threshold_method,
        false_alarms=measured.decision.false_positives,
        images=len(measured.labels),
        anomalies=sum(measured.labels),
        seconds=time.perf_counter() - started,
        scores=measured.scores,
        labels=measured.labels,
        paths=tuple(_name(sample) for sample in samples),
        kinds=tuple(sample.kind for sample in samples),
        verdicts=tuple(verdicts),
    )


def _check_labelled(dataset: Dataset) -> None:
    if not dataset.test:
        raise DatasetError(
            f"{dataset.root}: no test images; evaluation needs a labelled test set "
            "(test/<kind> and ground_truth/<kind>), or use `edgeseg predict` for pictures"
        )


def _measured(
    predict: Predictor,
    batches: Iterable[Batch],
    limits: Thresholds,
    *,
    grid_hw: tuple[int, int] | None,
    visit: Visitor | None,
) -> tuple[Measured, list[Sample], list[Verdict]]:
    evaluator = MapEvaluator()
    samples: list[Sample] = []
    scores: list[float] = []
    regions: list[int] = []
    verdicts: list[Verdict] = []
    for batch in batches:
        maps, batch_scores = _predicted(predict, batch, grid_hw)
        for i, sample in enumerate(batch.samples):
            evaluator.add(maps[i], batch.masks[i], name=sample.image.name)
            samples.append(sample)
            scores.append(float(batch_scores[i]))
            verdicts.append(verdict_on(scores[-1], limits, map_hw=maps[i], found=batch.found[i]))
            _, count = find_regions(maps[i], limits.pixel, size_hw=maps[i].shape)
            regions.append(count)
            if visit is not None:
                visit(sample, batch.frames[i], batch.masks[i], maps[i], scores[-1])
    measured = Measured(
        maps=evaluator.result(),
        scores=_alarming(scores, verdicts, limits.score),
        labels=tuple(sample.label for sample in samples),
        threshold=limits.score,
        regions=tuple(regions),
    )
    return measured, samples, verdicts


def _predicted(
    predict: Predictor, batch: Batch, grid_hw: tuple[int, int] | None
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    insides = [] if grid_hw is None else [view.inside(grid_hw) for view in batch.views]
    if all(inside is None for inside in insides):
        return predict(batch.frames)
    return predict(batch.frames, insides)


def _alarming(scores: list[float], verdicts: list[Verdict], threshold: float) -> tuple[float, ...]:
    """Images without their part are alarms, so they stand above all others."""
    above = 2 * max([*scores, threshold])
    pairs = zip(scores, verdicts, strict=True)
    return tuple(above if verdict == "not_found" else score for score, verdict in pairs)


def _name(sample: Sample) -> str:
    """The path of a picture; frames of a video share theirs."""
    path = sample.image.as_posix()
    return path if sample.image_index is None else f"{path}#{sample.image_index}"
