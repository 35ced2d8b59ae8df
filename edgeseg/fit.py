"""Good images to an artefact: one pass through the backbone, then linear algebra."""

import math
import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
import torchvision
from torch import Tensor

from edgeseg import __version__
from edgeseg.artefact import Artefact, build_model
from edgeseg.calibrate import Calibration, GoodImages, calibrate
from edgeseg.config import FitConfig
from edgeseg.datasets import Dataset, Sample, load_batches, split_holdout
from edgeseg.embedding import embedding_matrix
from edgeseg.errors import EdgesegError, UsageError
from edgeseg.factors import Factors, expected_d2, make_factors
from edgeseg.gaussian import Moments
from edgeseg.model import Model
from edgeseg.progress import Progress, silent
from edgeseg.spool import EmbeddingSpool
from edgeseg.weights import load_backbone

# More good images than this sharpen no threshold that anyone asks for, and the spool stays small.
CALIBRATION_LIMIT = 1000
SPOOL_BYTES = 2 << 30  # of temporary disk, whatever the size of an embedding

# Embeddings and the model that judges them, which was fitted without them.
_Part = tuple[Model, EmbeddingSpool, Sequence[int]]


def _ignore(_: str) -> None:
    pass


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """What a fit needs beside data and settings: sources, tolerance, and someone to talk to."""

    weights: str | None = None
    batch_size: int = 8
    max_bad: int = 0
    keep_moments: bool = True
    anomalies: tuple[Sample, ...] = ()
    progress: Progress = field(default=silent)
    note: Callable[[str], None] = field(default=_ignore)


@torch.no_grad()
def fit(dataset: Dataset, config: FitConfig, options: FitOptions | None = None) -> Artefact:
    """Fit the Gaussian of every location on the good images of a dataset."""
    run = _Fit(dataset, config, options or FitOptions())
    return run.artefact()


class _Fit:
    """The steps of one fit, in the order in which they run."""

    def __init__(self, dataset: Dataset, config: FitConfig, options: FitOptions):
        self.dataset, self.config, self.options = dataset, config, options
        self.backbone, self.origin = load_backbone(
            config.backbone, layers=config.layers, weights=options.weights, seed=config.seed
        )
        _check_size(config, largest_stride=max(tap.stride for tap in self.backbone.taps))
        features = sum(self.backbone.channels)
        self.embedding = embedding_matrix(
            config.embedding, features=features, k=config.k, seed=config.seed
        ).to(torch.float32)
        k = self.embedding.shape[1]
        if config.k > features and config.embedding != "identity":
            options.note(f"k={config.k} is cut to {features}, all features of {config.backbone}")
        if config.rank > k:
            options.note(f"rank={config.rank:g} is cut to k={k}: all directions are kept")
        height, width = config.grid_hw
        self.moments = Moments.zero(height * width, k)
        self.bad: list[str] = []

    def artefact(self) -> Artefact:
        train, held_out = self._split()
        self.options.note(f"fitting on {len(train)} good images of {self.dataset.name}")
        with EmbeddingSpool() as seen, EmbeddingSpool() as unseen:
            self._embed(train, seen, label="Fitting", into_moments=True)
            if held_out:
                self._embed(held_out, unseen, label="Calibrating", into_moments=False)
            self.pooled = self._pool(self.moments)
            factors = self.factors_of(self.pooled)
            model = self.model(factors)
            expected = float(expected_d2(factors, self.moments, block=self._blocks()).mean())
            measured = self._measured_d2(model, seen)
            self._check_d2(expected, measured, whole=len(seen) == self.moments.images)
            good, how = self._good_images(model, seen, unseen)
        calibration = calibrate(
            good,
            false_alarm_rate=self.config.false_alarm_rate,
            how=how,
            expected_d2=expected,
            measured_d2=measured,
            unseen=len(seen) + len(unseen) > 1,
            anomaly_scores=self._anomaly_scores(model),
        )
        self._warn_about(calibration)
        return Artefact(
            config=self.config,
            backbone=self.backbone,
            origin=self.origin,
            embedding=self.embedding,
            factors=factors,
            moments=self.moments if self.options.keep_moments else None,
            calibration=calibration,
            data={
                "name": self.dataset.name,
                "layout": self.dataset.layout,
                "fitted": self.moments.images,
                "held_out": len(held_out),
                "unreadable": sorted(self.bad),
            },
            versions=versions(),
        )

    def _pool(self, moments: Moments) -> Moments:
        return moments.pooled(self.config.grid_hw, self.config.pool, share=self.config.share)

    def factors_of(self, pooled: Moments) -> Factors:
        config = self.config
        if config.covariance == "global":
            pooled = pooled.shared_covariance()
        return make_factors(
            pooled, ridge=config.ridge, rank=config.rank, directions=config.directions
        )

    def _blocks(self) -> Tensor:
        """Which Gaussian each location (P,) uses."""
        (height, width), share = self.config.grid_hw, self.config.share
        row = torch.arange(height)[:, None] // share
        return (row * (width // share) + torch.arange(width)[None] // share).flatten()

    def model(self, factors: Factors) -> Model:
        return build_model(
            self.config, backbone=self.backbone, embedding=self.embedding, factors=factors
        )

    def _split(self) -> tuple[Sequence[Sample], Sequence[Sample]]:
        train = self.dataset.train
        if self.config.calibration == "cross" or len(train) < 2:
            return train, ()
        return split_holdout(train, fraction=self.config.holdout, seed=self.config.seed)

    def _embed(
        self, samples: Sequence[Sample], spool: EmbeddingSpool, *, label: str, into_moments: bool
    ) -> None:
        blocks, k = int(self._blocks()[-1]) + 1, self.embedding.shape[1]
        blank = Factors(mean=torch.zeros(blocks, k), factor=torch.zeros(1, k, 1))
        embed = self.model(blank).embed
        row_bytes = 4 * k * self.moments.mean.shape[0]
        limit = min(CALIBRATION_LIMIT, max(2, SPOOL_BYTES // row_bytes))
        chosen = set(_permutation(len(samples), self.config.seed)[:limit])
        position = 0
        for frames in self._frames(samples, label=label):
            embedded = embed(frames).flatten(2)  # (N, k, P)
            if into_moments:
                self.moments.update_(embedded)
            for row in embedded:
                if position in chosen:
                    spool.append(row)
                position += 1

    def _frames(self, samples: Sequence[Sample], *, label: str) -> Iterator[Tensor]:
        size = self.options.batch_size
        batches = load_batches(
            samples,
            size_hw=self.config.size_hw,
            batch_size=size,
            max_bad=self.options.max_bad,
            on_bad=self._on_bad,
        )
        length = -(-len(samples) // size)
        for batch in self.options.progress(batches, length=length, label=label):
            yield torch.from_numpy(batch.frames)

    def _on_bad(self, path: Path, reason: str) -> None:
        self.bad.append(path.name)
        self.options.note(f"skipped {reason}")

    def _measured_d2(self, model: Model, seen: EmbeddingSpool) -> float:
        total = sum(
            float(model.distances(self._grid(rows)).square().mean(dim=(1, 2)).sum())
            for rows in seen.batches(range(len(seen)), size=self.options.batch_size)
        )
        return total / len(seen)

    def _check_d2(self, expected: float, measured: float, *, whole: bool) -> None:
        # Two ways to the same number: the moments in float64, the images through the model in
        # float32. They part only if the numerics failed.
        if whole and abs(measured - expected) > 0.01 * max(expected, 1e-3):
            raise EdgesegError(
                f"the fit is numerically unsound: mean d^2 is {measured:.4g} on the fitted images, "
                f"expected {expected:.4g} from their moments; try a larger --ridge"
            )

    def _good_images(
        self, model: Model, seen: EmbeddingSpool, unseen: EmbeddingSpool
    ) -> tuple[GoodImages, str]:
        if len(unseen):
            return self._judge([(model, unseen, range(len(unseen)))]), "split-conformal"
        folds = min(self.config.folds, len(seen))
        if folds < 2:
            return self._judge([(model, seen, [0])]), "the fitted image itself (no other was given)"
        order = _permutation(len(seen), self.config.seed)
        chosen = [sorted(order[fold::folds]) for fold in range(folds)]
        steps = self.options.progress(iter(chosen), length=folds, label="Calibrating")
        parts = ((self._without(seen, indices), seen, indices) for indices in steps)
        return self._judge(parts), f"cross-conformal, {folds} folds"

    def _without(self, seen: EmbeddingSpool, indices: Sequence[int]) -> Model:
        """The model of all images but these: moments are sums, so this is exact."""
        height, width = self.config.grid_hw
        fold = Moments.zero(height * width, self.embedding.shape[1])
        for rows in seen.batches(indices, size=self.options.batch_size):
            fold.update_(rows)
        # Pooling is a sum too, so the fold is pooled and taken from the pooled whole: with shared
        # Gaussians that is a quarter of the memory.
        return self.model(self.factors_of(self.pooled.remove(self._pool(fold))))

    def _judge(self, parts: Iterable[_Part]) -> GoodImages:
        scores, peaks, grids = [], [], []
        for model, spool, indices in parts:
            for rows in spool.batches(indices, size=self.options.batch_size):
                grid = model.distances(self._grid(rows))
                image_map, score = model.to_image(grid)
                scores.append(score)
                peaks.append(image_map.flatten(1).amax(dim=1))
                grids.append(grid)
        d2 = torch.cat(grids).square()  # (n, h, w)
        return GoodImages(
            scores=torch.cat(scores).numpy(),
            peaks=torch.cat(peaks).numpy(),
            frame_d2=d2.mean(dim=(1, 2)).numpy(),
            d2_mean=d2.mean(dim=0).numpy(),
            d2_std=d2.std(dim=0, correction=0).numpy(),
        )

    def _grid(self, rows: Tensor) -> Tensor:
        return rows.view(*rows.shape[:2], *self.config.grid_hw)

    def _anomaly_scores(self, model: Model) -> list[float]:
        scores: list[float] = []
        for frames in self._frames(self.options.anomalies, label="Scoring anomalies"):
            scores += model(frames)[1].tolist()
        return scores

    def _warn_about(self, calibration: Calibration) -> None:
        wish, answer = calibration.requested_rate, calibration.answered_rate
        if answer > wish and not self.options.anomalies:
            self.options.note(
                f"{calibration.good.count} good images answer for a false-alarm rate of "
                f"{answer:.1%}, not {wish:.1%}; {int(np.ceil(1 / wish - 1))} would do"
            )


def _check_size(config: FitConfig, *, largest_stride: int) -> None:
    step = math.lcm(largest_stride, config.stride * config.share)
    height, width = config.size_hw
    if height % step or width % step:
        nearest = "x".join(str(max(step, round(side / step) * step)) for side in config.size_hw)
        raise UsageError(
            f"size {height}x{width}: both sides must be multiples of {step} for "
            f"{config.backbone} with stride {config.stride} and share {config.share}; try {nearest}"
        )


def _permutation(count: int, seed: int) -> list[int]:
    return [int(i) for i in np.random.default_rng(seed).permutation(count)]


def versions() -> dict[str, str]:
    """What made the artefact."""
    return {
        "edgeseg": __version__,
        "torch": torch.__version__,
        "torchvision": torchvision.__version__,
        "python": platform.python_version(),
    }
