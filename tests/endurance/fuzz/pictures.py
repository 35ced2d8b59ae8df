"""Readers of pictures, masks and videos."""

from pathlib import Path

from tests.endurance.fuzz.format import write
from tests.endurance.fuzz.seeds import Seed


def read_image(data: bytes, seed: Seed, folder: Path) -> object:
    from edgeseg.vision.images import decode_image

    return decode_image(data, name=seed.name, max_pixels=4_000_000)


def read_mask(data: bytes, seed: Seed, folder: Path) -> object:
    from edgeseg.vision.images import read_mask, read_mask_stack

    path = write(data, folder, seed.name)
    return read_mask_stack(path, 1) if path.suffix == ".npy" else read_mask(path)


def read_video(data: bytes, seed: Seed, folder: Path) -> object:
    from edgeseg.runtime.capture.sources import open_capture, parse_source
    from edgeseg.vision.images import read_video_frame

    path = write(data, folder, seed.name)
    spec = parse_source(str(path), max_pixels=4_000_000)
    capture = open_capture(spec, wait=lambda seconds: False, timeout_s=5.0)
    try:
        for _ in range(8):
            if capture.read() is None:
                break
    finally:
        capture.close()
    return read_video_frame(path, 2, max_pixels=4_000_000)
