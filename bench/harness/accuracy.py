"""Accuracy per category and seed, and the means that tables show."""

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import DatasetError, EdgesegError
from edgeseg.bench.harness.sampling import mean_std
from edgeseg.bench.harness.tabular import column
from edgeseg.data.datasets import Dataset, Sample, load_batches, open_dataset
from edgeseg.data.layouts import folders_in
from edgeseg.decision.metric_registry import stored_metrics
from edgeseg.decision.metrics import LabelledResults
from edgeseg.decision.pro import MapEvaluator

_BATCH = 16  # test images at a time
TEXTURES = frozenset({"carpet", "grid", "leather", "tile", "wood"})
LABELS = {metric.key: metric.label for metric in stored_metrics()}
COMPARED = tuple(metric.key for metric in stored_metrics() if not metric.at_threshold)
# Metadata of a row's field `dict[str, float | None]`: a column for every metric in it.
ACCURACY_COLUMNS = column("{}", better="high", titles=LABELS)
DECISION_COLUMNS = column("{}", titles=LABELS)  # one threshold's: more of one is less of the other

# Mean and deviation over seeds, by metric; both None where a metric needs masks that are missing.
Means = dict[str, tuple[float | None, float | None]]

# uint8 frames (N, H, W, 3) to maps (N, H, W) and scores (N,)
Predict = Callable[[NDArray[np.uint8]], tuple[NDArray[np.float32], NDArray[np.float32]]]


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """Accuracy of one model on one test set."""

    figures: dict[str, float | None]  # by the keys of LABELS; None where it needs missing masks
    images: int
    anomalies: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values, each figure under its own key."""
        return self.figures | {"images": self.images, "anomalies": self.anomalies}


def accuracy_of(
    maps: Iterable[NDArray[np.float32]],
    masks: Iterable[NDArray[np.bool_] | None],
    scores: Sequence[float],
    labels: Sequence[int],
    *,
    name: str,
    threshold: float = math.nan,
) -> Accuracy:
    """Measure maps and scores, by the same code for every candidate.

    Without a threshold the metrics of decisions are left out. A mask is None where a defective
    image has none, and then what is measured by pixels is None.
    """
    good, defective = len(labels) - sum(labels), sum(labels)
    if not good or not defective:
        raise DatasetError(
            f"{name}: accuracy needs good and defective test images, got {good} and {defective}"
        )
    evaluator = MapEvaluator()
    for map_hw, mask_hw in zip(maps, masks, strict=True):
        evaluator.add(map_hw, mask_hw)
    measured = LabelledResults(
        maps=evaluator.result(), scores=tuple(scores), labels=tuple(labels), threshold=threshold
    )
    figures = {
        metric.key: metric.value(measured)
        for metric in stored_metrics()
        if not (metric.at_threshold and math.isnan(threshold))
    }
    return Accuracy(figures=figures, images=len(labels), anomalies=defective)


def measure_accuracy(
    predict: Predict,
    dataset: Dataset,
    *,
    size_hw: tuple[int, int],
    threshold: float = math.nan,
) -> Accuracy:
    """Run a predictor over the test images of a dataset."""
    maps: list[NDArray[np.float32]] = []
    masks: list[NDArray[np.bool_] | None] = []
    scores: list[float] = []
    labels: list[int] = []
    for batch in load_batches(dataset.test, size_hw=size_hw, batch_size=_BATCH):
        batch_maps, batch_scores = predict(batch.frames)
        maps += list(batch_maps)
        masks += list(batch.masks)
        scores += [float(score) for score in batch_scores]
        labels += [sample.label for sample in batch.samples]
    return accuracy_of(maps, masks, scores, labels, name=dataset.name, threshold=threshold)


def metrics_in(results: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Keys of the metrics to show; stored results may be older than a metric."""
    known = {key for result in results for key in result}
    return tuple(key for key in LABELS if key in known) or COMPARED


def by_category(keys: Iterable[str]) -> tuple[str, ...]:
    """Leave out metrics that say little of one category, such as pixel AUROC, which is near 1."""
    return tuple(key for key in keys if key not in ("pixel_auroc", "f1"))


def ranking_figures(figures: Mapping[str, float | None]) -> dict[str, float | None]:
    """Select the metrics that need no threshold."""
    return {key: value for key, value in figures.items() if key in COMPARED}


def decision_figures(figures: Mapping[str, float | None]) -> dict[str, float | None]:
    """Select the metrics of decisions at the shipped threshold."""
    return {key: value for key, value in figures.items() if key not in COMPARED}


def over_seeds(results: Sequence[Mapping[str, Any]]) -> Means:
    """Compute mean and standard deviation over seeds of every measured metric."""
    means: Means = {}
    for key in metrics_in(results):
        values = [result[key] for result in results if key in result]
        if len(values) == len(results):
            means[key] = (None, None) if None in values else mean_std([float(v) for v in values])
    return means


def fewer_categories(title: str, known: Sequence[str], categories: Sequence[str]) -> str:
    """Say on which categories a figure was not measured; empty where its mean is over all."""
    missing = [category for category in categories if category not in known]
    if not missing:
        return ""
    return (
        f" {title}: over {len(known)} of {len(categories)} categories, not measured on "
        f"{', '.join(missing)}."
    )


def group_means(by_category: Mapping[str, float]) -> dict[str, float | None]:
    """Average the present categories over textures, over objects and over all."""
    textures = [value for name, value in by_category.items() if name in TEXTURES]
    objects = [value for name, value in by_category.items() if name not in TEXTURES]
    return {
        "texture": float(np.mean(textures)) if textures else None,
        "object": float(np.mean(objects)) if objects else None,
        "overall": float(np.mean([*textures, *objects])) if by_category else None,
    }


def categories_in(data: Path) -> list[Path]:
    """List the categories of an MVTec AD folder, or the path itself if it is one."""
    if (data / "train" / "good").is_dir():
        return [data]
    categories = [folder for folder in folders_in(data) if (folder / "train" / "good").is_dir()]
    if not categories:
        raise DatasetError(
            f"{data}: no categories; expected folders with train/good, test/<kind> and "
            "ground_truth/<kind>, as MVTec AD has them"
        )
    return categories


def open_limited(path: Path, *, limit: int | None, fold: int | None = None) -> Dataset:
    """Open a dataset, cut for a rehearsal to `limit` training images and `limit` a test kind."""
    dataset = open_dataset(path, fold=fold)
    if not dataset.test:
        raise EdgesegError(f"{path}: no test images; accuracy needs a labelled test set")
    if limit is None:
        return dataset
    kept: dict[str, list[Sample]] = {}
    for sample in dataset.test:
        kept.setdefault(sample.kind, []).append(sample)
    test = tuple(sample for group in kept.values() for sample in group[:limit])
    return replace(dataset, train=dataset.train[:limit], test=test)


def fingerprint(dataset: Dataset) -> str:
    """Hash that changes when images are added, removed or replaced by ones of another size."""
    digest = hashlib.sha256()
    for sample in (*dataset.train, *dataset.test):
        for path in (sample.image, sample.mask):
            if path is not None:
                name = path.relative_to(dataset.root).as_posix()
                digest.update(f"{name} {path.stat().st_size} {sample.image_index}\n".encode())
    return digest.hexdigest()[:16]
