"""Several parts in one picture: each is found where it lies, and what is no whole part is told."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgeseg.base.errors import UsageError
from edgeseg.vision.blobs import Blobs, PartFound, parse_several
from edgeseg.vision.geometry import Geometry
from tests.support.trays import (
    SIZE_HW,
    good_trays,
    learn_trays,
    scattered_places,
    tray,
    write_trays,
)


@pytest.fixture(scope="module")
def geometry(tmp_path_factory: pytest.TempPathFactory) -> Geometry:
    return learn_trays(write_trays(tmp_path_factory.mktemp("good"), good_trays(10)))


def locator(geometry: Geometry) -> Blobs:
    assert geometry.several is not None
    return geometry.several


def nearest(parts: tuple[PartFound, ...], x: float, y: float) -> PartFound:
    return min(parts, key=lambda each: abs(each.found.pose.x - x) + abs(each.found.pose.y - y))


@pytest.mark.parametrize("seed", range(40, 52))
@pytest.mark.parametrize("count", [1, 6])
def test_every_part_is_found_where_and_as_it_was_drawn(geometry, seed, count):
    places = scattered_places(seed, count=count)
    found = locator(geometry).find_parts(tray(places, noise=seed))
    assert len(found.parts) == len(found.judged) == count
    assert found.lacking == ""
    reference = found.parts[0].found.pose.degrees
    turn_of_first = next(
        turn for x, y, turn in places if nearest(found.parts, x, y) is found.parts[0]
    )
    for x, y, turn in places:
        part = nearest(found.parts, x, y)
        left, top, width, height = part.box_xywh
        assert left < x < left + width
        assert top < y < top + height
        offset = (part.found.pose.degrees - reference) - (turn - turn_of_first)
        assert abs((offset + 180) % 360 - 180) < 5


def test_an_empty_tray_lacks_parts(geometry):
    for picture in (np.full((*SIZE_HW, 3), 205, np.uint8), np.zeros((*SIZE_HW, 3), np.uint8)):
        found = locator(geometry).find_parts(picture)
        assert found.parts == ()
        assert found.lacking == "no part stands out from the background"


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("spread", [1, 8, 60])
def test_noise_is_no_part(geometry, seed, spread):
    noise = np.random.default_rng(seed).normal(205, spread, (*SIZE_HW, 3))
    found = locator(geometry).find_parts(np.clip(noise, 0, 255).astype(np.uint8))
    assert found.judged == ()


def test_parts_that_touch_are_not_judged_and_the_others_are(geometry):
    places = scattered_places(60)
    x, y, turn = places[0]
    places[1] = (x + 35, y, turn + 90)
    found = locator(geometry).find_parts(tray(places))
    assert (len(found.parts), len(found.judged)) == (5, 4)
    (doubted,) = (part for part in found.parts if part.found.look is None)
    assert "parts that touch or overlap are one piece: spread them" in doubted.found.reason


def test_a_part_that_the_border_cuts_is_not_judged(geometry):
    places = scattered_places(61)
    places[0] = (8.0, 60.0, 10.0)
    found = locator(geometry).find_parts(tray(places))
    doubted = [part for part in found.parts if part.found.look is None]
    assert [part.found.reason for part in doubted] == ["it reaches beyond the picture"]


@pytest.mark.parametrize("size", [0.5, 0.75, 1.25])
def test_a_part_of_another_size_is_no_part_like_the_good_ones(geometry, size):
    places = scattered_places(62)
    found = locator(geometry).find_parts(tray(places, sizes=[1, 1, size, 1, 1, 1]))
    odd = [part for part in found.parts if not part.found.ok]
    assert len(odd) == 1
    assert "times the usual area" in odd[0].found.reason


def test_dirt_beside_the_parts_is_no_part(geometry):
    picture = tray(scattered_places(63))
    picture[110:116, 100:106] = 40
    found = locator(geometry).find_parts(picture)
    assert len(found.parts) == 6
    assert all(part.found.ok for part in found.parts)


def test_a_told_number_of_parts_has_to_be_there(geometry):
    told = replace(locator(geometry), count=6)
    assert told.find_parts(tray(scattered_places(64))).lacking == ""
    missing = told.find_parts(tray(scattered_places(64, count=5)))
    assert missing.lacking == "parts are 5, expected 6"


def test_a_neighbour_is_covered_where_another_part_is_cut_out(geometry):
    """The same part looks the same alone and beside another one."""
    alone = [(100.0, 100.0, 0.0)]
    both = [*alone, (100.0, 136.0, 0.0)]
    seen = locator(geometry).find_parts(tray(both))
    first = nearest(seen.parts, 100, 100)
    assert len(seen.judged) == 2
    assert first.cover is not None
    (single,) = locator(geometry).find_parts(tray(alone)).parts
    assert single.cover is None
    crops = [
        geometry.part_view(SIZE_HW, (96, 96), part).picture(tray(places)).astype(int)
        for part, places in ((first, both), (single, alone))
    ]
    bare = geometry.part_view(SIZE_HW, (96, 96), replace(first, cover=None)).picture(tray(both))
    covered, shown = (
        np.abs(crop - crops[1]).max(axis=2) > 40 for crop in (crops[0], bare.astype(int))
    )
    assert shown.sum() > 300
    assert covered.sum() < 0.1 * shown.sum()


def test_one_part_in_a_picture_is_never_taken_for_several(geometry):
    """Whatever looks for one part refuses: the first blob is not the verdict of a picture."""
    with pytest.raises(
        UsageError, match="judges several parts in a picture, and this looks at one"
    ):
        geometry.find(tray(scattered_places(1)))


@pytest.mark.parametrize("text", ["blobs,count=0", "blobs,6", "blobs,count=", "blobs:6", "blobsy"])
def test_other_words_are_refused(text):
    with pytest.raises(UsageError, match="expected blobs or blobs,count=8"):
        parse_several(text)


def test_the_number_is_read():
    assert parse_several("blobs") is None
    assert parse_several("blobs,count=12") == 12


def test_learning_says_what_it_can_tell(tmp_path: Path):
    images = [*good_trays(9), tray([*scattered_places(70)[1:], (8.0, 60.0, 0.0)])]
    said: list[str] = []
    learned = learn_trays(write_trays(tmp_path / "good", images), said, locate="blobs,count=6")
    assert locator(learned).count == 6
    assert said[0].startswith("parts are found by their outlines: 60 in 10 good images, 6 to 6")
    assert said[1].startswith("1 of these 10 good images would be invalid, whatever their score: 1")
    assert said[2].startswith("each part is cut out with ")


def test_pictures_without_single_parts_are_refused(tmp_path: Path):
    rng = np.random.default_rng(0)
    noise = [rng.integers(0, 256, (*SIZE_HW, 3), dtype=np.uint8) for _ in range(6)]
    with pytest.raises(UsageError, match="single parts do not stand out from what they lie on"):
        learn_trays(write_trays(tmp_path / "noise", noise))


def test_places_of_the_picture_are_refused_with_parts_that_lie_anywhere(tmp_path: Path):
    from edgeseg.fitting.locator.learn_parts import learn_parts

    square = ((1.0, 1.0), (9.0, 1.0), (9.0, 9.0))
    with pytest.raises(UsageError, match="no place of the picture can be named; leave ignore"):
        learn_parts(
            Geometry(camera_hw=SIZE_HW, locate="blobs", ignore=(square,)),
            [],
            grid_hw=(12, 12),
            rate=0.1,
            note=lambda _: None,
        )
