"""The stored images that a threshold may rest on, and the part that each of them shows.

An image is evidence if no near-copy of it stays in the model that judges it: a part seen before is
no new part. Near-copies are taken out of a model together, in one fold, where all of them are
stored; where one is not, none of them counts.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from edgeseg.fitting.embedding_store import EmbeddingStore
from edgeseg.fitting.process_group import ProcessGroup
from edgeseg.vision.part_groups import GreyCopies, Grouping

_APART = 1 << 40  # added to places of images that were kept apart: they are another list's


@dataclass(frozen=True, kw_only=True)
class PartEvidence:
    """The part of each image that counts."""

    parts: Mapping[int, int]  # place of the image -> a number of its part
    grouping: Grouping
    places: tuple[int, ...] = ()  # of all images that are stored

    @property
    def left_out(self) -> int:
        """The number of images with a near-copy in the model that would judge them."""
        return len(self.places) - len(self.parts)

    @property
    def images(self) -> int:
        """The number of images that count."""
        return len(self.parts)

    @property
    def count(self) -> int:
        """The number of different parts that they show."""
        return len(set(self.parts.values()))

    def units(self) -> list[list[int]]:
        """Return the places of the images of each part, in the order of their first images."""
        members: dict[int, list[int]] = {}
        for place in sorted(self.parts):
            members.setdefault(self.parts[place], []).append(place)
        return list(members.values())

    def by_images(self) -> "PartEvidence":
        """Return every stored image as a part of its own, even if none counts."""
        return replace(self, parts={place: number for number, place in enumerate(self.places)})

    def sentences(self) -> list[str]:
        """Return what a user should know of it."""
        if not self.left_out:
            return []
        return [
            f"{self.left_out} good images do not count for the threshold: near-copies of them are "
            "in the model that would judge them; say which images show one part (--group-by), or "
            "fit with --calibration cross"
        ]


def evidence_by_folds(store: EmbeddingStore, group: ProcessGroup) -> PartEvidence:
    """Return the evidence of images that are taken out of the model, fold by fold."""
    places, grey_copies = _gather(store, group)
    parts = _first_of(group, lambda: grey_copies.groups(places))
    stored = set(places)
    outside = {part for place, part in parts.items() if place not in stored}
    counting = {place: parts[place] for place in places if parts[place] not in outside}
    return _evidence(counting, places, grey_copies)


def evidence_apart(
    seen: EmbeddingStore, unseen: EmbeddingStore, group: ProcessGroup
) -> PartEvidence:
    """Return the evidence of images that were kept apart from those of the model."""
    _, fitted = _gather(seen, group)
    places, apart = _gather(unseen, group)
    everything = GreyCopies()
    everything.merge(fitted)
    everything.merge(apart.shift_places(_APART))
    parts = _first_of(group, lambda: everything.groups([place + _APART for place in places]))
    known = {part for place, part in parts.items() if place < _APART}
    counting = {
        place: parts[place + _APART] for place in places if parts[place + _APART] not in known
    }
    return _evidence(counting, places, apart)


def _evidence(counting: dict[int, int], places: list[int], grey_copies: GreyCopies) -> PartEvidence:
    return PartEvidence(parts=counting, grouping=grey_copies.grouping, places=tuple(places))


def _gather(store: EmbeddingStore, group: ProcessGroup) -> tuple[list[int], GreyCopies]:
    """Gather places and grey copies of all processes."""
    whole, places = GreyCopies(), []
    for own, grey_copies in group.gather((store.places, store.grey_copies)):
        places += own
        whole.merge(grey_copies)
    return sorted(places), whole


def _first_of(group: ProcessGroup, parts: Callable[[], dict[int, int]]) -> dict[int, int]:
    """Use the first process's result: folds must not differ by the rounding of a machine."""
    return group.gather(parts() if group.rank == 0 else {})[0]
