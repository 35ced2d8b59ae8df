"""Learn where parts lie from good images alone, and describe it in words.

locate=blob, anchor:x,y,w,h --learn_locator--> Blob or Anchor with limits of the good images
locate=blob --background--> what parts lie on, to be ignored
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Setting
from edgeseg.base.progress import Note
from edgeseg.data.samples import Sample, read_picture
from edgeseg.decision.operating_point import conformal_threshold
from edgeseg.decision.score_statistics import middle_and_spread
from edgeseg.fitting.locator.background import background, share_of
from edgeseg.fitting.locator.check_locator import (
    COMPARED,
    MOVED_AND_FOUND,
    follow_errors,
    follows,
    scatter_located,
)
from edgeseg.vision.anchor import BLOBS, LOOKING_AROUND, Anchor, anchor_pictures, parse_anchor
from edgeseg.vision.geometry import Geometry
from edgeseg.vision.locate import Blob, Piece, Silhouette, Turns, silhouette_of
from edgeseg.vision.picture_size import MAX_PIXELS
from edgeseg.vision.places import Places
from edgeseg.vision.pose import Polygon, Pose, Roi, wrap_degrees

Read = Callable[[Sample], NDArray[np.uint8]]
LOOKED_AT = 200  # good images, from all over the list
_ROUND = 1.2  # long axis over short one: below, the axis is of no use
_ENDS = 0.05  # skew below which the two ends of a part look alike
LEAST_SPREAD = 0.02  # of the logarithms: parts cut from one mould are never quite alike
UNSTEADY = 0.25  # a spread of the area above which this is no outline of a part
STRAY = 0.5  # off the usual logarithm of the area: another piece than in the other images
_ODD = 0.05  # share of the good images that may be so, or be lost when they are moved
_REACH = 0.25  # of the picture's longer side: how far an anchor is searched for
_SMALLEST = 1 / 40  # of it: a smaller anchor takes too long to search for
_UNLIKE = 0.7  # 1 - correlation: at more the rectangle was found nowhere
_LEAST_LIMIT = 0.05  # of 1 - correlation: noise and light of another day
# Times what good parts needed: they are few, feeders wear, and how a part looks is for the score to
# judge. What is found at the wrong place is much farther off.
ROOM = 1.5
_LEAST_SHIFT, _LEAST_TURN = 0.02, 2.0  # share of the longer side, degrees: a locator's own errors


def learn_locator(
    geometry: Geometry,
    samples: Sequence[Sample],
    *,
    grid_hw: tuple[int, int],
    rate: float,
    note: Note,
    reference: Sample | None = None,
    max_pixels: int = MAX_PIXELS,
) -> Geometry:
    """Return the geometry with a locator; a blob locator also learns the background to ignore.

    Places are named at the part of `reference`, which need not be one of the samples; by default
    of the first of them.
    """
    looked, read = pick_evenly(samples, LOOKED_AT), partial(read_picture, max_pixels=max_pixels)
    if geometry.locate in BLOBS:
        outlines = [silhouette_of(read(sample)) for sample in looked]
        home = None if reference is None else _piece_of(reference, read)
        cell = _cell(geometry, grid_hw)
        found = _with_blob(geometry, outlines, home, cell=cell, rate=rate, note=note)
    else:
        first = looked[0] if reference is None else reference
        images = (read(sample) for sample in (first, *(s for s in looked if s != first)))
        box, angles = parse_anchor(geometry.locate)
        found = _with_anchor(geometry, images, box, angles, rate=rate, note=note)
    _check_following(found, samples, read, note=note)
    return found


def pick_evenly(samples: Sequence[Sample], most: int) -> Sequence[Sample]:
    """Return at most `most` samples from all over the list."""
    return samples[:: max(1, math.ceil(len(samples) / most))]


def _check_following(
    geometry: Geometry, samples: Sequence[Sample], read: Read, *, note: Note
) -> None:
    """Move some good images on purpose: the locator must find the part, not its background."""
    errors = sorted(follow_errors(geometry, map(read, pick_evenly(samples, MOVED_AND_FOUND))))
    lost = min(_few(len(errors)), len(errors) - 1)  # a border may cut a part that is moved
    worse = errors[-1 - lost]
    compared = [read(sample) for sample in pick_evenly(samples, COMPARED)]
    if not follows(worse, compared[0].shape[:2]):
        raise UsageError(
            Setting("locate", geometry.locate),
            f": does not follow the part: of {len(errors)} good images moved on purpose "
            f"{lost + 1} were found {worse:.1f} pixels or more off; try a mark that all parts "
            "have, ",
            Setting("locate", "anchor:x,y,w,h"),
            ", or leave locate out",
        )
    note(
        f"good images moved on purpose are found again to {worse:.1f} pixels, {lost} of "
        f"{len(errors)} left out"
    )
    ratio = scatter_located(geometry, compared)
    if ratio > 1.0:
        note(
            f"located, good images differ {ratio:.2f} times as much as they do unlocated: what is "
            "followed moves by itself; choose another mark, or leave locate out"
        )


def _few(images: int) -> int:
    """Return how many good images may be odd; at least one."""
    return max(1, int(_ODD * images))


def _with_blob(
    geometry: Geometry,
    outlines: Sequence[Silhouette | None],
    home: Piece | None,
    *,
    cell: float,
    rate: float,
    note: Note,
) -> Geometry:
    seen = [outline for outline in outlines if outline is not None]
    found = [outline.piece for outline in seen]
    areas = np.log([piece.area for piece in found] or [1.0])
    strays = int(np.count_nonzero(np.abs(areas - np.median(areas)) > STRAY))
    missing = len(outlines) - len(found)
    spread = float(middle_and_spread(areas)[1])
    unsteady = spread > UNSTEADY or strays > _few(len(outlines))
    if missing > _ODD * len(outlines) or unsteady:
        raise UsageError(
            Setting("locate", "blob"),
            f": the part does not stand out from what it lies on (no piece in {missing} of "
            f"{len(outlines)} good images, a much larger or smaller one in {strays}, areas "
            f"vary by {spread:.0%}); try ",
            Setting("locate", "anchor:x,y,w,h"),
            ", a mark that all parts have",
        )
    lengths = np.log([piece.length for piece in found])
    first = home or found[0]
    blob = Blob(
        home_xy=(first.x, first.y),
        degrees=first.degrees,
        turns=turns_of(found),
        area=float(np.exp(np.median(areas))),
        length=float(np.exp(np.median(lengths))),
        area_spread=max(spread, LEAST_SPREAD),
        length_spread=max(float(middle_and_spread(lengths)[1]), LEAST_SPREAD),
        limit=1.0,
        free=not any(piece.at_border for piece in found),
    )
    deviations = [blob.deviation(piece) for piece in found]
    limit = max(ROOM * conformal_threshold(deviations, false_alarm_rate=rate).value, 1.0)
    note(
        f"parts are found by their outline in {len(found)} of {len(outlines)} good images; "
        + TURNS[blob.turns]
    )
    # What is odd among the good ones does not tell where they usually lie.
    usual = [place for place, piece in enumerate(found) if blob.deviation(piece) <= limit]
    poses = [
        Pose(x=piece.x, y=piece.y, degrees=blob.turn(piece), home_xy=blob.home_xy)
        for piece in (found[place] for place in usual)
    ]
    places = _places_of(poses, longest=_longest(geometry), rate=rate)
    around: tuple[Polygon, ...] = ()
    if geometry.locate == "blob":
        around = background([seen[place] for place in usual], poses, cell=cell)
        share = share_of(around, geometry.camera_hw or seen[0].mask_hw.shape)
        note(
            f"what they lie on does not count, {share:.0%} of the picture; locate="
            f"{LOOKING_AROUND} looks there too"
        )
    locator = replace(blob, limit=limit, places=places, background=around)
    return replace(geometry, locator=locator)


def _piece_of(reference: Sample, read: Read) -> Piece:
    outline = silhouette_of(read(reference))
    if outline is None:
        raise UsageError(
            Setting("locate", "blob"),
            f": no part stands out in {reference.image.name}, on which places are named; name "
            "them on another picture",
        )
    return outline.piece


TURNS: dict[Turns, str] = {
    "none": "they are round or nearly so: their angle is left out",
    "axis": "their two ends look alike: an angle and the opposite one are the same",
    "full": "their angle is known from their axis and their ends",
}


def turns_of(pieces: Sequence[Piece]) -> Turns:
    if np.median([piece.length for piece in pieces]) < _ROUND:
        return "none"
    skews = np.array([piece.skew for piece in pieces])
    # A part that is turned round is not like the others at all: three spreads make that rare.
    return "full" if np.median(skews) > max(_ENDS, 3 * middle_and_spread(skews)[1]) else "axis"


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
            Setting("locate", f"anchor:{box}"),
            f": does not lie within pictures of {first.shape[1]}x{first.shape[0]}; expected "
            "x+w and y+h within them",
        )
    if min(box.w, box.h) < _SMALLEST * longest:
        raise UsageError(
            Setting("locate", f"anchor:{box}"),
            ": too small to be searched for in time; expected "
            f"{math.ceil(_SMALLEST * longest)} pixels or more each way",
        )
    anchor = Anchor(
        box=box,
        angles=angles,
        reach=_REACH * longest,
        pictures=anchor_pictures(first, box, angles),
        limit=0.0,  # so that every start is tried
    )
    matches = [match for match in map(anchor.match, images) if match is not None]
    oddness = [1 - likeness for _, likeness in matches]
    limit = conformal_threshold(oddness or [0.5], false_alarm_rate=rate).value
    if limit > _UNLIKE:
        raise UsageError(
            Setting("locate", f"anchor:{box}"),
            f": some good images have nothing like it (correlation {1 - limit:.2f}); expected "
            "a mark that every part has, or more angles",
        )
    note(
        f"parts are found by a rectangle of the first image: in {len(oddness)} others its "
        f"correlation is {1 - max(oddness, default=0.0):.2f} or more"
    )
    limit = min(max(ROOM * limit, _LEAST_LIMIT), _UNLIKE)
    home = Pose(x=anchor.home_xy[0], y=anchor.home_xy[1], degrees=0.0, home_xy=anchor.home_xy)
    poses = [home, *(pose for pose, likeness in matches if 1 - likeness <= limit)]
    places = _places_of(poses, longest=longest, rate=rate)
    return replace(geometry, locator=replace(anchor, limit=limit, places=places))


def _places_of(poses: Sequence[Pose], *, longest: int, rate: float) -> Places:
    """Learn the places from the poses of good parts; `longest` is the longer side of pictures."""
    at = np.array([(pose.x, pose.y) for pose in poses])
    angles = np.radians([pose.degrees for pose in poses])
    usual = np.median(at, axis=0)
    degrees = math.degrees(math.atan2(np.sin(angles).mean(), np.cos(angles).mean()))
    turned = [wrap_degrees(pose.degrees - degrees) for pose in poses]
    away = np.hypot(*(at - usual).T)
    farthest, most = (
        ROOM * conformal_threshold(np.abs(values).tolist(), false_alarm_rate=rate).value
        for values in (away, turned)
    )
    return Places(
        x=float(usual[0]),
        y=float(usual[1]),
        degrees=degrees,
        spread_right=float(at[:, 0].std()),
        spread_down=float(at[:, 1].std()),
        spread_degrees=float(np.std(turned)),
        farthest=max(farthest, _LEAST_SHIFT * longest),
        most_turned=min(max(most, _LEAST_TURN), 180.0),
        count=len(poses),
    )


def _cell(geometry: Geometry, grid_hw: tuple[int, int]) -> float:
    """Return the longer side of a cell, in pixels of the camera."""
    roi, (height, width) = geometry.roi, geometry.camera_hw or (1, 1)
    looked_hw = (height, width) if roi is None else (roi.h, roi.w)
    return max(side / cells for side, cells in zip(looked_hw, grid_hw, strict=True))


def _longest(geometry: Geometry) -> int:
    return max(geometry.camera_hw or (1, 1))
