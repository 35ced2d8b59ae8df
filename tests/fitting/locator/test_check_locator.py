"""Where good parts lay: what is out of place, what inputs show, and what does not follow a part."""

import re
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from edgeseg.base.errors import UsageError
from edgeseg.fitting.locator.check_locator import scatter_located
from edgeseg.vision.anchor import Anchor
from edgeseg.vision.geometry import Geometry, Pose, Roi
from edgeseg.vision.ignored import hidden_of, polygon_mask
from edgeseg.vision.locate import Found
from tests.support.moving_parts import ANCHOR, SIZE_HW, folder_of, geometry_of, part, scattered


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Parts within 4 pixels and 5 degrees."""
    return folder_of(tmp_path_factory.mktemp("narrow"), scattered(12, turn=5.0, shift=4.0))


def found_in(geometry: Geometry, picture: np.ndarray) -> Found:  # type: ignore[type-arg]
    found = geometry.find(picture)
    assert found is not None
    return found


@pytest.mark.parametrize("locate", ["blob", ANCHOR])
def test_a_part_where_no_good_one_lay_is_not_found_and_looked_for_where_it_should_be(
    narrow: Path, locate: str
) -> None:
    geometry = geometry_of(narrow, locate)
    assert found_in(geometry, part(83, 58, 3)).ok
    for misplaced in (part(100, 60, 0), part(80, 44, 0), part(80, 60, 20)):
        found = found_in(geometry, misplaced)
        assert not found.ok
        assert not found.placed
        assert found.pose is not None
        assert found.look is not None
        assert found.look.shift_xy == (0.0, 0.0), "the usual place is what inputs show"
        assert found.look.degrees == 0.0
    wrong = found_in(geometry, part(100, 60, 0))
    assert re.match(r"it lies 1[789] pixels and 1 degrees from the usual place, and", wrong.reason)


def test_an_empty_picture_is_looked_at_where_the_part_should_be(narrow: Path) -> None:
    empty = np.full((*SIZE_HW, 3), 205, np.uint8)
    found = found_in(geometry_of(narrow, "blob"), empty)
    assert (found.pose, found.ok, found.placed) == (None, False, False)
    assert found.look is not None


def test_a_worn_mark_is_scored_where_it_is(narrow: Path) -> None:
    geometry = geometry_of(narrow, ANCHOR)
    locator = geometry.locator
    assert isinstance(locator, Anchor)
    worn = part(79, 59, 0)
    match = locator.match(worn)
    assert match is not None
    unlike = 1 - match[1]
    for limit, ok, placed in ((unlike * 1.2, True, True), (unlike / 1.2, False, True)):
        doubtful = found_in(replace(geometry, locator=replace(locator, limit=limit)), worn)
        assert (doubtful.ok, doubtful.placed) == (ok, placed)
    hardly = replace(geometry, locator=replace(locator, limit=unlike / 2))
    assert not found_in(hardly, worn).placed
    assert doubtful.look == doubtful.pose


def test_parts_at_any_angle_are_in_place_at_any_angle(tmp_path: Path) -> None:
    geometry = geometry_of(folder_of(tmp_path, scattered(40)), "blob")
    assert geometry.places is not None
    assert geometry.places.most_turned == 180.0
    assert found_in(geometry, part(80, 60, 77)).ok


def test_inputs_show_the_usual_part_and_regions_stay_where_they_were_named(tmp_path: Path) -> None:
    images = [part(92, 52, 8), *scattered(12, turn=3.0, shift=3.0)[1:]]
    geometry = geometry_of(folder_of(tmp_path, images), ANCHOR.replace("42,44", "54,36"))
    usual = geometry.usual
    assert usual is not None
    assert usual.degrees == pytest.approx(-8.0, abs=2.0)
    found = found_in(geometry, part(80, 60, 0))
    assert found.pose is not None
    assert found.pose.shift_xy == pytest.approx((0.0, 0.0), abs=2.0)
    # A hole of the first image, ignored: in the input it is where the usual part has it.
    first = Pose(x=92, y=52, degrees=8, home_xy=(80, 60)).matrix @ (90.0, 60.0, 1.0)
    x, y = first.tolist()
    square = ((x - 4, y - 4), (x + 4, y - 4), (x + 4, y + 4), (x - 4, y + 4))
    hidden = hidden_of(replace(geometry, ignore=(square,)), SIZE_HW)
    assert hidden is not None
    rows, columns = np.nonzero(hidden.pixels_hw)
    assert (columns.mean() + 0.5, rows.mean() + 0.5) == pytest.approx((90, 60), abs=2.5)


def test_a_region_keeps_the_picture_that_it_was_named_in(narrow: Path) -> None:
    located = geometry_of(narrow, "blob,background=yes")
    geometry = replace(located, roi=Roi(x=30, y=30, w=100, h=60))
    assert geometry.usual is None
    named = ((40.0, 40.0), (60.0, 40.0), (60.0, 50.0))
    hidden = hidden_of(replace(geometry, ignore=(named,)), (60, 100))
    assert hidden is not None
    drawn = polygon_mask((named,), SIZE_HW)[30:90, 30:130]
    np.testing.assert_array_equal(hidden.pixels_hw, drawn)


def test_what_does_not_follow_the_part_is_refused(tmp_path: Path) -> None:
    images = [np.full((*SIZE_HW, 3), 205, np.uint8) for _ in range(8)]
    for number, picture in enumerate(images):  # stripes from border to border
        picture[:, 30:130] = 60 + number
        picture[::7, :] = 60
    with pytest.raises(UsageError, match="does not follow the part: of 8 good images moved on"):
        geometry_of(folder_of(tmp_path, images), "blob")


def test_a_mark_that_moves_by_itself_is_told(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    ground = rng.integers(60, 200, (12, 16)).astype(np.uint8)
    ground = cv2.resize(ground, SIZE_HW[::-1], interpolation=cv2.INTER_CUBIC)
    mark = rng.integers(0, 255, (6, 6)).astype(np.uint8)
    mark = cv2.resize(mark, (30, 30), interpolation=cv2.INTER_NEAREST)
    images = []
    for x, y in [(60, 40), *rng.integers((52, 32), (69, 49), (9, 2)).tolist()]:
        picture = np.repeat(ground[:, :, None], 3, axis=2)
        picture[y : y + 30, x : x + 30] = mark[:, :, None]
        images.append(picture)
    said: list[str] = []
    geometry = geometry_of(folder_of(tmp_path, images), "anchor:60,40,30,30", said)
    assert scatter_located(geometry, images) > 1.0
    assert "what is followed moves by itself" in said[-1]
