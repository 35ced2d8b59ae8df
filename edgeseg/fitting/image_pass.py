"""One pass of a shard's images through the backbone: moments, and embeddings to calibrate on."""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import DatasetError
from edgeseg.base.messages import Message
from edgeseg.config import FitConfig
from edgeseg.data.datasets import Dataset, Sample, load_batches, split_holdout
from edgeseg.data.part_samples import PartSamples
from edgeseg.data.samples import TooManyUnreadableError
from edgeseg.fitting.checkpoint import Checkpoint, Collected
from edgeseg.fitting.embedding_store import EmbeddingStore
from edgeseg.fitting.feature_space import FeatureSpace
from edgeseg.fitting.held_out import permutation
from edgeseg.fitting.odd_inputs import Census
from edgeseg.fitting.options import FitOptions, Shard
from edgeseg.fitting.planting import Plan, PlantedPictures
from edgeseg.fitting.smallest import SPOTS, spots_on
from edgeseg.fitting.variants import add_images_, numbers_of
from edgeseg.vision.appearance import GoodAppearance, appearance_of
from edgeseg.vision.group_by import GroupBy
from edgeseg.vision.part_groups import GreyCopies
from edgeseg.vision.picture_kinds import is_grey

# More good images than this sharpen no threshold that anyone asks for, and the store stays small.
CALIBRATION_LIMIT = 1000
STORE_BYTES = 2 << 30  # of temporary disk, whatever the size of an embedding


def split(
    dataset: Dataset, config: FitConfig, by: GroupBy
) -> tuple[Sequence[Sample], Sequence[Sample]]:
    """Split images into those to fit on and those to calibrate on; known parts stay together."""
    train = dataset.train
    if config.calibration == "cross" or len(train) < 2:
        return train, ()
    if not by.knows:
        return split_holdout(train, fraction=config.holdout, seed=config.seed)
    part_of = {sample: by.part(sample.image, place=at) for at, sample in enumerate(train)}
    firsts = {part: sample for sample, part in reversed(part_of.items())}
    _, apart = split_holdout(tuple(firsts.values()), fraction=config.holdout, seed=config.seed)
    kept_apart = {part_of[sample] for sample in apart}
    ordered = sorted(train, key=lambda sample: sample.order)
    fitted = tuple(sample for sample in ordered if part_of[sample] not in kept_apart)
    return fitted, tuple(sample for sample in ordered if part_of[sample] in kept_apart)


@contextmanager
def collect(
    space: FeatureSpace,
    train: Sequence[Sample],
    held_out: Sequence[Sample],
    *,
    shard: Shard,
    options: FitOptions,
    planted: int = 0,
    once: Container[int] | None = None,
) -> Iterator[Collected]:
    """Go through this shard's images; the stores last as long as the context.

    At most `planted` copies with a planted defect are collected beside them. `once` are prints of
    images that are not counted again, see Census.
    """
    options = options.for_images(space.config.image_hw)
    pictures = _several(space, options)
    if pictures is not None:
        train, held_out = pictures.of(train), pictures.of(held_out)
    with ExitStack() as stack:
        checkpoint = Checkpoint.of_pass(space, train, shard=shard, options=options)
        stack.callback(checkpoint.tidy)
        checkpoint.open()
        seen = EmbeddingStore(checkpoint.store_path, row_shape=space.row_shape)
        collected = Collected(
            moments=space.windows.new_moments(space.k),
            seen=stack.enter_context(seen),
            unseen=stack.enter_context(EmbeddingStore()),
            census=Census(once=once),
        )
        checkpoint.restore(collected)
        image_pass = _ImagePass(space, shard=shard, options=options, collected=collected)
        image_pass.pictures = pictures
        image_pass.fit(train, after_batch=lambda: checkpoint.save_if_due(collected))
        kept = image_pass.keep(held_out)
        if planted:
            copies = PlantedPictures(
                space, store=stack.enter_context(EmbeddingStore()), options=options
            )
            samples = kept if len(collected.unseen) else train
            image_pass.plant(copies, samples, most=planted)
            collected.planted = copies
        if options.smallest is not None and options.group.size == 1:
            spots = PlantedPictures(
                space, store=stack.enter_context(EmbeddingStore()), options=options
            )
            samples = kept if len(collected.unseen) else train
            image_pass.plant_spots(spots, samples, smallest=options.smallest)
            collected.spots = spots
        space.to_cpu()
        yield collected


def _several(space: FeatureSpace, options: FitOptions) -> PartSamples | None:
    """Return what finds the parts of pictures that show several; None where they show one."""
    geometry = space.config.geometry
    if geometry.several is None:
        return None
    return PartSamples(
        geometry=geometry,
        by=options.group_by,
        max_pixels=options.max_pixels,
        steps=options.steps,
    )


class _ImagePass:
    def __init__(
        self, space: FeatureSpace, *, shard: Shard, options: FitOptions, collected: Collected
    ) -> None:
        self.space, self.shard, self.options, self.collected = space, shard, options, collected
        self.windows, self.embed = space.windows, space.embedder(options.device)
        self.insides: dict[Sample, NDArray[np.bool_]] = {}  # of images on their way to a store
        self.prints: dict[Sample, int] = {}  # the same
        self.pictures: PartSamples | None = None  # None: every picture shows one part

    def fit(self, samples: Sequence[Sample], *, after_batch: Callable[[], None]) -> None:
        """Add images to the moments and keep some of their embeddings."""
        told = self.collected.seen.grey_copies.told = self._known_parts(samples)
        chosen = self._choose_kept(len(samples), told)
        self.collected.seen.names = {place: samples[place].name for place in chosen}
        self.collected.seen.variants = self._variants(samples, sorted(chosen))
        batches = self.shard.batches(len(samples), self.options.batch_size)[
            self.collected.batches :
        ]
        looks = _Looks(grey_copies=self.collected.seen.grey_copies, needed=chosen)
        for places, embedded in self._embed(
            samples, batches, label=Message("work_fitting"), looks=looks
        ):
            add_images_(
                self.windows,
                self.collected.moments,
                self.space.inputs(embedded),
                images=len(embedded),
                variants=numbers_of(self.space.config, samples, places),
            )
            _store(self.collected.seen, places, embedded, chosen)
            self._note_insides(self.collected.seen, samples, places)
            self.collected.prints |= {self.prints.pop(samples[place]) for place in places}
            self.collected.batches += 1
            after_batch()

    def keep(self, samples: Sequence[Sample]) -> Sequence[Sample]:
        """Embed images for calibration alone, and of many only as many as calibration uses."""
        chosen = sorted(self._choose_kept(len(samples), self._known_parts(samples)))
        kept = [samples[place] for place in chosen]
        self.collected.unseen.names = {place: sample.name for place, sample in enumerate(kept)}
        self.collected.unseen.variants = self._variants(kept, range(len(kept)))
        told = self._known_parts(samples)
        if told:
            numbers = {place: told[old] for place, old in enumerate(chosen)}
            self.collected.unseen.grey_copies.told = numbers
        batches = self.shard.batches(len(kept), self.options.batch_size)
        looks = _Looks(grey_copies=self.collected.unseen.grey_copies, needed=set(range(len(kept))))
        for places, embedded in self._embed(
            kept, batches, label=Message("work_calibrating"), looks=looks
        ):
            _store(self.collected.unseen, places, embedded, set(places))
            self._note_insides(self.collected.unseen, kept, places)
        return kept

    def plant(self, pictures: PlantedPictures, samples: Sequence[Sample], *, most: int) -> None:
        """Embed copies of some images whose own embeddings were kept, with a defect each.

        They are decoded again: a continued pass no longer has them.
        """
        config, order = self.space.config, self._planted_on(samples)
        plan = Plan.of(most, images=len(order), image_hw=config.image_hw)
        places = order[: plan.images]
        chosen = [samples[place] for place in places]
        batches = load_batches(
            chosen,
            size_hw=config.image_hw,
            geometry=config.geometry,
            batch_size=1,
            max_pixels=self.options.max_pixels,
        )
        frames, insides = [], {}
        for place, batch in zip(places, batches, strict=True):
            frames.append(batch.frames[0])
            inside = batch.views[0].inside(config.grid_hw)
            if inside is not None:
                insides[place] = inside
        pictures.add(frames, places, per_image=plan.per_image, embed=self.embed, insides=insides)

    def plant_spots(
        self, pictures: PlantedPictures, samples: Sequence[Sample], *, smallest: int
    ) -> None:
        """Embed copies of some images with a spot of the smallest size that matters."""
        places = self._planted_on(samples)[:SPOTS]
        spots = spots_on(samples, places, config=self.space.config, smallest=smallest)
        label = Message("work_planting")
        for spot in self.options.steps(spots, length=len(places), label=label):
            (row,) = self.embed(spot.input_hwc[None])
            pictures.keep(row, spot.planted, place=spot.place, inside=spot.inside)

    def _planted_on(self, samples: Sequence[Sample]) -> list[int]:
        """Return the places of images whose embeddings were kept, in the order of their choice."""
        config, collected = self.space.config, self.collected
        stored = set((collected.unseen if len(collected.unseen) else collected.seen).places)
        return [place for place in permutation(len(samples), config.seed) if place in stored]

    def _note_insides(
        self, store: EmbeddingStore, samples: Sequence[Sample], places: Sequence[int]
    ) -> None:
        for place in places:
            inside = self.insides.pop(samples[place], None)
            if inside is not None:
                store.insides[place] = inside

    def _variants(self, samples: Sequence[Sample], places: Sequence[int]) -> dict[int, int]:
        """Return the variants of images, where their folders tell them."""
        if any(samples[place].variant is None for place in places):
            return {}
        return dict(zip(places, numbers_of(self.space.config, samples, places), strict=False))

    def _choose_kept(self, count: int, told: Mapping[int, int]) -> set[int]:
        """Choose the images whose embeddings are kept; of known parts all images or none."""
        limit = max(2, STORE_BYTES // (4 * prod(self.space.row_shape)))
        if self.pictures is None:  # else many parts are few pictures
            limit = min(CALIBRATION_LIMIT, limit)
        order = permutation(count, self.space.config.seed)
        if not told or count <= limit:
            return set(order[:limit])
        members: dict[int, list[int]] = {}
        for place in order:
            members.setdefault(told[place], []).append(place)
        chosen: set[int] = set()
        for part in members.values():
            chosen |= set(part) if len(chosen) + len(part) <= limit else set()
        return chosen or set(order[:limit])

    def _known_parts(self, samples: Sequence[Sample]) -> dict[int, int]:
        """Return the part of each image, where it is known; of several parts their picture."""
        if self.pictures is not None:
            return self.pictures.groups(samples)
        by = self.options.group_by
        if not by.knows:
            return {}
        return {place: by.part(sample.image, place=place) for place, sample in enumerate(samples)}

    def _embed(
        self,
        samples: Sequence[Sample],
        batches: Sequence[range],
        *,
        label: Message,
        looks: "_Looks",
    ) -> Iterator[tuple[list[int], NDArray[np.float32]]]:
        work = looks.note_all(self._frames(samples, batches))
        for places, frames in self.options.steps(work, length=len(batches), label=label):
            self.options.group.check()
            if not places:  # not one picture of this batch can be read
                yield [], np.empty((0, *self.space.row_shape), np.float32)
                continue
            newest = max(samples[place].image.stat().st_mtime for place in places)
            self.collected.newest = max(self.collected.newest, newest)
            appearance = GoodAppearance.of(
                map(appearance_of, frames), grey=sum(map(is_grey, frames))
            )
            self.collected.appearance = self.collected.appearance.merge(appearance)
            yield places, self.embed(np.stack(frames))

    def _frames(
        self, samples: Sequence[Sample], batches: Sequence[range]
    ) -> Iterator[tuple[list[int], list[NDArray[np.uint8]]]]:
        """Yield the readable images of each batch, decoded ahead across batches.

        An unreadable image leaves a gap in its batch: the others must not move.
        """
        decoded = self._decode([samples[place] for batch in batches for place in batch])
        ahead = next(decoded, None)
        for batch in batches:
            places, frames = [], []
            for place in batch:
                if ahead is not None and ahead[0] is samples[place]:
                    places.append(place)
                    frames.append(ahead[1])
                    ahead = next(decoded, None)
            yield places, frames

    def _decode(self, samples: Sequence[Sample]) -> Iterator[tuple[Sample, NDArray[np.uint8]]]:
        loaded = load_batches(
            samples,
            size_hw=self.space.config.image_hw,
            geometry=self.space.config.geometry,
            lenient=False,
            batch_size=1,
            max_bad=self.options.max_bad,
            max_pixels=self.options.max_pixels,
            on_bad=self._on_bad,
        )
        try:
            for batch in loaded:
                print_ = self.collected.census.add(batch)
                if print_ is None:
                    continue
                self.prints[batch.samples[0]] = print_
                inside = batch.views[0].inside(self.space.config.grid_hw)
                if inside is not None:
                    self.insides[batch.samples[0]] = inside
                yield batch.samples[0], batch.frames[0]
        except TooManyUnreadableError:
            raise
        except DatasetError:
            # That no image of one shard can be read is no error yet: others may have some.
            if len(self.collected.bad) > self.options.max_bad:
                raise

    def _on_bad(self, path: Path, reason: str) -> None:
        self.collected.bad.add(path.as_posix())
        self.options.note(f"skipped {reason}")


@dataclass(frozen=True, kw_only=True)
class _Looks:
    """Grey copies of the images of a pass, by which near-copies are found."""

    grey_copies: GreyCopies
    needed: set[int]  # images that a threshold may rest on

    def note_all(
        self, batches: Iterable[tuple[list[int], list[NDArray[np.uint8]]]]
    ) -> Iterator[tuple[list[int], list[NDArray[np.uint8]]]]:
        """Yield the batches, and keep a grey copy of each image whose part is not known."""
        for places, frames in batches:
            for place, frame_hwc in zip(places, frames, strict=True):
                if not self.grey_copies.told:
                    self.grey_copies.add(place, frame_hwc, needed=place in self.needed)
            yield places, frames


def _store(
    store: EmbeddingStore, places: Sequence[int], embedded: NDArray[np.float32], chosen: set[int]
) -> None:
    for place, row in zip(places, embedded, strict=True):
        if place in chosen:
            store.append(row, place)
