"""mSTC: the ShanghaiTech campus videos as single pictures.

training/videos/<scene>_<clip>.avi        as published, or training/frames/<scene>_<clip>/NNN.jpg
testing/frames/<scene>_<clip>/NNN.jpg
testing/test_frame_mask/<scene>_<clip>.npy   (T,)       is the frame abnormal
testing/test_pixel_mask/<scene>_<clip>.npy   (T, H, W)  where; the whole folder may be missing
"""

from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import DatasetError
from edgeseg.data.layouts import Split, folders_in
from edgeseg.data.samples import Sample
from edgeseg.vision.arrays import open_array
from edgeseg.vision.images import images_in

FRAME_STEP = 5  # neighbouring frames are nearly the same picture
TRAIN_SAMPLES = 5000  # as in the published comparisons on this dataset


def find_mstc(root: Path, *, seed: int) -> Split:
    """Find every fifth frame; of those for training, 5000 drawn by the seed."""
    frames = _training_frames(root)
    test = [
        sample
        for clip in folders_in(root / "testing" / "frames")
        for sample in _test_clip(clip, root / "testing")
    ]
    if len(frames) <= TRAIN_SAMPLES:
        return Split(train=tuple(frames), test=tuple(test))
    chosen = np.random.default_rng(seed).choice(len(frames), TRAIN_SAMPLES, replace=False)
    note = f"{TRAIN_SAMPLES} of {len(frames)} training frames drawn with seed {seed}"
    train = tuple(frames[index] for index in sorted(chosen))
    return Split(train=train, test=tuple(test), notes=(note,))


def _training_frames(root: Path) -> list[Sample]:
    frames = [
        Sample(image=image)
        for clip in folders_in(root / "training" / "frames")
        for image in images_in(clip)[::FRAME_STEP]
    ]
    if frames:
        return frames
    return [
        Sample(image=video, image_index=index)
        for video in sorted((root / "training" / "videos").glob("*.avi"))
        for index in range(0, _frame_count(video), FRAME_STEP)
    ]


def _frame_count(video: Path) -> int:
    capture = cv2.VideoCapture(str(video))
    try:
        count = int(capture.get(cv2.CAP_PROP_FRAME_COUNT)) if capture.isOpened() else 0
    finally:
        capture.release()
    if count < 1:
        raise DatasetError(
            f"{video}: no frames can be read from this video; extract them to "
            f"{video.parent.parent / 'frames' / video.stem}/000.jpg and so on"
        )
    return count


def _test_clip(clip: Path, testing: Path) -> list[Sample]:
    images = images_in(clip)
    mask = testing / "test_pixel_mask" / f"{clip.name}.npy"
    labels = testing / "test_frame_mask" / f"{clip.name}.npy"
    by_labels = not any(mask.parent.glob("*.npy")) and labels.is_file()
    if not mask.is_file() and not by_labels:
        raise DatasetError(f"{clip}: its masks {mask} are missing")
    abnormal = _abnormal_frames(mask, labels)
    if len(abnormal) != len(images):
        truth = (
            f"{labels}: {len(abnormal)} labels" if by_labels else f"{mask}: {len(abnormal)} masks"
        )
        raise DatasetError(f"{truth} for {len(images)} frames in {clip}")
    own = None if by_labels else mask
    samples = []
    for index in range(0, len(images), FRAME_STEP):
        if abnormal[index]:
            samples.append(
                Sample(image=images[index], mask=own, mask_index=index, label=1, kind="abnormal")
            )
        else:
            samples.append(Sample(image=images[index]))
    return samples


def _abnormal_frames(pixel_masks: Path, frame_labels: Path) -> NDArray[np.bool_]:
    # The labels say in bytes what the masks say in gigabytes; without them the masks are read.
    if frame_labels.is_file():
        return np.asarray(open_array(frame_labels) != 0, dtype=np.bool_).reshape(-1)
    masks_thw = open_array(pixel_masks)
    labels = np.zeros(len(masks_thw), np.bool_)
    for index in range(0, len(masks_thw), FRAME_STEP):
        labels[index] = masks_thw[index].any()
    return labels
