"""How many different parts the good pictures show, counted as a fit counts them.

looks, one a picture --GreyCopies--> near-copies are one part --> the first picture of each

Many pictures take seconds to compare, so a thread of low priority counts; until it has ended, no
number is known.
"""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from edgeseg.teach.giving_way import give_way_here
from edgeseg.vision.part_groups import GreyCopies, is_sampled

_REST = 20.0  # times as long as the last count took: then the next one may begin


@dataclass(frozen=True, kw_only=True)
class PartCopy:
    """The small grey copy of a picture, and how far it is from the picture taken again."""

    grey: NDArray[np.uint8]
    again: float

    @classmethod
    def of(cls, picture_hwc: NDArray[np.uint8]) -> "PartCopy":
        """Make the copy of a picture."""
        copies = GreyCopies()
        copies.add(0, picture_hwc)
        return cls(grey=copies.greys[0], again=copies.again[0])


@dataclass(frozen=True, kw_only=True)
class CountedParts:
    """The different parts of some pictures."""

    first: Mapping[str, str] = field(default_factory=dict)  # of each picture: of its part the first

    @property
    def count(self) -> int:
        """The number of different parts."""
        return len(set(self.first.values()))

    def twin(self, name: str) -> str | None:
        """Return the earlier picture of the same part; None for the first of a part."""
        first = self.first.get(name, name)
        return None if first == name else first


def count_parts(copies: Mapping[str, PartCopy]) -> CountedParts:
    """Count the parts of pictures that come in the order of a fit."""
    names, every = list(copies), list(copies.values())
    greys = GreyCopies(
        greys={place: copy.grey for place, copy in enumerate(every)},
        again={place: copy.again for place, copy in enumerate(every) if is_sampled(place)},
    )
    first: dict[int, str] = {}
    parts = greys.groups(range(len(names)))
    of_each = {name: first.setdefault(parts[at], name) for at, name in enumerate(names)}
    return CountedParts(first=of_each)


class PartCount:
    """Counts parts in a thread; may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._key: object = None
        self._counted: CountedParts | None = None
        self._thread: threading.Thread | None = None
        self._next_s = 0.0
        self.version = 0  # rises with every count

    def get(self, key: object, copies: Mapping[str, PartCopy]) -> CountedParts | None:
        """Return what was counted if that was of this key; None while it is counted anew."""
        with self._lock:
            if key != self._key and self._thread is None and time.monotonic() >= self._next_s:
                self._thread = threading.Thread(
                    target=self._run, args=(key, copies), name="parts", daemon=True
                )
                self._thread.start()
            return self._counted if key == self._key else None

    @property
    def last(self) -> CountedParts | None:
        """What was counted last."""
        return self._counted

    def settle(self) -> None:
        """Wait until a count that goes on has ended."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self, key: object, copies: Mapping[str, PartCopy]) -> None:
        give_way_here()
        begun_s = time.monotonic()
        counted = count_parts(copies)
        ended_s = time.monotonic()
        with self._lock:
            self._key, self._counted, self._thread = key, counted, None
            self._next_s = ended_s + _REST * (ended_s - begun_s)
            self.version += 1
