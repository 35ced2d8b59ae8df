"""What people say of which pictures show one part."""

from pathlib import PurePosixPath

import pytest

from edgeseg.base.errors import UsageError
from edgeseg.vision.group_by import GroupBy

PATHS = [PurePosixPath(text) for text in ("a/part1_1.png", "a/part1_2.png", "b/part1_3.png")]


def groups(text: str, paths: list[PurePosixPath]) -> list[int]:
    by = GroupBy(text=text)
    parts = [by.part(path, place=place) for place, path in enumerate(paths)]
    return [parts.index(part) for part in parts]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("none", [0, 1, 2]),
        ("folder", [0, 0, 2]),
        ("name:_", [0, 0, 0]),
        ("name:-", [0, 1, 2]),
        (r"match:part\d+", [0, 0, 0]),
        (r"match:_(\d)", [0, 1, 2]),
    ],
)
def test_parts_by_places(text: str, expected: list[int]) -> None:
    assert groups(text, PATHS) == expected
    assert GroupBy(text=text).knows


def test_one_picture_under_two_names_of_a_list_is_two_places() -> None:
    assert groups("none", [PATHS[0], PATHS[0]]) == [0, 1]


@pytest.mark.parametrize("text", ["", "folders", "name:", "name", "folder:x", "match:", "auto:x"])
def test_other_words_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="expected auto, none, folder, name:SIGN"):
        GroupBy(text=text)


def test_an_expression_that_finds_nothing_or_is_none_is_told() -> None:
    with pytest.raises(UsageError, match="no regular expression"):
        GroupBy(text="match:(")
    with pytest.raises(UsageError, match=r"nothing in the name part1_1\.png matches"):
        groups("match:x", PATHS)


def test_nothing_is_known_unless_it_is_said() -> None:
    assert not GroupBy().knows
