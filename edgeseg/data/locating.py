"""What a fit learns of where parts lie: from good images alone, and said in words.

locate=blob, anchor:x,y,w,h --learned--> Blob or Anchor with limits of the good images
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from edgeseg.contract.geometry import Geometry
from edgeseg.contract.locate import Anchor, Blob, Piece, Turns, anchor_pictures, piece_of
from edgeseg.contract.operating_point import conformal_threshold
from edgeseg.contract.pose import Roi
from edgeseg.data.samples import Sample, read_picture
from edgeseg.errors import UsageError
from edgeseg.progress import Note

LOOKED_AT = 200  # good images, from all over the list
_ROUND = 1.2  # long axis over short one: below, the axis is of no use
_ENDS = 0.05  # skew below which the two ends of a part look alike
_LEAST_SPREAD = 0.02  # of the logarithms: parts cut from one mould are never quite alike
_UNSTEADY = 0.25  # a spread of the area above which this is no outline of a part
_REACH = 0.25  # of the picture's longer side: how far an anchor is searched for
_SMALLEST = 1 / 40  # of it: a smaller anchor takes too long to search for
_UNLIKE = 0.7  # 1 - correlation: at more the rectangle was found nowhere
_LEAST_LIMIT = 0.05  # of 1 - correlation: noise and light of another day
_STEP = 5.0  # degrees between angles that are tried


def learned(geometry: Geometry, samples: Sequence[Sample], *, rate: float, note: Note) -> Geometry:
    """The geometry with a locator, and the region that it looks at around the part."""
    step = max(1, math.ceil(len(samples) / LOOKED_AT))
    images = (read_picture(sample) for sample in samples[::step])
    if geometry.locate == "blob":
        return _with_blob(geometry, list(map(piece_of, images)), rate=rate, note=note)
    box, angles = parse_anchor(geometry.locate)
    return _with_anchor(geometry, images, box, angles, rate=rate, note=note)


def check_locate(text: str) -> None:
    """Refuse what is no way to find parts."""
    if text not in ("", "blob"):
        parse_anchor(text)


def parse_anchor(text: str) -> tuple[Roi, tuple[float, ...]]:
    """Read `anchor:x,y,w,h`, `anchor:x,y,w,h,angles=10`: plus and minus so many degrees."""
    kind, _, numbers = text.partition(":")
    box, _, most = numbers.partition(",angles=")
    try:
        if kind != "anchor":
            raise ValueError
        reach = float(most or 0)
        x, y, w, h = (int(part) for part in box.split(","))
        if not 0 <= reach <= 180:
            raise ValueError
    except ValueError:
        raise UsageError(
            f"locate={text!r}: expected blob, anchor:x,y,w,h or anchor:x,y,w,h,angles=10"
        ) from None
    count = math.ceil(reach / _STEP)
    angles = tuple(np.linspace(-reach, reach, 2 * count + 1).tolist()) if count else (0.0,)
    return Roi(x=x, y=y, w=w, h=h), angles


def _with_blob(
    geometry: Geometry, pieces: Sequence[Piece | None], *, rate: float, note: Note
) -> Geometry:
    found = [piece for piece in pieces if piece is not None]
    areas = np.log([piece.area for piece in found] or [1.0])
    missing = len(pieces) - len(found)
    spread = _spread(areas)
    if missing > 0.05 * len(pieces) or spread > _UNSTEADY:
        raise UsageError(
            f"locate=blob: the part does not stand out from what it lies on (no piece in {missing} "
            f"of {len(pieces)} good images, areas vary by {spread:.0%}); try "
            "locate=anchor:x,y,w,h, a mark that all parts have"
        )
    lengths = np.log([piece.length for piece in found])
    first = found[0]
    blob = Blob(
        home_xy=(first.x, first.y),
        degrees=first.degrees,
        turns=_turns(found),
        area=float(np.exp(np.median(areas))),
        length=float(np.exp(np.median(lengths))),
        area_spread=max(spread, _LEAST_SPREAD),
        length_spread=max(_spread(lengths), _LEAST_SPREAD),
        limit=1.0,
        free=not any(piece.at_border for piece in found),
    )
    deviations = [blob.deviation(piece) for piece in found]
    limit = conformal_threshold(deviations, false_alarm_rate=rate).value
    note(
        f"parts are found by their outline in {len(found)} of {len(pieces)} good images; "
        + _TURNS[blob.turns]
    )
    return replace(geometry, locator=replace(blob, limit=max(limit, 1.0)))


_TURNS: dict[Turns, str] = {
    "none": "they are round or nearly so: their angle is left out",
    "axis": "their two ends look alike: an angle and the opposite one are the same",
    "full": "their angle is known from their axis and their ends",
}


def _turns(pieces: Sequence[Piece]) -> Turns:
    if np.median([piece.length for piece in pieces]) < _ROUND:
        return "none"
    skews = np.array([piece.skew for piece in pieces])
    # A part that is turned round is not like the others at all: three spreads make that rare.
    return "full" if np.median(skews) > max(_ENDS, 3 * _spread(skews)) else "axis"


def _with_anchor(
    geometry: Geometry,
    images: Iterable[NDArray[np.uint8]],
    box: Roi,
    angles: tuple[float, ...],
    *,
    rate: float,
    note: Note,
) -> Geometry:
    images = iter(images)
    first = next(images)
    longest = max(first.shape[:2])
    if not box.fits(first.shape[:2]):
        raise UsageError(
            f"locate=anchor:{box}: does not lie within pictures of "
            f"{first.shape[1]}x{first.shape[0]}; expected x+w and y+h within them"
        )
    if min(box.w, box.h) < _SMALLEST * longest:
        raise UsageError(
            f"locate=anchor:{box}: too small to be searched for in time; expected "
            f"{math.ceil(_SMALLEST * longest)} pixels or more each way"
        )
    anchor = Anchor(
        box=box,
        angles=angles,
        reach=_REACH * longest,
        pictures=anchor_pictures(first, box, angles),
        limit=1.0,
    )
    oddness = [anchor.find(image).oddness for image in images]
    limit = conformal_threshold(oddness or [0.5], false_alarm_rate=rate).value
    if limit > _UNLIKE:
        raise UsageError(
            f"locate=anchor:{box}: some good images have nothing like it (correlation "
            f"{1 - limit:.2f}); expected a mark that every part has, or more angles"
        )
    note(
        f"parts are found by a rectangle of the first image: in {len(oddness)} others its "
        f"correlation is {1 - max(oddness, default=0.0):.2f} or more"
    )
    return replace(geometry, locator=replace(anchor, limit=max(limit, _LEAST_LIMIT)))


def _spread(values: NDArray[np.float64]) -> float:
    """As a standard deviation, by the median: one odd image must not widen it."""
    return float(1.4826 * np.median(np.abs(values - np.median(values))))
