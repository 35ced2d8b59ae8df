"""One setting tried on one category by the product's own fit and evaluation.

images --Remembered backbone--> feature maps, kept --fit_in--> artefact --evaluate--> TrialResult

What comes out of the backbone depends on image, backbone and layers alone, so settings and seeds of
a category share one pass of it; all behind it is done anew, by the functions that users call.
"""

import hashlib
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgeseg.base.progress import ignore
from edgeseg.config import FitConfig
from edgeseg.data.datasets import Dataset
from edgeseg.decision.operating_point import rate_threshold
from edgeseg.decision.prediction import above
from edgeseg.decision.score_origin import Promise
from edgeseg.evaluation.evaluate import Evaluation, evaluate
from edgeseg.fitting.feature_space import FeatureSpace
from edgeseg.fitting.fitting import FitOptions, fit_in
from edgeseg.model.artefact import Artefact
from edgeseg.model.backbone_weights import BackboneWeights
from edgeseg.model.feature_extractor import Backbone
from edgeseg.model.predictor import frame_predictor, torch_predictor

MOST_BYTES = 6 << 30  # of feature maps: 528 images of 512x512 with ResNet-18


class FeatureMemory:
    """Feature maps by the content of their input; beyond `most_bytes` no more are kept."""

    def __init__(self, *, most_bytes: int = MOST_BYTES) -> None:
        self._maps: dict[bytes, tuple[Tensor, ...]] = {}
        self._room = most_bytes

    def __contains__(self, key: bytes) -> bool:
        return key in self._maps

    def keep(self, key: bytes, maps: tuple[Tensor, ...]) -> None:
        """Remember the maps of one input."""
        size = sum(each.numel() * each.element_size() for each in maps)
        if key not in self._maps and size <= self._room:
            self._room -= size
            self._maps[key] = tuple(each.clone() for each in maps)

    def __getitem__(self, key: bytes) -> tuple[Tensor, ...]:
        return self._maps[key]


class RememberedBackbone(Backbone):
    """A network that keeps its feature maps, and looks up inputs that it has seen before."""

    def __init__(self, backbone: Backbone, *, layers: tuple[int, ...], memory: FeatureMemory):
        super().__init__(backbone.spec, layers=layers)
        self.load_state_dict(backbone.state_dict())
        self.memory = memory

    def forward(self, x: Tensor) -> list[Tensor]:
        """Normalised float images (N, 3, H, W) to one map a tap."""
        keys = [content_key(row) for row in x]
        new = [place for place, key in enumerate(keys) if key not in self.memory]
        fresh: dict[int, tuple[Tensor, ...]] = {}
        if new:
            # A single image takes another path through convolutions: see FeatureSpace.
            maps = super().forward(x[new if len(new) > 1 else new * 2])
            for row, place in enumerate(new):
                fresh[place] = tuple(each[row] for each in maps)
                self.memory.keep(keys[place], fresh[place])
        rows = [
            fresh[place] if place in fresh else self.memory[key] for place, key in enumerate(keys)
        ]
        return [torch.stack(tap) for tap in zip(*rows, strict=True)]


def content_key(row: Tensor) -> bytes:
    """Hash of an input, by which its feature maps are kept."""
    return hashlib.blake2b(row.contiguous().numpy().tobytes(), digest_size=16).digest()


def remembering_space(
    config: FitConfig, *, memory: FeatureMemory, weights: str | None
) -> FeatureSpace:
    """Load the feature space of these settings, with a backbone that remembers."""
    space = FeatureSpace.load(config, weights=weights, note=ignore)
    network = space.weights.backbone
    backbone = RememberedBackbone(network, layers=config.layers, memory=memory)
    return replace(space, weights=BackboneWeights.of(config, space.origin, backbone))


@dataclass(frozen=True, kw_only=True)
class TrialResult:
    """Result of one fit, with its scores, so that other thresholds can be chosen later."""

    figures: dict[str, float | None]  # by the keys of METRICS, at the threshold of the fit
    scores: tuple[float, ...]  # of the test images
    labels: tuple[int, ...]
    good: tuple[float, ...]  # of the training images, by models without them
    planted: tuple[float, ...]
    rate: float  # that was asked for
    reads: int  # numbers of the factors that a frame is compared with
    promise: Promise = "conformal"  # how the rate became the threshold

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values; scores to six digits."""
        return {name: _plain(value) for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "TrialResult":
        """Read what to_dict wrote."""
        plain: dict[str, Any] = {
            key: tuple(item) if isinstance(item, list) else item for key, item in values.items()
        }
        return cls(**plain)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [float(f"{item:.6g}") if isinstance(item, float) else item for item in value]
    return value


def try_setting(
    dataset: Dataset, config: FitConfig, *, memory: FeatureMemory, options: FitOptions
) -> TrialResult:
    """Fit on a category and evaluate on its test images."""
    space = remembering_space(config, memory=memory, weights=options.weights)
    artefact = fit_in(space, dataset, options)
    return trial_result(artefact, _evaluate(artefact, dataset))


def _evaluate(artefact: Artefact, dataset: Dataset) -> Evaluation:
    calibration, config = artefact.calibration, artefact.config
    return evaluate(
        frame_predictor(torch_predictor(artefact.model()), config),
        dataset,
        size_hw=config.image_hw,
        thresholds=calibration.thresholds,
    )


def trial_result(artefact: Artefact, evaluation: Evaluation) -> TrialResult:
    """Record a fit and its evaluation."""
    calibration, planted = artefact.calibration, artefact.planted
    return TrialResult(
        figures=evaluation.figures,
        scores=evaluation.ranks,
        labels=evaluation.labels,
        good=_numbers(calibration.good.of_parts.scores),
        planted=_numbers(None if planted is None else planted.scores),
        rate=artefact.config.false_alarm_rate,
        promise=artefact.config.promise,
        reads=artefact.factors.reads,
    )


def _numbers(values: NDArray[np.float32] | None) -> tuple[float, ...]:
    return () if values is None else tuple(values.astype(float).tolist())


@dataclass(frozen=True, kw_only=True)
class AtRate:
    """Results on the test images at one threshold."""

    threshold: float
    recall: float  # share of the defective test images that it finds
    flagged: int  # good test images
    good: int  # how many of those there are
    planted: float | None  # share of the planted defects that it finds


def at_rate(tried: TrialResult, rate: float | None = None) -> AtRate:
    """Choose the threshold of a rate as the product does, and apply it to the test images.

    Without a rate it is the rate of the fit.
    """
    wish = tried.rate if rate is None else rate
    good = np.array(tried.good, np.float32).tolist()
    chosen = rate_threshold(good, false_alarm_rate=wish, promise=tried.promise)
    return at_threshold(tried, chosen.value)


def at_threshold(tried: TrialResult, threshold: float) -> AtRate:
    """Apply a threshold to the test images."""
    alarm = above(np.array(tried.scores), threshold)
    defective = np.array(tried.labels, bool)
    planted = above(np.array(tried.planted), threshold)
    return AtRate(
        threshold=threshold,
        recall=float(np.mean(alarm[defective])),
        flagged=int(np.count_nonzero(alarm[~defective])),
        good=int(np.count_nonzero(~defective)),
        planted=float(np.mean(planted)) if planted.size else None,
    )
