"""Planted defects of a fit: copies of some good images, scored by models without those images.

good images --planted_set--> copies --embedder--> store --models of the folds--> PlantedScores

They never enter moments or scores of good images: a fit without them gives the same model, except
for the limit of foreign frames, which they may raise.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import DatasetError
from edgeseg.base.messages import Message
from edgeseg.data.planted.planting import Planted, planted_set
from edgeseg.decision.planted_scores import PlantedScores
from edgeseg.fitting.embedding_store import EmbeddingStore
from edgeseg.fitting.feature_space import FeatureSpace
from edgeseg.fitting.options import FitOptions
from edgeseg.model.gaussian_head import GaussianHead
from edgeseg.model.predictor import Embedder, frame_scores
from edgeseg.vision.ignored import hidden_of

FRAME_BYTES = 256 << 20  # of good images held at once: large ones get fewer copies
_PER_IMAGE = 2  # copies of an image, where there are few


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How many images get copies, and how many copies each."""

    images: int
    per_image: int

    @classmethod
    def of(cls, most: int, *, images: int, image_hw: tuple[int, int]) -> "Plan":
        """Plan at most `most` copies of so many images."""
        per_image = 1 if images >= most else min(_PER_IMAGE, most)
        room = max(1, FRAME_BYTES // (3 * image_hw[0] * image_hw[1]))
        return cls(images=min(images, most // per_image, room), per_image=per_image)


class PlantedPictures:
    """Embedded copies by the place of their image, and their scores by models of folds."""

    def __init__(self, space: FeatureSpace, *, store: EmbeddingStore, options: FitOptions) -> None:
        self.space, self.store, self.options = space, store, options
        self.copies: list[tuple[int, str, float]] = []  # place, kind, share of the picture
        self._scores: dict[int, tuple[float, float]] = {}  # score and floor, by number
        self._insides: dict[int, NDArray[np.bool_] | None] = {}  # cells seen, by number; None: all

    def add(
        self,
        frames: Sequence[NDArray[np.uint8]],
        places: Sequence[int],
        *,
        per_image: int,
        embed: Embedder,
        insides: Mapping[int, NDArray[np.bool_]],
    ) -> None:
        """Plant defects on these images, which stand at these places of the list.

        `insides` are the cells that the camera saw of them, by place, where it did not see all.
        """
        waiting: list[tuple[int, Planted]] = []
        config = self.space.config
        hidden = hidden_of(config.geometry, config.image_hw)
        copies = copies_of(frames, per_image=per_image, seed=self.space.config.seed)
        length = len(frames) * per_image
        for index, planted in self.options.steps(
            copies, length=length, label=Message("work_planting")
        ):
            if hidden is not None and (planted.mask_hw & hidden.pixels_hw).any():
                continue
            waiting.append((places[index], planted))
            if len(waiting) == self.options.batch_size:
                self._embed(waiting, embed=embed, insides=insides)
                waiting = []
        if waiting:
            self._embed(waiting, embed=embed, insides=insides)

    def _embed(
        self,
        copies: Sequence[tuple[int, Planted]],
        *,
        embed: Embedder,
        insides: Mapping[int, NDArray[np.bool_]],
    ) -> None:
        embedded = embed(np.stack([planted.image_hwc for _, planted in copies]))
        for (place, planted), row in zip(copies, embedded, strict=True):
            self.keep(row, planted, place=place, inside=insides.get(place))

    def keep(
        self,
        row: NDArray[np.float32],
        planted: Planted,
        *,
        place: int,
        inside: NDArray[np.bool_] | None,
    ) -> None:
        """Keep an embedded copy of the image at a place, and which cells the camera saw."""
        self._insides[len(self.copies)] = inside
        self.copies.append((place, planted.kind, planted.area_px / planted.mask_hw.size))
        self.store.append(row, len(self.store))

    def score(self, head: GaussianHead, places: Sequence[int]) -> None:
        """Score the copies of images that a model has not seen."""
        unseen = set(places)
        numbers = [number for number, copy in enumerate(self.copies) if copy[0] in unseen]
        judged: list[tuple[float, float]] = []
        for rows in self.store.batches(numbers, size=self.options.batch_size):
            some = numbers[len(judged) : len(judged) + len(rows)]
            insides = [self._insides[number] for number in some]
            maps, scores = head.judge(self.space.inputs(rows), insides)
            of_frames = frame_scores(maps, scores, tiling=self.space.config.tiling)
            judged += zip(of_frames.score.tolist(), of_frames.floor.tolist(), strict=True)
        self._scores.update(zip(numbers, judged, strict=True))

    def by_place(self) -> list[tuple[int, float]]:
        """Return the place of the image behind each copy that was judged, and the copy's score."""
        return [(self.copies[number][0], self._scores[number][0]) for number in self._scores]

    def result(self) -> PlantedScores | None:
        """Return the scores of the copies that were judged; None if there are none."""
        if not self._scores:
            return None
        numbers = sorted(self._scores)
        return PlantedScores(
            scores=np.array([self._scores[number][0] for number in numbers], np.float32),
            floors=np.array([self._scores[number][1] for number in numbers], np.float32),
            areas=np.array([self.copies[number][2] for number in numbers], np.float32),
            kinds=tuple(self.copies[number][1] for number in numbers),
        )


def copies_of(
    frames: Sequence[NDArray[np.uint8]], *, per_image: int, seed: int
) -> Iterator[tuple[int, Planted]]:
    """Yield planted copies with the number of their image, except where no defect is visible."""
    start = 0
    while start < len(frames):
        left = range(start, len(frames))
        done = 0
        try:
            for planted in planted_set(frames, per_image=per_image, seed=seed, places=left):
                yield start + done // per_image, planted
                done += 1
            return
        except DatasetError:
            start += done // per_image + 1
