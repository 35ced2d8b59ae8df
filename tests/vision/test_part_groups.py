"""Pictures of one part are one group, pictures of different parts are not."""

from collections.abc import Sequence
from itertools import pairwise

import cv2
import numpy as np
import pytest

from edgeseg.data.synthetic.scene import SceneGenerator
from edgeseg.vision.part_groups import GreyCopies, highest_of_parts
from tests.support.retakes import Picture, pictured, retaken


def groups_of(pictures: Sequence[Picture]) -> list[int]:
    grey_copies = GreyCopies()
    for place, picture_hwc in enumerate(pictures):
        grey_copies.add(place, picture_hwc)
    parts = grey_copies.groups(range(len(pictures)))
    return [parts[place] for place in range(len(pictures))]


@pytest.mark.parametrize(("parts", "times"), [(15, 8), (50, 2), (40, 1), (1, 30), (2, 20)])
def test_every_part_is_one_group(parts: int, times: int) -> None:
    assert groups_of(pictured(parts, times)) == np.repeat(np.arange(parts), times).tolist()


def test_pictures_of_one_part_need_not_follow_each_other() -> None:
    pictures = pictured(12, 4)
    order = np.random.default_rng(0).permutation(len(pictures)).tolist()
    groups = groups_of([pictures[at] for at in order])
    truth = [at // 4 for at in order]
    assert len(set(zip(groups, truth, strict=True))) == len(set(groups)) == 12


def test_copies_of_one_file_are_one_part() -> None:
    assert groups_of([SceneGenerator(size_hw=(64, 64)).good(0)] * 100) == [0] * 100


def test_light_alone_does_not_make_two_parts_one() -> None:
    """A face that is brighter before the same table: no lamp does that."""
    pictures = []
    for face in (110, 130, 150, 175, 210):
        picture = np.full((96, 96, 3), 90, np.uint8)
        picture[20:70, 30:80] = face
        pictures.append(picture)
    assert groups_of(pictures) == [0, 1, 2, 3, 4]


def test_a_chain_does_not_swallow_a_set() -> None:
    """Every picture is hardly another one than the last; the end has nothing of the beginning."""
    rng = np.random.default_rng(0)
    ends = [cv2.resize(rng.integers(0, 256, (6, 6, 3), np.uint8), (96, 96)) for _ in range(5)]
    chain = [
        np.asarray(cv2.addWeighted(one, 1 - share, other, share, 0), np.uint8)
        for one, other in pairwise(ends)
        for share in np.linspace(0, 1, 30, endpoint=False)
    ]
    groups = groups_of(chain)
    assert 3 <= len(set(groups)) <= 80
    assert groups[0] not in groups[60:], "what has nothing in common is not one part"


def film(*, things: int, still: int) -> tuple[list[Picture], list[int]]:
    """A belt that is empty, then something passes in eight frames; which thing is in sight."""
    scene = SceneGenerator(size_hw=(96, 192))
    rng = np.random.default_rng(0)
    table = np.asarray(scene.good(0)[:, :96] // 2 + 60, np.uint8)
    frames, shown = [], []
    for thing in range(things):
        face = rng.integers(0, 256, (30, 30, 3), np.uint8)
        for at in [*([-1] * still), *range(0, 64, 8)]:
            frame = table.copy()
            if at >= 0:
                frame[30:60, at : at + 30] = face
            frames.append(retaken(frame, rng))
            shown.append(-1 if at < 0 else thing)
    return frames, shown


def test_frames_of_a_film_are_not_counted_as_parts() -> None:
    frames, shown = film(things=6, still=12)
    groups = groups_of(frames)
    assert len(set(groups)) <= 3 * 6 + 1, "of 120 frames"
    successive = [one == other for one, other in pairwise(groups)]
    inside = [one == other for one, other in pairwise(shown)]
    found = [same for same, within in zip(successive, inside, strict=True) if within]
    assert np.mean(found) > 0.9
    assert len({group for group, thing in zip(groups, shown, strict=True) if thing < 0}) == 1


def test_the_same_pictures_give_the_same_groups_from_a_file_and_in_shares() -> None:
    pictures = pictured(6, 3)
    shares = [GreyCopies() for _ in range(2)]
    for place, picture_hwc in enumerate(pictures):
        shares[place % 2].add(place, picture_hwc)
    whole = GreyCopies()
    for share in reversed(shares):
        whole.merge(GreyCopies.of_tensors(share.tensors()))
    parts = whole.groups(range(len(pictures)))
    assert [parts[place] for place in range(len(pictures))] == groups_of(pictures)


def test_what_people_know_is_not_guessed() -> None:
    grey_copies = GreyCopies(told={0: 5, 1: 5, 2: 9})
    for place in range(3):
        grey_copies.add(place, SceneGenerator(size_hw=(64, 64)).good(place))
    assert grey_copies.groups([0, 1, 2]) == {0: 5, 1: 5, 2: 9}
    assert grey_copies.grouping == "told"
    assert GreyCopies.of_tensors(grey_copies.tensors()).told == grey_copies.told


def test_a_picture_without_a_small_copy_is_a_part_of_its_own() -> None:
    assert set(GreyCopies().groups([3, 4]).values()) == {0, 1}


def test_a_part_counts_once_by_its_highest_value() -> None:
    values = np.array([1, 5, 2, 4, 3], np.float32)
    groups = np.array([7, 0, 7, 2, 0], np.float32)
    assert highest_of_parts(values, groups).tolist() == [2, 5, 4]
    assert highest_of_parts(values, groups[:0]) is values


def test_damaged_small_copies_are_refused() -> None:
    tensors = GreyCopies().tensors() | {"places": np.array([1])}
    with pytest.raises(ValueError, match="small copies"):
        GreyCopies.of_tensors(tensors)
