"""Make a defective copy of a good image, or a balanced set of copies of many.

    images --Background--> where each part is --KINDS--> Planted(image, mask)

The same images, kind and generator give the same bytes. Each copy of a set has a generator of its
own, so that none depends on which others were asked for.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import DatasetError, UsageError
from edgeseg.data.planted.kinds import KINDS
from edgeseg.data.planted.part import Background
from edgeseg.data.planted.shapes import Shape
from edgeseg.data.planted.sites import Good, Site

SMALLEST = 1 / 1024  # of the picture: one cell of a grid of 32x32, 8x8 pixels of 256x256
LARGEST = 0.04
LEAST_CHANGE = 5.0  # grey levels, mean over the mask: less is no defect to anyone
OF_CONTRAST = 0.3  # and at least so much of the contrast around it, or it drowns
_SHARE_OF_PART = 1 / 3  # a defect that takes more is another part
_LEAST_PX = 4
_LEAST_SIDE = 16
_DRAWS = 30
_LOOKED_AT = 16  # images that tell the background
_DONORS = 3


@dataclass(frozen=True, kw_only=True)
class Planted:
    """A good image with one planted defect."""

    image_hwc: NDArray[np.uint8]
    mask_hw: NDArray[np.bool_]  # the pixels of the defect: all others are the good image's own
    kind: str

    def __post_init__(self) -> None:
        if self.mask_hw.shape != self.image_hwc.shape[:2] or not self.mask_hw.any():
            raise DatasetError(
                f"{self.kind}: a mask of shape {self.mask_hw.shape} with {self.area_px} pixels for "
                f"an image of {self.image_hwc.shape}, expected its size and at least one pixel"
            )

    @property
    def area_px(self) -> int:
        """The number of pixels of the defect."""
        return int(np.count_nonzero(self.mask_hw))


def plant(
    image_hwc: NDArray[np.uint8],
    others: Sequence[NDArray[np.uint8]],
    *,
    kind: str,
    area: float,
    rng: np.random.Generator,
    background: Background | None = None,
) -> Planted:
    """Plant a defect of a kind in KINDS that covers the share `area` of the picture.

    `others` are good images to cut pieces from, possibly none. On a small part the area is at most
    a third of the part. Without `background` it is learned from the images at hand.
    """
    _check(kind=kind, area=area)
    images = (image_hwc, *others)
    for place, picture in enumerate(images):
        _check_image(picture, name=f"good image {place}")
    background = background or Background.of(images[:_LOOKED_AT])
    good = Good(image_hwc=image_hwc, part_hw=background.part(image_hwc))
    most = _SHARE_OF_PART * np.count_nonzero(good.part_hw)
    area_px = max(round(min(area * good.part_hw.size, most)), _LEAST_PX)
    site = Site(good=good, donors=images, background=background, area_px=area_px, rng=rng)
    for draw in range(_DRAWS):
        change = KINDS[kind](replace(site, push=draw // 2))
        changed_hwc = change.apply(good)
        if change.shape.area_px >= area_px / 2 and _visible(good, changed_hwc, change.shape):
            mask_hw = np.zeros(good.part_hw.shape, np.bool_)
            mask_hw[change.shape.box] = change.shape.mask_hw
            return Planted(image_hwc=changed_hwc, mask_hw=mask_hw, kind=kind)
    raise DatasetError(
        f"{kind} of {area_px} pixels: not one of {_DRAWS} draws covers half of that and changes it "
        f"by {LEAST_CHANGE:g} grey levels; try another kind or another area"
    )


def planted_set(
    images: Sequence[NDArray[np.uint8]],
    *,
    per_image: int,
    seed: int,
    places: Sequence[int] | None = None,
    areas: tuple[float, float] = (SMALLEST, LARGEST),
    kinds: Sequence[str] = tuple(KINDS),
) -> Iterator[Planted]:
    """Yield `per_image` copies of each image (or of those at `places`), all kinds equally often.

    Sizes are log-uniform between the two shares in `areas`. A copy depends on the images, the seed,
    its place and its number alone.
    """
    for kind in kinds:
        _check(kind=kind, area=areas[0])
    if per_image < 1 or not kinds:
        raise UsageError(
            f"{per_image} planted copies of an image, {len(kinds)} kinds: expected at least 1 each"
        )
    if not 0 < areas[0] <= areas[1] <= 1:
        raise UsageError(
            f"areas={areas}: expected two rising shares of the picture, such as .001, .04"
        )
    if len(images) == 0:  # they may be one array
        raise DatasetError("no good images to plant defects on; expected at least one")
    wanted = range(len(images)) if places is None else places
    for place in wanted:
        if not 0 <= place < len(images):
            raise UsageError(
                f"place {place} of {len(images)} images: expected 0 to {len(images) - 1}"
            )
    return _copies(images, wanted, per_image=per_image, seed=seed, areas=areas, kinds=tuple(kinds))


def _copies(
    images: Sequence[NDArray[np.uint8]],
    places: Sequence[int],
    *,
    per_image: int,
    seed: int,
    areas: tuple[float, float],
    kinds: tuple[str, ...],
) -> Iterator[Planted]:
    step = max(1, math.ceil(len(images) / _LOOKED_AT))
    background = Background.of([images[place] for place in range(0, len(images), step)])
    for place in places:
        for copy in range(per_image):
            rng = np.random.default_rng([seed, place, copy])
            area = math.exp(rng.uniform(math.log(areas[0]), math.log(areas[1])))
            donors = rng.choice(len(images), min(_DONORS, len(images)), replace=False)
            yield plant(
                images[place],
                [images[donor] for donor in donors.tolist() if donor != place],
                kind=kinds[(place * per_image + copy) % len(kinds)],
                area=area,
                rng=rng,
                background=background,
            )


def _visible(good: Good, changed_hwc: NDArray[np.uint8], shape: Shape) -> bool:
    """Return whether a mask over the shape would mark something."""
    before, after = good.image_hwc[shape.box], changed_hwc[shape.box]
    levels = np.abs(after.astype(np.int16) - before)[shape.mask_hw].max(axis=1)
    bound = max(LEAST_CHANGE, OF_CONTRAST * good.contrast(shape))
    return bool(levels.mean() >= bound and np.mean(levels > 0) >= 0.5)


def _check(*, kind: str, area: float) -> None:
    if kind not in KINDS:
        raise UsageError(f"unknown kind of defect {kind!r}: expected one of {', '.join(KINDS)}")
    if not 0 < area <= 1:
        raise UsageError(f"area={area}: expected a share of the picture, above 0 and at most 1")


def _check_image(image_hwc: NDArray[np.uint8], *, name: str) -> None:
    shape = image_hwc.shape
    valid = image_hwc.dtype == np.uint8 and len(shape) == 3 and shape[2] == 3
    if not valid or min(shape[:2]) < _LEAST_SIDE:
        raise DatasetError(
            f"{name}: {image_hwc.dtype} of shape {shape}, expected uint8 of (height, width, 3) "
            f"with {_LEAST_SIDE} pixels or more each way"
        )
