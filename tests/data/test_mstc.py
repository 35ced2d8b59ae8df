import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest

from edgeseg.base.errors import DatasetError
from edgeseg.data import mstc as campus
from edgeseg.data.datasets import load_batches, open_dataset, read_sample
from tests.support.dataset_files import write_picture


@pytest.fixture
def mstc(tmp_path) -> Path:
    root = tmp_path / "shanghaitech"
    for frame in range(12):
        write_picture(root / f"training/frames/01_001/{frame:03}.jpg", value=frame)
        write_picture(root / f"testing/frames/01_0014/{frame:03}.jpg")
    masks = np.zeros((12, 12, 10), np.uint8)
    masks[5, 1, 2] = 1
    masks[6] = 1  # between the sampled frames
    (root / "testing/test_pixel_mask").mkdir()
    np.save(root / "testing/test_pixel_mask/01_0014.npy", masks)
    return root


@pytest.mark.parametrize("with_frame_labels", [False, True])
def test_mstc_takes_every_fifth_frame(mstc, with_frame_labels):
    if with_frame_labels:
        (mstc / "testing/test_frame_mask").mkdir()
        labels = np.isin(np.arange(12), [5, 6]).astype(np.uint8)
        np.save(mstc / "testing/test_frame_mask/01_0014.npy", labels)
    data = open_dataset(mstc)
    assert data.layout == "mstc"
    assert [sample.image.stem for sample in data.train] == ["000", "005", "010"]
    assert [sample.image.stem for sample in data.test] == ["000", "005", "010"]
    assert [sample.label for sample in data.test] == [0, 1, 0]
    assert [sample.mask_index for sample in data.test] == [None, 5, None]
    _, mask = read_sample(data.test[1], (12, 10))
    assert np.argwhere(mask).tolist() == [[1, 2]]


def test_mstc_without_masks_goes_by_the_labels_of_frames(mstc):
    (mstc / "testing/test_frame_mask").mkdir()
    labels = np.isin(np.arange(12), [5, 6]).astype(np.uint8)
    np.save(mstc / "testing/test_frame_mask/01_0014.npy", labels)
    shutil.rmtree(mstc / "testing/test_pixel_mask")
    data = open_dataset(mstc)
    assert [(sample.label, sample.is_marked) for sample in data.test] == [
        (0, True), (1, False), (0, True),
    ]  # fmt: skip
    assert data.notes[-1].startswith("no masks: 1 of 1 defective pictures are known by")
    np.save(mstc / "testing/test_frame_mask/01_0014.npy", labels[:9])
    with pytest.raises(DatasetError, match=r"test_frame_mask/01_0014\.npy: 9 labels for 12 frames"):
        open_dataset(mstc)


def test_mstc_draws_training_frames_by_the_seed(mstc, monkeypatch):
    monkeypatch.setattr(campus, "TRAIN_SAMPLES", 2)
    draws = {seed: open_dataset(mstc, seed=seed).train for seed in range(8)}
    assert all(len(set(train)) == 2 for train in draws.values())
    assert len(set(draws.values())) > 1
    assert open_dataset(mstc, seed=3).train == draws[3]
    assert open_dataset(mstc, seed=3).notes == ("2 of 3 training frames drawn with seed 3",)


def test_mstc_reads_published_videos(mstc):
    shutil.rmtree(mstc / "training/frames")
    (mstc / "training/videos").mkdir()
    path = mstc / "training/videos/01_001.avi"
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), 24, (32, 16))
    for frame in range(11):
        writer.write(np.full((16, 32, 3), 20 * frame, np.uint8))
    writer.release()
    data = open_dataset(mstc)
    assert [sample.image_index for sample in data.train] == [0, 5, 10]
    (batch,) = load_batches(data.train, size_hw=(16, 32), batch_size=3)
    assert np.abs(batch.frames.mean(axis=(1, 2, 3)) - [0, 100, 200]).max() < 4
    path.write_bytes(b"RIFF")
    with pytest.raises(DatasetError, match=r"01_001\.avi: no frames can be read"):
        open_dataset(mstc)


def test_mstc_masks_must_fit_the_frames(mstc):
    (mstc / "testing/frames/01_0014/011.jpg").unlink()
    with pytest.raises(DatasetError, match=r"01_0014\.npy: 12 masks for 11 frames"):
        open_dataset(mstc)
    (mstc / "testing/test_pixel_mask/01_0014.npy").unlink()
    with pytest.raises(DatasetError, match=r"its masks .*01_0014\.npy are missing"):
        open_dataset(mstc)
