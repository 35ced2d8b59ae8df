"""Known defects in folders by kind, and what marks them."""

import json
from pathlib import Path

import numpy as np
import pytest

from edgeseg.base.errors import DatasetError
from edgeseg.data.known_defects import read_kind_order, read_known_defects
from edgeseg.data.open_data import kind_order
from edgeseg.data.samples import read_sample
from tests.support.dataset_files import relative, write_mask, write_picture


def test_folders_are_kinds_and_good_pictures_are_left_out(tmp_path):
    for name in ("scratch/002.png", "scratch/001.png", "bent/deep/1.png", "7.png", "good/1.png"):
        write_picture(tmp_path / name)
    found = read_known_defects(tmp_path)
    assert relative(found, tmp_path) == [
        "7.png",
        "bent/deep/1.png",
        "scratch/001.png",
        "scratch/002.png",
    ]
    assert [each.kind for each in found] == ["defect", "bent", "scratch", "scratch"]
    assert {each.label for each in found} == {1}
    assert not any(each.is_marked for each in found)


def test_a_mask_lies_beside_its_picture(tmp_path):
    picture = write_picture(tmp_path / "scratch/001.png")
    mask = write_mask(tmp_path / "scratch/001_mask.png", marked=True)
    (found,) = read_known_defects(tmp_path)
    assert (found.image, found.mask) == (picture, mask)


def test_masks_of_a_data_set_are_found(tmp_path):
    write_picture(tmp_path / "test/scratch/001.png")
    mask = write_mask(tmp_path / "ground_truth/scratch/001_mask.png", marked=True)
    (found,) = read_known_defects(tmp_path / "test")
    assert found.mask == mask


@pytest.mark.parametrize(
    "points", [[[3, 2], [6, 4]], [[3, 2], [6, 2], [6, 4], [3, 4]]], ids=["box", "polygon"]
)
def test_an_outline_marks_what_a_mask_would(tmp_path, points):
    write_picture(tmp_path / "scratch/001.png")
    outline = tmp_path / "scratch/001.json"
    outline.write_text(json.dumps({"shapes": [{"points": points}]}))
    (found,) = read_known_defects(tmp_path)
    assert found.mask == outline
    _, mask_hw = read_sample(found, (12, 10))
    assert mask_hw is not None
    expected = np.zeros((12, 10), np.bool_)
    expected[2:4, 3:6] = True
    assert (mask_hw[expected]).all()
    assert mask_hw.sum() <= 2 * expected.sum()
    assert not mask_hw[6:].any()


def test_a_file_says_which_numbers_stay(tmp_path):
    assert read_kind_order(tmp_path) == ()
    (tmp_path / "kinds.txt").write_text("scratch\nRiß am Rand\n", encoding="utf-8")
    assert read_kind_order(tmp_path) == ("scratch", "Riß am Rand")
    assert kind_order(str(tmp_path)) == ("scratch", "Riß am Rand")
    assert kind_order({"scratch": []}) == ()


@pytest.mark.parametrize("text", ["scratch\n\nbent\n", "scratch\nscratch\n"])
def test_two_numbers_of_a_kind_or_none_are_refused(tmp_path, text):
    (tmp_path / "kinds.txt").write_text(text)
    with pytest.raises(DatasetError, match="the number of a kind is that of its line"):
        read_kind_order(tmp_path)


def fill_with_a_file(folder: Path) -> Path:
    return write_picture(folder / "one.png")


def fill_with_good_ones(folder: Path) -> Path:
    write_picture(folder / "good/1.png")
    return folder


def fill_with_a_lost_mask(folder: Path) -> Path:
    write_picture(folder / "scratch/002.png")
    write_mask(folder / "scratch/001_mask.png", marked=True)
    return folder


@pytest.mark.parametrize(
    ("fill", "words"),
    [
        (lambda folder: folder / "nowhere", "no such folder, expected a folder of defective"),
        (fill_with_a_file, "a file, expected a folder of defective"),
        (fill_with_good_ones, "no pictures of defects; expected some in it"),
        (fill_with_a_lost_mask, "a mask without its picture; expected 001.png beside it"),
    ],
)
def test_what_holds_no_defects_is_refused(tmp_path, fill, words):
    with pytest.raises(DatasetError, match=words):
        read_known_defects(fill(tmp_path))
