"""A predictor over the test images of a dataset: PRO, ROC, F1 at the threshold."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeseg.data.datasets import Dataset, Sample, load_batches
from edgeseg.data.samples import frames_at_once
from edgeseg.errors import DatasetError
from edgeseg.evaluation.metrics import MapEvaluator, auroc, f1_at
from edgeseg.model.predictor import Predictor
from edgeseg.progress import Progress, silent

# called for every test image: sample, frame, mask, map, score
Visitor = Callable[[Sample, NDArray[np.uint8], NDArray[np.bool_], NDArray[np.float32], float], None]


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Accuracy on one dataset; None where a figure needs images that are not there."""

    dataset: str
    pro: float | None
    pixel_auroc: float | None
    image_auroc: float | None
    f1: float | None
    precision: float | None
    recall: float | None
    threshold: float
    threshold_method: str
    false_alarms: int  # good images above the threshold
    images: int
    anomalies: int
    seconds: float
    scores: tuple[float, ...]
    labels: tuple[int, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)

    def summary(self) -> dict[str, Any]:
        """The figures that travel with a model."""
        names = ("dataset", "pro", "pixel_auroc", "image_auroc", "f1", "images", "anomalies")
        return {name: getattr(self, name) for name in names}


def evaluate(
    predict: Predictor,
    dataset: Dataset,
    *,
    size_hw: tuple[int, int],
    threshold: float,
    threshold_method: str,
    batch_size: int = 16,
    max_bad: int = 0,
    progress: Progress = silent,
    on_bad: Callable[[Path, str], None] | None = None,
    visit: Visitor | None = None,
) -> Evaluation:
    """Score every test image and compare with its mask, on maps as they are."""
    if not dataset.test:
        raise DatasetError(
            f"{dataset.root}: no test images; evaluation needs a labelled test set "
            "(test/<kind> and ground_truth/<kind>), or use `edgeseg predict` for pictures"
        )
    started = time.perf_counter()
    scores: list[float] = []
    labels: list[int] = []
    batch_size = frames_at_once(size_hw, most=batch_size)
    batches = load_batches(
        dataset.test, size_hw=size_hw, batch_size=batch_size, max_bad=max_bad, on_bad=on_bad
    )
    length = -(-len(dataset.test) // batch_size)
    evaluator = MapEvaluator()
    for batch in progress(batches, length=length, label="Evaluating"):
        maps, batch_scores = predict(batch.frames)
        for i, sample in enumerate(batch.samples):
            evaluator.add(maps[i], batch.masks[i], name=sample.image.name)
            scores.append(float(batch_scores[i]))
            labels.append(sample.label)
            if visit is not None:
                visit(sample, batch.frames[i], batch.masks[i], maps[i], scores[-1])
    pixels = evaluator.result()
    decision = f1_at(scores, labels, threshold=threshold)
    image_auroc = auroc(scores, labels) if len(set(labels)) == 2 else None
    return Evaluation(
        dataset=dataset.name,
        pro=pixels.pro,
        pixel_auroc=pixels.pixel_auroc,
        image_auroc=image_auroc,
        f1=decision.f1,
        precision=decision.precision,
        recall=decision.recall,
        threshold=threshold,
        threshold_method=threshold_method,
        false_alarms=decision.false_positives,
        images=len(labels),
        anomalies=sum(labels),
        seconds=time.perf_counter() - started,
        scores=tuple(scores),
        labels=tuple(labels),
    )
