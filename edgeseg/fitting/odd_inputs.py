"""Notes on good images that a user may want to look at."""

import hashlib
from collections import Counter
from collections.abc import Container, Iterator
from pathlib import PurePosixPath

import numpy as np
from numpy.typing import NDArray

from edgeseg.data.samples import Batch
from edgeseg.decision.calibration import GoodImageScores
from edgeseg.decision.outliers import outside
from edgeseg.vision.picture_kinds import Colour, PictureKinds, is_grey

MOST_KNOWN = 100_000  # images whose fingerprints are kept: 10 MB
_SAME_SHAPE = 0.02  # aspect ratios closer than this differ by a crop of a few pixels
_SHOWN = 5


class Census:
    """Sizes and kinds of the pictures of a pass, and which of them are copies of others.

    It covers the pictures that this process has decoded: the rest of a continued pass, or the share
    of a shard. `once` are prints of pictures that a model has already: neither these nor copies
    among the new ones count again. Where it is None, copies count and are only named.
    """

    def __init__(self, *, once: Container[int] | None = None) -> None:
        self.sizes: Counter[tuple[int, int]] = Counter()
        self.kinds = PictureKinds()
        self.copies: list[tuple[str, str]] = []  # a picture, and the first one like it
        self.fitted: list[str] = []  # pictures that the model has already
        self._once = once
        self._known: dict[int, str] = {}

    def add(self, batch: Batch) -> int | None:
        """Note a batch of one picture; return its print, or None if it does not count again."""
        (sample,), (size_hw,), frame_hwc = batch.samples, batch.sizes_hw, batch.frames[0]
        self.sizes[size_hw] += 1
        self.kinds.add(grey=is_grey(frame_hwc), used_bits=batch.used_bits[0])
        print_, name = print_of(frame_hwc, size_hw), sample.name
        if self._once is not None and print_ in self._once:
            self.fitted.append(name)
            return None
        if print_ in self._known:
            self.copies.append((name, self._known[print_]))
            return print_ if self._once is None else None
        if len(self._known) < MOST_KNOWN:
            self._known[print_] = name
        return print_

    def sentences(self, fitted: Colour | None = None) -> Iterator[str]:
        """Yield a sentence for each odd thing; `fitted` is the kind of the model's own pictures."""
        common = [f"{h}x{w} ({n})" for (h, w), n in self.sizes.most_common(3)]
        more = ", ..." if len(self.sizes) > len(common) else ""
        listed = f"{', '.join(common)}{more}, height x width (pictures)"
        ratios = [width / height for height, width in self.sizes]
        if ratios and max(ratios) > (1 + _SAME_SHAPE) * min(ratios):
            yield (
                f"pictures of different shapes are stretched to one: {listed}; crop them alike, "
                "or fit each kind apart"
            )
        elif len(self.sizes) > 1:
            yield (
                f"pictures of different sizes are scaled to one: {listed}; expected one camera at "
                "one distance"
            )
        yield from self.kinds.sentences(fitted)
        if self._once is not None:
            yield from self._left_out_sentences()
        elif self.copies:
            copy, first = (PurePosixPath(path).name for path in self.copies[0])
            yield (
                f"exact copies among {sum(self.sizes.values())} pictures: {len(self.copies)}, the "
                f"first is {copy} of {first}; they are one part, and count as one"
            )

    def _left_out_sentences(self) -> Iterator[str]:
        names = [*self.fitted, *(copy for copy, _ in self.copies)]
        if names:
            yield (
                f"left out of {self.sizes.total()} pictures: {len(self.fitted)} that the model has "
                f"already and {len(self.copies)} that come twice, {PurePosixPath(names[0]).name} "
                "the first; each counts once"
            )


def print_of(frame_hwc: NDArray[np.uint8], size_hw: tuple[int, int]) -> int:
    """Hash pixels, not files: the same picture may come in another format."""
    pixels = np.ascontiguousarray(frame_hwc)
    digest = hashlib.blake2b(pixels.data, digest_size=8, salt=b"%d" % size_hw[0]).digest()
    return int.from_bytes(digest, "little") >> 1  # 63 bits: whole numbers of JSON have a sign


def foreign_images(good: GoodImageScores) -> list[int]:
    """Return the good images that score far outside the others, the worst first."""
    far = outside(good.scores.astype(np.float64))
    return sorted(np.flatnonzero(far).tolist(), key=lambda place: -good.scores[place])


def foreign_sentence(good: GoodImageScores, *, screened: bool = True) -> str | None:
    """Name images that do not look like the others; None if all do or names are not known.

    `screened` is whether a fit can leave such images out by itself.
    """
    places = foreign_images(good)
    if not places or not good.images:
        return None
    names = [PurePosixPath(good.images[place]).name for place in places]
    shown = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
    times = float(good.scores[places[0]] / np.median(good.scores))
    several = len(names) > 1
    verb, up_to, them = ("do", "up to ", "them") if several else ("does", "", "it")
    robust = "; --robust drop leaves such images out" if screened else ""
    return (
        f"{len(names)} of {good.count} images {verb} not look like the others, {up_to}{times:.1f} "
        f"times the usual score: {shown}; look at {them}{robust}"
    )
