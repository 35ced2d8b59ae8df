"""Learn what one part looks like in pictures that show several, from good images alone.

locate=blobs --learn_parts--> Blobs: the outline of one part, and the square that is cut out

Most of what stands out has to be single parts of like size. The usual area is that of the piece in
whose share of all covered pixels the middle lies, so that neither dirt nor a cluster moves it.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Setting
from edgeseg.base.progress import Note
from edgeseg.data.samples import Sample, read_picture
from edgeseg.decision.operating_point import conformal_threshold
from edgeseg.decision.score_statistics import middle_and_spread
from edgeseg.fitting.locator.background import background, share_of
from edgeseg.fitting.locator.learn_locator import (
    LEAST_SPREAD,
    LOOKED_AT,
    ROOM,
    STRAY,
    TURNS,
    UNSTEADY,
    pick_evenly,
    turns_of,
)
from edgeseg.vision.blobs import Blobs, Pieces, parse_several, pieces_in
from edgeseg.vision.geometry import Geometry
from edgeseg.vision.locate import Blob, Silhouette
from edgeseg.vision.picture_size import MAX_PIXELS
from edgeseg.vision.pose import Pose, Roi

_LEAST = 0.0004  # of the picture: nothing smaller can be a part
_UPRIGHT = 90.0  # degrees of a part's long axis where it is cut out
_AROUND = 0.1  # of a part's reach, each way: burrs are defects
_FEW = 0.02  # of parts, that may reach beyond the square
_OUTLINE = 96  # pixels of the square that outlines are compared in
_TWICE = 1.7  # times the usual area: more is never one part, however much parts vary

Cut = tuple[Pieces, int]  # the pieces of a picture, and the number of one


def learn_parts(
    geometry: Geometry,
    samples: Sequence[Sample],
    *,
    grid_hw: tuple[int, int],
    rate: float,
    note: Note,
    max_pixels: int = MAX_PIXELS,
) -> Geometry:
    """Return the geometry with a locator of all parts of a picture."""
    _check_alone(geometry)
    looked = pick_evenly(samples, LOOKED_AT)
    height, width = geometry.camera_hw or (1, 1)
    seen = [
        pieces_in(read_picture(sample, max_pixels=max_pixels), least=_LEAST * height * width)
        for sample in looked
    ]
    alike = _alike(geometry, seen)
    outline = _outline(alike, rate=rate)
    side = _side(outline, alike)
    outline = replace(outline, home_xy=(side / 2, side / 2))
    blobs = Blobs(outline=outline, side=side, background=(), count=parse_several(geometry.locate))
    around = background(
        [_silhouette(blobs, *cut) for cut in alike],
        [Pose(x=side / 2, y=side / 2, degrees=0.0, home_xy=outline.home_xy)] * len(alike),
        cell=side / min(grid_hw),
    )
    share = share_of(around, (side, side))
    _tell(blobs, seen, note)
    note(
        f"each part is cut out with {side}x{side} pixels around it and judged alone; what is "
        f"beside it does not count, {share:.0%} of them"
    )
    return replace(geometry, locator=replace(blobs, background=around))


def _check_alone(geometry: Geometry) -> None:
    """Refuse places in the camera's picture, which none of its parts is bound to."""
    parse_several(geometry.locate)
    for name, given in (("roi", geometry.roi is not None), ("ignore", bool(geometry.regions))):
        if given:
            raise UsageError(
                Setting("locate", geometry.locate),
                ": every part is cut out wherever it lies, so no place of the picture can be "
                "named; leave ",
                Setting(name),
                " out",
            )


def _alike(geometry: Geometry, seen: Sequence[Pieces]) -> list[Cut]:
    """Return the whole pieces of like size; refused where they are not most of what there is."""
    whole = [
        (pieces, number)
        for pieces in seen
        for number, piece in enumerate(pieces.pieces)
        if not piece.at_border
    ]
    areas = np.array([pieces.pieces[number].area for pieces, number in whole])
    alike: list[Cut] = []
    if areas.size:
        rising = np.sort(areas)
        usual = rising[np.searchsorted(np.cumsum(rising), rising.sum() / 2)]
        away = np.abs(np.log(areas / usual))
        alike = [cut for cut, far in zip(whole, away, strict=True) if far <= STRAY]
        covered = areas[away <= STRAY].sum() / rising.sum()
        spread = float(middle_and_spread(np.log(areas[away <= STRAY]))[1])
    without = len(seen) - len({id(pieces) for pieces, _ in alike})
    if not alike or without > 0.5 * len(seen) or covered < 0.5 or spread > UNSTEADY:
        raise UsageError(
            Setting("locate", geometry.locate),
            f": single parts do not stand out from what they lie on: none of like size in "
            f"{without} of {len(seen)} good images; expected parts that lie apart on a plain "
            "background, most of them wholly in the picture",
        )
    return alike


def _outline(alike: Sequence[Cut], *, rate: float) -> Blob:
    """Return the outline of one part; its limit holds for the oddest part of a picture."""
    pieces = [of_picture.pieces[number] for of_picture, number in alike]
    areas, lengths = (
        np.log([getattr(piece, name) for piece in pieces]) for name in ("area", "length")
    )
    blob = Blob(
        home_xy=(0.0, 0.0),
        degrees=_UPRIGHT,
        turns=turns_of(pieces),
        area=float(np.exp(np.median(areas))),
        length=float(np.exp(np.median(lengths))),
        area_spread=max(float(middle_and_spread(areas)[1]), LEAST_SPREAD),
        length_spread=max(float(middle_and_spread(lengths)[1]), LEAST_SPREAD),
        limit=1.0,
        free=True,
    )
    oddest: dict[int, float] = {}
    for (of_picture, _), piece in zip(alike, pieces, strict=True):
        key = id(of_picture)
        oddest[key] = max(oddest.get(key, 0.0), blob.deviation(piece))
    limit = max(ROOM * conformal_threshold(list(oddest.values()), false_alarm_rate=rate).value, 1.0)
    return replace(blob, limit=min(limit, math.log(_TWICE) / blob.area_spread))


def _side(outline: Blob, alike: Sequence[Cut]) -> int:
    """Return the side of a square that holds a part, upright, and a margin."""
    reaches = []
    for pieces, number in alike:
        window, piece = pieces.outline(number), pieces.pieces[number]
        y, x = np.nonzero(window.mask_hw)
        at = np.stack([x + window.corner_xy[0] + 0.5, y + window.corner_xy[1] + 0.5]) * window.scale
        pose = Pose(x=piece.x, y=piece.y, degrees=outline.turn(piece), home_xy=(0.0, 0.0))
        upright = pose.matrix[:, :2].T @ (at - np.array([[piece.x], [piece.y]]))
        reaches.append(float(np.abs(upright).max()))
    return math.ceil(2 * (1 + _AROUND) * float(np.quantile(reaches, 1 - _FEW)))


def _silhouette(blobs: Blobs, pieces: Pieces, number: int) -> Silhouette:
    """Return the outline of a part as it is cut out."""
    found, side = blobs.judge_piece(pieces.pieces[number]), blobs.side
    cut_out = Geometry().view((1, 1), (_OUTLINE, _OUTLINE), found.pose)
    to_frame = replace(cut_out, roi=Roi(x=0, y=0, w=side, h=side)).to_frame
    mask_hw = pieces.outline(number).seen_by(to_frame, (_OUTLINE, _OUTLINE))
    return Silhouette(mask_hw=mask_hw.astype(np.uint8), scale=side / _OUTLINE)


def _tell(blobs: Blobs, seen: Sequence[Pieces], note: Note) -> None:
    """Say how many parts there are, and in how many good images one cannot be judged."""
    least = blobs.least_area
    pieces = [[piece for piece in each.pieces if piece.area >= least] for each in seen]
    counts = [len(each) for each in pieces]
    doubted = [sum(not blobs.judge_piece(piece).ok for piece in each) for each in pieces]
    note(
        f"parts are found by their outlines: {sum(counts)} in {len(seen)} good images, "
        f"{min(counts)} to {max(counts)} in each; {TURNS[blobs.outline.turns]}"
    )
    wrong = sum(blobs.count is not None and count != blobs.count for count in counts)
    bad = sum(
        bool(doubts) or not count or (blobs.count is not None and count != blobs.count)
        for doubts, count in zip(doubted, counts, strict=True)
    )
    if bad:
        note(
            f"{bad} of these {len(seen)} good images would be invalid, whatever their score: "
            f"{sum(doubted)} pieces are not one whole part (they touch, or the border cuts them)"
            + (f", and {wrong} do not show {blobs.count} parts" if wrong else "")
            + "; the threshold's promise does not count them"
        )
