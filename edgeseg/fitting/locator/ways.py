"""The ways to find parts among which a fit may choose, each learned from all good images.

locate=auto --open_ways--> none, blob, where there are several blobs of like size also blobs and,
                           where a mark is given, anchor: learned, or why not
good images --look_everywhere--> pictures that every way can use, and how many it loses
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import DatasetError, EdgesegError, UsageError
from edgeseg.base.messages import Message, Sentence, Setting, Words
from edgeseg.config import FitConfig
from edgeseg.data.datasets import Dataset
from edgeseg.data.samples import Sample, read_picture
from edgeseg.fitting.locator.learn_locator import pick_evenly
from edgeseg.fitting.locator.wish import WITH_MARK, check_wish, mark_of
from edgeseg.fitting.options import FitOptions
from edgeseg.fitting.spaces import settle_geometry
from edgeseg.vision.blobs import SEVERAL

_LOOKED_AT = 40  # good images: they say whether there are several parts in most
_LOST = 0.05  # share of the good images whose part a way may lose; of few images one


@dataclass(frozen=True, kw_only=True)
class Way:
    """A way to find parts, and what a fit would learn of it; or why it is out."""

    name: str  # none, blob, blobs, anchor
    config: FitConfig  # with the geometry that was learned
    said: tuple[str, ...] = ()  # what learning it had to say
    out: Words | None = None
    found: int = 0  # good images whose part is where it may be and looks like one
    looked: int = 0  # good images in which it was looked for


def open_ways(
    dataset: Dataset, config: FitConfig, options: FitOptions, *, reference: Path | None
) -> list[Way]:
    """Learn every way as a fit would, the simplest first; one that is refused is out."""
    wish, ways = config.geometry.locate, []
    if config.frame_hw is not None:
        raise UsageError(
            Setting("locate", wish),
            ": parts are followed as a whole, and tiles are not; fit without tiles, with a larger "
            "size",
        )
    check_wish(wish)
    kinds = (("none", ""), ("blob", "blob"), (SEVERAL, SEVERAL), ("anchor", mark_of(wish)))
    for name, locate in kinds:
        plain = replace(config, geometry=replace(config.geometry, locate=locate))
        if name == "anchor" and not locate:
            out = Sentence("it needs a mark that all parts have: ", Setting("locate", WITH_MARK))
            ways.append(Way(name=name, config=plain, out=out))
        elif name == SEVERAL:
            way = _learn(name, plain, dataset, options, reference=reference)
            ways += [way] if _shows_several(way, dataset, options) else []
        else:
            ways.append(_learn(name, plain, dataset, options, reference=reference))
    return ways


def _learn(
    name: str, config: FitConfig, dataset: Dataset, options: FitOptions, *, reference: Path | None
) -> Way:
    said: list[str] = []
    try:
        settled = settle_geometry(
            config, dataset, reference=reference, note=said.append, max_pixels=options.max_pixels
        )
    except EdgesegError as error:
        if name == "none":
            raise
        return Way(name=name, config=config, out=Sentence(error))
    return Way(name=name, config=settled, said=tuple(said))


def _shows_several(way: Way, dataset: Dataset, options: FitOptions) -> bool:
    """Return whether most good pictures show more than one blob of like size."""
    several, counts = way.config.geometry.several, []
    if several is None:
        return False
    for sample in pick_evenly(dataset.train, _LOOKED_AT):
        with suppress(DatasetError):
            image_hwc = read_picture(sample, max_pixels=options.max_pixels)
            found = several.find_parts(image_hwc).parts
            counts.append(sum(part.found.ok for part in found))
    return sum(count > 1 for count in counts) > len(counts) / 2


def look_everywhere(
    ways: Sequence[Way], dataset: Dataset, options: FitOptions
) -> tuple[list[Way], list[Sample]]:
    """Look for the part in every good image; a way that loses it in more than a few is out.

    Return the ways with what they found, and the images that all ways left can use.
    """
    readable: list[Sample] = []
    usable: dict[str, set[Sample]] = {way.name: set() for way in ways}
    found = dict.fromkeys(usable, 0)
    images = dataset.train
    for sample in options.steps(images, length=len(images), label=Message("work_finding")):
        try:
            image_hwc = read_picture(sample, max_pixels=options.max_pixels)
        except DatasetError:  # the fit says so
            continue
        readable.append(sample)
        for way in ways:
            finds, ok = _look(way, image_hwc)
            usable[way.name] |= {sample} if finds else set()
            found[way.name] += ok
    looked = [
        replace(
            way,
            found=found[way.name],
            looked=len(readable),
            out=_reason(way, len(readable), len(usable[way.name]), found[way.name], options),
        )
        for way in ways
    ]
    left = [way.name for way in looked if way.out is None]
    return looked, [each for each in readable if all(each in usable[name] for name in left)]


def _look(way: Way, image_hwc: NDArray[np.uint8]) -> tuple[bool, bool]:
    """Return whether a fit can use a picture, and whether its part is like others and in place."""
    geometry = way.config.geometry
    try:
        geometry.check((image_hwc.shape[0], image_hwc.shape[1]))
    except UsageError:
        return False, False
    if geometry.several is not None:
        seen = geometry.several.find_parts(image_hwc)
        parts = [part.found.ok for part in seen.parts]
        return any(parts), all(parts) and not seen.lacking
    found = geometry.find(image_hwc)
    return (True, True) if found is None else (found.pose is not None, found.ok)


def _reason(way: Way, images: int, usable: int, found: int, options: FitOptions) -> str | None:
    """Say why a way is out; None if it is not."""
    if way.config.geometry.locator is None:
        return None
    if images - usable > options.max_bad:  # more than the fit itself would skip
        return f"it finds no part at all in {images - usable} of {images} good images"
    if images - found > max(1, int(_LOST * images)):
        lost = "the part is lost"
        if way.config.geometry.several is not None:
            lost = "not every part can be judged"
        return f"{lost} in {images - found} of {images} good images"
    return None
