"""Find images among the good ones that do not belong there: each is compared with all others.

Bad images that resemble each other hide each other. So the suspects are taken out of the moments
and all is measured again, until there is no new one.
"""

import math
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import EdgesegError, UsageError
from edgeseg.base.files import size_text
from edgeseg.base.messages import Setting
from edgeseg.base.progress import Progress, ignore
from edgeseg.config import FitConfig
from edgeseg.data.datasets import Dataset, Sample, load_batches
from edgeseg.decision.outliers import Yardstick, cut_for
from edgeseg.fitting.embedding_store import EmbeddingStore
from edgeseg.fitting.feature_space import FeatureSpace
from edgeseg.fitting.options import FitOptions
from edgeseg.fitting.screening.leave_one_out import LeaveOneOut
from edgeseg.model.factors import Factors
from edgeseg.model.gaussian_head import Cells
from edgeseg.model.moments import Moments
from edgeseg.model.predictor import frame_scores

FEWEST = 8  # images: fewer do not tell what is usual
MOST_ROUNDS = 10
MOST_SHARE = 0.25  # more are another kind of part, and not a few that do not belong


@dataclass(frozen=True, kw_only=True)
class Suspect:
    """An image that does not look like the others, and where."""

    sample: Sample
    score: float  # from the Gaussians of all images that are no suspects
    spreads: float  # above the middle of the others
    peak_xy: tuple[float, float]  # where it is worst, as shares of width and height
    extent: float  # share of the image beyond what the usual image reaches at its worst
    map_hw: NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class Screening:
    """The result of comparing all images with each other."""

    images: int
    suspects: tuple[Suspect, ...] = ()  # the worst first
    middle: float = 0.0  # median score of the others
    limit: float = math.inf  # score above which an image is a suspect
    map_limit: float = math.inf  # highest value in a map of the others, at the median
    rounds: int = 0

    @property
    def too_many(self) -> bool:
        """Whether there are so many suspects that they may be a second kind of part."""
        return _too_many(len(self.suspects), self.images)

    def without_suspects(self, dataset: Dataset) -> Dataset:
        """Return the dataset as if these images had never been in it."""
        left_out = {suspect.sample for suspect in self.suspects}
        kept = tuple(sample for sample in dataset.train if sample not in left_out)
        return replace(dataset, train=kept)


def screen(dataset: Dataset, config: FitConfig, options: FitOptions) -> Screening:
    """Compare every good image of a dataset with all others."""
    return screen_in(
        FeatureSpace.load(config, weights=options.weights, note=ignore), dataset, options
    )


def screen_in(space: FeatureSpace, dataset: Dataset, options: FitOptions) -> Screening:
    """Compare every good image with all others, in a space that is already open."""
    geometry = space.config.geometry
    if geometry.several is not None:
        raise UsageError(
            Setting("locate", geometry.locate),
            ": whole pictures cannot be compared where their parts lie anywhere; leave the "
            "comparison out, and look at the odd pictures that the fit names",
        )
    _check_disk(space, images=len(dataset.train))
    samples: list[Sample] = []
    windows = space.windows
    moments = windows.new_moments(space.k)
    with EmbeddingStore() as store:
        for batch, rows in _embed(space, dataset.train, options):
            windows.add_(moments, space.inputs(rows), images=len(rows))
            for sample, row in zip(batch, rows, strict=True):
                store.append(row, len(samples))
                samples.append(sample)
        if len(samples) < FEWEST:
            return Screening(images=len(samples))
        pooled = windows.pool_moments(moments)
        return _Comparison(space, pooled, store, options.progress).screening(samples)


def _too_many(suspects: int, images: int) -> bool:
    return suspects > MOST_SHARE * images


def _check_disk(space: FeatureSpace, *, images: int) -> None:
    needed = 4 * math.prod(space.row_shape) * images
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise EdgesegError(
            f"comparing {images} images needs {size_text(needed)} in {folder}, which has "
            f"{size_text(free)}; set TMPDIR to a folder on a larger disk"
        )


def _embed(
    space: FeatureSpace, samples: Sequence[Sample], options: FitOptions
) -> Iterator[tuple[tuple[Sample, ...], NDArray[np.float32]]]:
    """Yield readable images and their embeddings; the fit itself names unreadable ones."""
    size_hw = space.config.image_hw
    size, embed = options.for_images(size_hw).batch_size, space.embedder(options.device)
    batches = load_batches(
        samples,
        size_hw=size_hw,
        geometry=space.config.geometry,
        batch_size=size,
        max_bad=options.max_bad,
        max_pixels=options.max_pixels,
    )
    length = -(-len(samples) // size)
    for batch in options.progress(batches, length=length, label="Reading images to compare"):
        yield batch.samples, embed(batch.frames)


class _Comparison:
    """The comparison of stored images with each other, round by round."""

    def __init__(
        self, space: FeatureSpace, pooled: Moments, store: EmbeddingStore, progress: Progress
    ):
        self.space, self.pooled, self.store, self.progress = space, pooled, store, progress
        self.windows = space.windows
        k = pooled.mean.shape[1]
        blank = Factors(mean=pooled.mean.astype(np.float32), factor=np.zeros((1, k, 1), np.float32))
        self.to_image = space.head(blank).to_image
        shape = (len(store), space.tiles, *space.config.grid_hw)
        self.grids = np.zeros(shape, np.float32)  # distances of every image
        self.scores, self.peaks = np.zeros(len(store)), np.zeros(len(store))

    def screening(self, samples: Sequence[Sample]) -> Screening:
        """Take suspects out until there is no new one."""
        cut = cut_for(len(samples))
        suspects = np.zeros(len(samples), np.bool_)
        for rounds in range(1, MOST_ROUNDS + 1):
            self._measure(suspects, label=f"Comparing images, round {rounds}")
            yardstick = Yardstick.of(self.scores[~suspects])
            more = suspects | (yardstick.spreads(self.scores) > cut)
            if bool((more == suspects).all()):
                break
            suspects = more
            if _too_many(int(suspects.sum()), len(samples)):
                break
        map_limit = float(np.median(self.peaks[~suspects]))
        worst_first = sorted(np.flatnonzero(suspects).tolist(), key=lambda i: -self.scores[i])
        return Screening(
            images=len(samples),
            suspects=tuple(
                self._suspect(samples[i], i, yardstick, map_limit=map_limit) for i in worst_first
            ),
            middle=yardstick.score_at(0),
            limit=yardstick.score_at(cut),
            map_limit=map_limit,
            rounds=rounds,
        )

    def _measure(self, suspects: NDArray[np.bool_], *, label: str) -> None:
        """Measure all images from the Gaussians of those that are no suspects."""
        kept, left_out = (np.flatnonzero(which).tolist() for which in (~suspects, suspects))
        comparison = LeaveOneOut(
            self._pool_without(left_out),
            self.space.config,
            images=len(kept),
            tiles=self.space.tiles,
        )
        size = comparison.batch_size
        work = [
            (places[start : start + size], measure)
            for places, measure in ((kept, comparison.inside), (left_out, comparison.outside))
            for start in range(0, len(places), size)
        ]
        for places, measure in self.progress(work, length=len(work), label=label):
            for rows in self.store.batches(places, size=size):
                grids = measure(rows.reshape(len(rows), -1, self.space.k, self.windows.cells))
                self.grids[places] = grids.reshape(-1, *self.grids.shape[1:])
                tiling = self.space.config.tiling
                of_frames = frame_scores(*self.to_image(Cells(grids, grids)), tiling=tiling)
                self.scores[places] = of_frames.score
                self.peaks[places] = of_frames.peak

    def _pool_without(self, places: list[int]) -> Moments:
        if not places:
            return self.pooled
        removed = self.windows.new_moments(self.space.k)
        for rows in self.store.batches(places, size=1):
            self.windows.add_(removed, self.space.inputs(rows), images=len(rows))
        return self.pooled.remove(self.windows.pool_moments(removed))

    def _suspect(
        self, sample: Sample, place: int, yardstick: Yardstick, *, map_limit: float
    ) -> Suspect:
        grids = self.grids[place]  # of each tile
        maps, scores = self.to_image(Cells(grids, grids))
        tiling = self.space.config.tiling
        map_hw = maps[0]
        if tiling is not None:
            map_hw, _ = tiling.blend(list(maps), scores.tolist())
        row, column = np.unravel_index(int(map_hw.argmax()), map_hw.shape)
        return Suspect(
            sample=sample,
            score=float(self.scores[place]),
            spreads=float(yardstick.spreads(self.scores[place])),
            peak_xy=((column + 0.5) / map_hw.shape[1], (row + 0.5) / map_hw.shape[0]),
            extent=float((map_hw > map_limit).mean()),
            map_hw=map_hw,
        )
