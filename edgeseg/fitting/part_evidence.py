"""Which stored images a threshold may rest on, and which of them show one part.

An image is evidence if no near-copy of it stays in the model that judges it: a part seen before is
no new part. Near-copies are taken out of a model together, in one fold, where all of them are
stored; where one is not, none of them counts.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from edgeseg.fitting.embedding_store import EmbeddingStore
from edgeseg.fitting.group import Group
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
        """Images with a near-copy in the model that would judge them."""
        return len(self.places) - len(self.parts)

    @property
    def images(self) -> int:
        """How many count."""
        return len(self.parts)

    @property
    def count(self) -> int:
        """How many different parts they show."""
        return len(set(self.parts.values()))

    def units(self) -> list[list[int]]:
        """Places of the images of each part, in the order of their first images."""
        members: dict[int, list[int]] = {}
        for place in sorted(self.parts):
            members.setdefault(self.parts[place], []).append(place)
        return list(members.values())

    def by_images(self) -> "PartEvidence":
        """Every stored image by itself, though they show one part or none that counts."""
        return replace(self, parts={place: number for number, place in enumerate(self.places)})

    def sentences(self) -> list[str]:
        """What a user should know of it."""
        if not self.left_out:
            return []
        return [
            f"{self.left_out} good images do not count for the threshold: near-copies of them are "
            "in the model that would judge them; say which images show one part (--group-by), or "
            "fit with --calibration cross"
        ]


def fitted_evidence(store: EmbeddingStore, group: Group) -> PartEvidence:
    """Of images that are taken out of the model, fold by fold."""
    places, grey_copies = _shared(store, group)
    parts = _first_of(group, lambda: grey_copies.groups(places))
    stored = set(places)
    outside = {part for place, part in parts.items() if place not in stored}
    counting = {place: parts[place] for place in places if parts[place] not in outside}
    return _evidence(counting, places, grey_copies)


def kept_evidence(seen: EmbeddingStore, unseen: EmbeddingStore, group: Group) -> PartEvidence:
    """Of images that were kept apart, beside the model of the others."""
    _, fitted = _shared(seen, group)
    places, apart = _shared(unseen, group)
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


def _shared(store: EmbeddingStore, group: Group) -> tuple[list[int], GreyCopies]:
    """Places and small copies of all processes."""
    whole, places = GreyCopies(), []
    for own, grey_copies in group.gather((store.places, store.grey_copies)):
        places += own
        whole.merge(grey_copies)
    return sorted(places), whole


def _first_of(group: Group, parts: Callable[[], dict[int, int]]) -> dict[int, int]:
    """What the first process finds: folds must not differ by the rounding of another machine."""
    return group.gather(parts() if group.rank == 0 else {})[0]
