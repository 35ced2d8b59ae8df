"""Batches: order, content, bad files."""

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from edgeseg.base.errors import DatasetError, UsageError
from edgeseg.data.samples import Sample, load_batches, read_sample


def write_picture(path: Path, *, value: int = 100) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    assert cv2.imwrite(str(path), np.full((12, 10, 3), value, np.uint8))
    return path


def write_mask(path: Path, *, size_hw: tuple[int, int] = (12, 10)) -> Path:
    pixels = np.zeros(size_hw, np.uint8)
    pixels[2:4, 3:6] = 255
    assert cv2.imwrite(str(path), pixels)
    return path


@pytest.fixture
def good(tmp_path) -> list[Sample]:
    return [
        Sample(image=write_picture(tmp_path / f"{index:03}.png", value=index)) for index in range(4)
    ]


@pytest.fixture
def dent(tmp_path) -> Sample:
    mask = write_mask(tmp_path / "dent_mask.png")
    return Sample(image=write_picture(tmp_path / "dent.png"), mask=mask, label=1, kind="dent")


@pytest.mark.parametrize(("batch_size", "workers"), [(1, 1), (3, 2), (50, 3)])
def test_batches_keep_order_and_content(tmp_path, batch_size, workers):
    samples = [
        Sample(image=write_picture(tmp_path / f"{index:02}.png", value=index))
        for index in range(31)
    ]
    batches = list(load_batches(samples, size_hw=(8, 6), batch_size=batch_size, workers=workers))
    assert [len(batch.samples) for batch in batches[:-1]] == [batch_size] * (len(batches) - 1)
    assert [sample for batch in batches for sample in batch.samples] == samples
    frames = np.concatenate([batch.frames for batch in batches])
    assert frames.shape == (31, 8, 6, 3)
    assert (frames == np.arange(31).reshape(-1, 1, 1, 1)).all()
    assert not any(mask_hw.any() for batch in batches for mask_hw in batch.masks)


def test_batches_carry_masks_of_their_size(good, dent):
    (batch,) = load_batches([dent, good[0]], size_hw=(24, 20), batch_size=9)
    assert [mask_hw.shape for mask_hw in batch.masks] == [(24, 20)] * 2
    assert [mask_hw.sum() for mask_hw in batch.masks] == [24, 0]  # 2x3 pixels, doubled both ways


def test_a_defect_that_nobody_marked_has_no_mask(good, dent):
    """All False would say that nothing is wrong with it."""
    bare = replace(dent, mask=None)
    assert [sample.is_marked for sample in (good[0], dent, bare)] == [True, True, False]
    (batch,) = load_batches([bare, good[0]], size_hw=(24, 20), batch_size=9)
    assert batch.masks[0] is None
    assert not batch.masks[1].any()
    assert read_sample(bare, (24, 20))[1] is None


def test_bad_files_stop_the_run_by_name(good):
    good[1].image.write_bytes(b"")
    with pytest.raises(
        DatasetError, match=r"001\.png: the file is empty \(0 bytes\); .*max_bad=1$"
    ):
        list(load_batches(good, size_hw=(8, 8), batch_size=2))


def test_bad_files_are_reported_and_skipped_up_to_max_bad(good):
    for sample in (good[1], good[3]):
        sample.image.write_bytes(b"junk")
    seen: list[tuple[str, str]] = []
    batches = load_batches(
        good,
        size_hw=(8, 8),
        batch_size=2,
        max_bad=2,
        on_bad=lambda path, reason: seen.append((path.name, reason)),
    )
    (batch,) = batches  # two good ones fill one batch, although they were not neighbours
    assert [sample.image.stem for sample in batch.samples] == ["000", "002"]
    assert [name for name, _ in seen] == ["001.png", "003.png"]
    assert "not a picture" in seen[0][1]
    told = []
    with pytest.raises(DatasetError) as refused:
        list(
            load_batches(
                good,
                size_hw=(8, 8),
                batch_size=2,
                max_bad=1,
                on_bad=lambda path, reason: told.append(path.name),
            )
        )
    said = str(refused.value)
    assert said.startswith("2 of 4 pictures cannot be read: ")
    assert [name in said for name in ("000", "001.png: ", "002", "003.png: ")] == [0, 1, 0, 1]
    assert said.endswith(
        "more than max_bad=1; repair or remove them, or skip such files with max_bad=2"
    )
    assert told == ["001.png"], "what is not skipped is not called so"


def test_nothing_but_bad_files_is_an_error_whatever_is_allowed(tmp_path):
    (tmp_path / "a.png").touch()
    samples = [Sample(image=tmp_path / "a.png")]
    with pytest.raises(DatasetError, match=r"a\.png: the file is empty"):
        list(load_batches(samples, size_hw=(8, 8), batch_size=2, max_bad=5))


def test_a_mask_of_another_size_is_a_bad_file(dent):
    write_mask(dent.mask, size_hw=(11, 10))
    with pytest.raises(DatasetError, match="mask of 11x10 for a picture of 12x10"):
        list(load_batches([dent], size_hw=(8, 8), batch_size=2))


def test_batches_can_be_abandoned(good):
    batches = load_batches(good, size_hw=(8, 8), batch_size=1)
    next(batches)
    del batches  # must neither hang nor raise


def test_batch_options_are_checked_at_the_call(good):
    with pytest.raises(UsageError, match="batch size 0, 2 workers, 0 bad files allowed"):
        load_batches(good, size_hw=(8, 8), batch_size=0)
