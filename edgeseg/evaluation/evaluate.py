"""Run a predictor over the test images of a dataset, and compute every metric."""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import DatasetError
from edgeseg.base.plain import JsonObject
from edgeseg.base.progress import Progress, silent
from edgeseg.data.datasets import Dataset, Sample, load_batches
from edgeseg.data.samples import Batch, frames_at_once
from edgeseg.decision.judgement import Verdict, is_alarming, verdict_on
from edgeseg.decision.metric_registry import METRICS, stored_metrics
from edgeseg.decision.metrics import LabelledResults
from edgeseg.decision.prediction import find_regions
from edgeseg.decision.pro import MapEvaluator
from edgeseg.decision.thresholds import Thresholds
from edgeseg.evaluation.several import PartsPredictor, PictureOfParts
from edgeseg.model.predictor import VariantPredictor, VariantScores, variant_scores
from edgeseg.vision.appearance import appearance_of
from edgeseg.vision.geometry import PLAIN, Geometry
from edgeseg.vision.picture_size import MAX_PIXELS

# called for every test image: sample, frame, mask if there is one, map, score, verdict
Visitor = Callable[
    [Sample, NDArray[np.uint8], NDArray[np.bool_] | None, NDArray[np.float32], float, Verdict], None
]


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Accuracy on one dataset; a figure is None where images or masks that it needs are missing."""

    dataset: str
    figures: dict[str, float | None]  # by the keys of METRICS
    threshold: float
    threshold_method: str
    false_alarms: int  # good images that are alarms
    images: int
    anomalies: int
    seconds: float
    scores: tuple[float, ...]
    labels: tuple[int, ...]
    paths: tuple[str, ...]
    kinds: tuple[str, ...]
    verdicts: tuple[Verdict, ...]  # of each image, by the rule of every frame
    # Of a model of several variants: the one that was named, and that of its folder, if known.
    named: tuple[str, ...] = ()
    variants: tuple[str | None, ...] = ()

    @property
    def ranks(self) -> tuple[float, ...]:
        """The scores; images that are alarms at any threshold rank above all others."""
        return ranks_of(self.scores, self.verdicts, self.threshold)

    @property
    def invalid(self) -> int:
        """The number of images that do not show this part, by the model; they count as alarms."""
        return sum(verdict == "invalid" for verdict in self.verdicts)

    @property
    def not_found(self) -> int:
        """The number of images whose part was not found; alarms, whatever their score."""
        return sum(verdict == "not_found" for verdict in self.verdicts)

    @property
    def pro(self) -> float | None:
        """The area under the per-region overlap of the maps."""
        return self.figures["pro"]

    @property
    def pixel_auroc(self) -> float | None:
        """The chance that an anomalous pixel outscores a good one."""
        return self.figures["pixel_auroc"]

    @property
    def image_auroc(self) -> float | None:
        """The chance that an anomalous image outscores a good one."""
        return self.figures["image_auroc"]

    @property
    def f1(self) -> float | None:
        """F1 at the threshold, like precision and recall."""
        return self.figures["f1"]

    @property
    def precision(self) -> float | None:
        """The share of the alarms that were anomalies."""
        return self.figures["precision"]

    @property
    def recall(self) -> float | None:
        """The share of the anomalies that gave an alarm."""
        return self.figures["recall"]

    def to_dict(self) -> JsonObject:
        """Return plain JSON values, each figure under its own key."""
        absent = {"figures"} if self.named else {"figures", "named", "variants"}
        others = {name: value for name, value in asdict(self).items() if name not in absent}
        return {"dataset": self.dataset, **self.figures, **others}

    def summary(self) -> JsonObject:
        """Return the figures that stay with a model."""
        stored = {metric.key: self.figures[metric.key] for metric in stored_metrics()}
        counts = {"images": self.images, "anomalies": self.anomalies}
        return {"dataset": self.dataset} | stored | counts


def evaluate(
    predict: VariantPredictor,
    dataset: Dataset,
    *,
    size_hw: tuple[int, int],
    geometry: Geometry = PLAIN,
    grid_hw: tuple[int, int] | None = None,
    thresholds: Thresholds,
    variants: Sequence[str] = (),
    batch_size: int = 16,
    max_bad: int = 0,
    max_pixels: int = MAX_PIXELS,
    progress: Progress = silent,
    on_bad: Callable[[Path, str], None] | None = None,
    visit: Visitor | None = None,
) -> Evaluation:
    """Score every test image and compare with its mask, on maps as they are.

    A defective image without a mask counts by its label, and leaves no figures of pixels.
    Verdicts are those of `edgeseg predict`: the figures count what would be an alarm. Where parts
    are followed, `grid_hw` tells which cells of the grid the camera has not seen. `variants` are
    the names of those that the predictor tells.
    """
    _check_labelled(dataset)
    started = time.perf_counter()
    batch_size = frames_at_once(size_hw, most=batch_size)
    if geometry.several is not None:
        parts = PartsPredictor(
            predict=predict,
            geometry=geometry,
            size_hw=size_hw,
            grid_hw=grid_hw,
            thresholds=thresholds,
            batch_size=batch_size,
            max_pixels=max_pixels,
        )
        watched = progress(dataset.test, length=len(dataset.test), label="Evaluating")
        pictures = parts.pictures(watched, max_bad=max_bad, on_bad=on_bad)
        return _evaluation(
            dataset, _judge_parts(pictures, thresholds, visit=visit), thresholds, started=started
        )
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
    steps = progress(batches, length=length, label="Evaluating")
    seen = _predict_all(predict, steps, thresholds, grid_hw=grid_hw, visit=visit)
    return _evaluation(dataset, seen, thresholds, variants=variants, started=started)


def _evaluation(
    dataset: Dataset,
    seen: "_ImageResults",
    thresholds: Thresholds,
    *,
    variants: Sequence[str] = (),
    started: float,
) -> Evaluation:
    measured, samples = seen.results(thresholds.score), seen.samples
    return Evaluation(
        dataset=dataset.name,
        figures={key: metric.value(measured) for key, metric in METRICS.items()},
        threshold=thresholds.score,
        threshold_method=thresholds.method,
        false_alarms=measured.verdict_metrics.false_positives,
        images=len(measured.labels),
        anomalies=sum(measured.labels),
        seconds=time.perf_counter() - started,
        scores=tuple(seen.scores),
        labels=measured.labels,
        paths=tuple(sample.name for sample in samples),
        kinds=tuple(sample.kind for sample in samples),
        verdicts=tuple(seen.verdicts),
        named=tuple(variants[number] for number in seen.variants),
        variants=tuple(sample.variant for sample in samples) if seen.variants else (),
    )


def _check_labelled(dataset: Dataset) -> None:
    if not dataset.test:
        raise DatasetError(
            f"{dataset.root}: no test images; evaluation needs a labelled test set "
            "(test/good, test/<kind>), or use `edgeseg predict` for pictures"
        )


@dataclass(kw_only=True)
class _ImageResults:
    """The scores and verdicts of the images so far."""

    maps: MapEvaluator = field(default_factory=MapEvaluator)
    samples: list[Sample] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    regions: list[int] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    variants: list[int] = field(default_factory=list)  # that were named; of several

    def add(
        self,
        sample: Sample,
        map_hw: NDArray[np.float32],
        mask_hw: NDArray[np.bool_] | None,
        *,
        score: float,
        verdict: Verdict,
        limits: Thresholds,
    ) -> None:
        """Take the result of one image."""
        _, count = find_regions(map_hw, limits.pixel, size_hw=map_hw.shape)
        self.maps.add(map_hw, mask_hw, name=sample.image.name)
        self.samples.append(sample)
        self.scores.append(score)
        self.regions.append(count)
        self.verdicts.append(verdict)

    def results(self, threshold: float) -> LabelledResults:
        """Return the results for the metrics."""
        return LabelledResults(
            maps=self.maps.result(),
            scores=ranks_of(self.scores, self.verdicts, threshold),
            labels=tuple(sample.label for sample in self.samples),
            threshold=threshold,
            regions=tuple(self.regions),
        )


def _predict_all(
    predict: VariantPredictor,
    batches: Iterable[Batch],
    limits: Thresholds,
    *,
    grid_hw: tuple[int, int] | None,
    visit: Visitor | None,
) -> _ImageResults:
    seen = _ImageResults()
    for batch in batches:
        maps, scores, named = _predict_batch(predict, batch, grid_hw)
        seen.variants += [] if named is None else named.tolist()
        for i, sample in enumerate(batch.samples):
            score = float(scores[i])
            verdict = verdict_on(
                score,
                limits,
                map_hw=maps[i],
                found=batch.found[i],
                appearance=appearance_of(batch.frames[i]),
            )
            seen.add(sample, maps[i], batch.masks[i], score=score, verdict=verdict, limits=limits)
            if visit is not None:
                visit(sample, batch.frames[i], batch.masks[i], maps[i], score, verdict)
    return seen


def _judge_parts(
    pictures: Iterable[PictureOfParts], limits: Thresholds, *, visit: Visitor | None
) -> _ImageResults:
    seen = _ImageResults()
    for picture in pictures:
        judged, sample = picture.judged, picture.sample
        map_hw, verdict = judged.prediction.map_hw, judged.areas.verdict
        score = judged.prediction.score
        score = score if math.isfinite(score) else 0.0  # its verdict ranks it, above all scores
        seen.add(sample, map_hw, picture.mask_hw, score=score, verdict=verdict, limits=limits)
        if visit is not None:
            visit(sample, picture.frame_hwc, picture.mask_hw, map_hw, score, verdict)
    return seen


def _predict_batch(
    predict: VariantPredictor, batch: Batch, grid_hw: tuple[int, int] | None
) -> VariantScores:
    insides = [] if grid_hw is None else [view.inside(grid_hw) for view in batch.views]
    if all(inside is None for inside in insides):
        return variant_scores(predict(batch.frames))
    return variant_scores(predict(batch.frames, insides))


def ranks_of(
    scores: Sequence[float], verdicts: Sequence[Verdict], threshold: float
) -> tuple[float, ...]:
    """Return scores, with images that are alarms whatever their score above all others."""
    above = 1 + 2 * max([*scores, threshold])
    return tuple(
        above if is_alarming(verdict) and verdict != "defect" else score
        for score, verdict in zip(scores, verdicts, strict=True)
    )
