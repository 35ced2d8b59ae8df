"""Try ways to find parts by a small fit each, and tell luck from a difference.

    good pictures --copies_of--> copies with a defect, in the camera's pixels, once for all ways
    each way: pictures and copies --its view--> embeddings --models without them--> TrialScores
    TrialScores --share_found, surely_better--> what each finds at the rate, and which finds more

A defect is drawn on the camera's picture before anybody looks for the part, so that every way has
to find the very same defects, and one that disturbs the search disturbs it here too. It counts for
every way or for none: places that people ignore, and what lies outside of their region, count for
none. What a way itself leaves out, such as a background, counts, and it does not find it there. A
copy whose part is not found is an alarm on the line, and so it is here.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import chain, islice
from math import inf, prod

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.messages import Message
from edgeseg.base.progress import ignore
from edgeseg.data.planted.planting import Planted
from edgeseg.data.samples import Sample, read_picture
from edgeseg.decision.operating_point import rate_threshold
from edgeseg.decision.prediction import above
from edgeseg.decision.score_origin import Promise
from edgeseg.decision.several import PartLooks
from edgeseg.fitting.embedding_store import EmbeddingStore
from edgeseg.fitting.feature_space import FeatureSpace
from edgeseg.fitting.held_out import HeldOutScorer
from edgeseg.fitting.image_pass import STORE_BYTES, collect
from edgeseg.fitting.options import FitOptions, Shard
from edgeseg.fitting.part_evidence import PartEvidence, evidence_by_folds
from edgeseg.fitting.planting import FRAME_BYTES, PlantedPictures, copies_of
from edgeseg.fitting.pooling import resolve_pool
from edgeseg.fitting.process_group import ALONE
from edgeseg.model.gaussian_head import GaussianHead
from edgeseg.vision.geometry import Geometry, Roi
from edgeseg.vision.ignored import hidden_of, paint_ignored
from edgeseg.vision.locate import Blob

MOST_IMAGES = 60
MOST_COPIES = 120
_PER_IMAGE = 8  # copies, where there are few images
_DRAWS = 1000  # of the images, to see what luck with them does
_SURE = 0.95  # share of the draws that have to agree


@dataclass(frozen=True, kw_only=True)
class TrialScores:
    """What one way makes of the good pictures and of the planted defects."""

    good: NDArray[np.float32]  # (n,): of each part, the highest of its pictures
    planted: NDArray[np.float32]  # (m,): of each copy; infinite where its part is not found
    owner: NDArray[np.intp]  # (m,): the part that each copy shows
    rate: float
    promise: Promise

    def share_found(self, parts: NDArray[np.intp]) -> float:
        """Return the share of the copies that is found, if the good parts are these."""
        good = self.good[parts].tolist()
        threshold = rate_threshold(good, false_alarm_rate=self.rate, promise=self.promise)
        times = np.bincount(parts, minlength=self.good.size)[self.owner]
        return float(times @ above(self.planted, threshold.value)) / max(int(times.sum()), 1)

    @property
    def count(self) -> int:
        """The number of planted defects that are found."""
        return round(self.share_found(np.arange(self.good.size)) * self.planted.size)


def surely_better(one: TrialScores, other: TrialScores, *, seed: int) -> bool:
    """Return whether one way finds more than another, whichever good parts happened to be there.

    Parts are drawn with replacement, with their copies. That asks both how lucky the defects are
    and how much the threshold, often a single score, depends on one odd part.
    """
    if one.count <= other.count:
        return False
    rng, parts = np.random.default_rng(seed), one.good.size
    draws = (rng.integers(parts, size=parts) for _ in range(_DRAWS))
    return sum(one.share_found(draw) > other.share_found(draw) for draw in draws) >= _SURE * _DRAWS


def pick_images(space: FeatureSpace, samples: Sequence[Sample]) -> list[Sample]:
    """Pick images from all over the list, as many as a small fit takes and keeps.

    Variants of a product have the same share: each needs a mean.
    """
    most = min(MOST_IMAGES, max(2, STORE_BYTES // (4 * prod(space.row_shape))))
    members: dict[str | None, list[Sample]] = {}
    for sample in samples:
        members.setdefault(sample.variant, []).append(sample)
    picked: list[Sample] = []
    for own in members.values():
        count = min(max(2, most // len(members)), len(own))
        places = np.linspace(0, len(own) - 1, count).round().astype(int)
        picked += [own[place] for place in places.tolist()]
    return picked


class WayTrial:
    """Small fits on the same good images, one for each way; the stores last as long as it is open.

    `copies` is the number of planted defects that count.
    """

    def __init__(
        self, spaces: Sequence[FeatureSpace], samples: Sequence[Sample], options: FitOptions
    ) -> None:
        self._samples, self._stack = samples, ExitStack()
        options = options.for_images(spaces[0].config.image_hw)
        # Sentences about single pictures are the real fit's, which comes next.
        self._options = replace(options, checkpoints=None, note=ignore)
        self._tries = [
            _WayTried(space, self._stack.enter_context(EmbeddingStore()), self._options)
            for space in spaces
        ]
        self._evidence: PartEvidence | None = None
        self._units: Sequence[Sequence[int]] = ()
        self.copies = 0

    def __enter__(self) -> "WayTrial":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def plant(self) -> None:
        """Plant defects on the camera's pictures, and look at every copy in every way."""
        embed = self._tries[0].space.input_embedder(self._options.device)
        looks, size = self._looks(), self._options.batch_size
        at_once = max(1, size // len(self._tries))
        while some := list(islice(looks, at_once)):
            inputs = [one for _, _, of_ways in some for seen in of_ways for one in seen.inputs]
            starts = range(0, len(inputs), size)
            rows = chain.from_iterable(embed(np.stack(inputs[at : at + size])) for at in starts)
            for place, planted, of_ways in some:
                for tried, seen in zip(self._tries, of_ways, strict=True):
                    tried.keep(planted, seen, rows, place=place)
            self.copies += len(some)

    def _looks(self) -> Iterator[tuple[int, Planted, list["_CopySeen"]]]:
        """Yield the copies that count: the place of their picture, and how every way sees them."""
        config = self._tries[0].space.config
        frames, roi = list(self._frames()), config.geometry.roi
        crops = [frame if roi is None else roi.crop(frame) for frame in frames]
        per_image = min(_PER_IMAGE, max(1, MOST_COPIES // len(frames)))
        copies = copies_of(crops, per_image=per_image, seed=config.seed)
        length = len(frames) * per_image
        for place, planted in self._options.steps(
            copies, length=length, label=Message("work_planting")
        ):
            whole = planted if roi is None else _in_frame(planted, frames[place], roi)
            of_ways = [tried.look(whole) for tried in self._tries]
            if all(seen.wanted for seen in of_ways):
                yield place, whole, of_ways

    def scores(self, number: int) -> TrialScores:
        """Fit one of the ways, and judge pictures and copies by models that have not seen them."""
        tried = self._tries[number]
        options = replace(self._options, planted=0, smallest=None, anomalies=())
        with collect(tried.space, self._samples, (), shard=Shard(), options=options) as collected:
            seen = collected.seen
            evidence = self._evidence_of(tried, seen)
            space = resolve_pool(tried.space, collected.moments, seen, alone=True, note=ignore)
            place_of = {sample.name: place for place, sample in enumerate(self._samples)}

            def visit(head: GaussianHead, members: Sequence[int]) -> None:
                pictures = dict.fromkeys(place_of[seen.names[member]] for member in members)
                tried.pictures.score(head, list(pictures))

            good = HeldOutScorer(
                space=space, batch_size=options.batch_size, steps=options.steps
            ).cross_fold_scores(
                space.windows.pool_moments(collected.moments),
                seen,
                evidence=evidence,
                seed=space.config.seed,
                visit=visit,
            )
        places = [place_of[name] for name in good.images]
        of_place = dict(zip(places, good.scores.tolist(), strict=True))
        return tried.result(of_place, self._units)

    def _evidence_of(self, tried: "_WayTried", seen: EmbeddingStore) -> PartEvidence:
        """Return the evidence of a way; which pictures show one part does not depend on it."""
        if self._evidence is None or tried.geometry.several is not None:
            known = evidence_by_folds(seen, ALONE)
            evidence = known if known.count > 1 else known.by_images()
        else:
            evidence = self._evidence
        if self._evidence is None:  # of the first way, which sees whole pictures
            self._evidence, self._units = evidence, evidence.units()
        return evidence

    def _frames(self) -> Iterator[NDArray[np.uint8]]:
        """Yield the pictures as they are; of large ones only as many as memory should hold."""
        held = 0
        for sample in self._samples:
            frame_hwc = read_picture(sample, max_pixels=self._options.max_pixels)
            held += frame_hwc.nbytes
            if held > FRAME_BYTES and held > frame_hwc.nbytes:
                return
            yield frame_hwc


@dataclass(frozen=True, kw_only=True)
class _CopySeen:
    """A copy as one way sees it."""

    inputs: tuple[NDArray[np.uint8], ...]  # one, or one for each of several parts
    insides: tuple[NDArray[np.bool_] | None, ...]
    lost: bool  # its part is not found
    wanted: bool  # the defect lies where people want it looked at


class _WayTried:
    """One way, its copies, and what becomes of them."""

    def __init__(self, space: FeatureSpace, store: EmbeddingStore, options: FitOptions) -> None:
        self.space, self.geometry = space, space.config.geometry
        self.pictures = PlantedPictures(space, store=store, options=options)
        self._places: list[int] = []
        self._copy_of: list[int] = []  # of each row that was kept
        self._lost: list[bool] = []

    def look(self, planted: Planted) -> _CopySeen:
        """Look for the part in a copy, as it is done with every picture."""
        config, geometry = self.space.config, self.geometry
        height, width = planted.mask_hw.shape
        parts = PartLooks.of(planted.image_hwc, geometry, config.image_hw)
        if parts is not None:
            return self._look_at_parts(planted, parts)
        found = geometry.find(planted.image_hwc)
        pose = None if found is None else found.look
        view = geometry.view((height, width), config.image_hw, pose)
        seen_hw = view.mask(planted.mask_hw)
        hidden = hidden_of(_as_named(geometry), config.image_hw)
        outside = geometry.roi is not None and not seen_hw.any()
        return _CopySeen(
            inputs=(paint_ignored(view.picture(planted.image_hwc), geometry),),
            insides=(view.inside(config.grid_hw),),
            lost=found is not None and not found.ok,
            wanted=not outside and (hidden is None or not (seen_hw & hidden.pixels_hw).any()),
        )

    def _look_at_parts(self, planted: Planted, parts: PartLooks) -> _CopySeen:
        """Cut all parts out of a copy; one that is no whole part makes it an alarm."""
        pictures = [view.picture(planted.image_hwc) for view in parts.views]
        return _CopySeen(
            inputs=tuple(paint_ignored(picture, self.geometry) for picture in pictures),
            insides=tuple(view.inside(self.space.config.grid_hw) for view in parts.views),
            lost=bool(parts.seen.lacking) or not all(part.found.ok for part in parts.seen.parts),
            wanted=True,
        )

    def keep(
        self, planted: Planted, seen: _CopySeen, rows: Iterator[NDArray[np.float32]], *, place: int
    ) -> None:
        """Keep an embedded copy of the picture at a place; its rows come next."""
        for inside in seen.insides:
            self.pictures.keep(next(rows), planted, place=place, inside=inside)
            self._copy_of.append(len(self._places))
        self._places.append(place)
        self._lost.append(seen.lost)

    def result(self, good: Mapping[int, float], units: Sequence[Sequence[int]]) -> TrialScores:
        """Return the scores of good parts and copies; `good` is by place, `units` are the parts."""
        part_of = {place: part for part, unit in enumerate(units) for place in unit}
        judged = self.pictures.result()
        scores = np.full(len(self._places), -inf, np.float32)
        if judged is not None:
            np.maximum.at(scores, self._copy_of, judged.scores)
        return TrialScores(
            good=np.array([max(good[place] for place in unit) for unit in units], np.float32),
            planted=np.where(self._lost, np.float32(inf), scores),
            owner=np.array([part_of[place] for place in self._places], np.intp),
            rate=self.space.config.false_alarm_rate,
            promise=self.space.config.promise,
        )


def _in_frame(planted: Planted, frame_hwc: NDArray[np.uint8], roi: Roi) -> Planted:
    """Return a copy of a region as one of the whole picture."""
    whole_hwc, mask_hw = frame_hwc.copy(), np.zeros(frame_hwc.shape[:2], np.bool_)
    roi.crop(whole_hwc)[...] = planted.image_hwc
    mask_hw[roi.y : roi.y + roi.h, roi.x : roi.x + roi.w] = planted.mask_hw
    return replace(planted, image_hwc=whole_hwc, mask_hw=mask_hw)


def _as_named(geometry: Geometry) -> Geometry:
    """Return the geometry with what people named alone: nothing that a way leaves out by itself."""
    if not isinstance(geometry.locator, Blob):
        return geometry
    return replace(geometry, locator=replace(geometry.locator, background=()))
