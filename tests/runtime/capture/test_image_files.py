"""Image files look the same to a stream as to a fit, and both refuse the same ones."""

import threading
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest

from edgeseg.base.errors import DatasetError
from edgeseg.data.datasets import open_dataset
from edgeseg.data.samples import load_batches, read_sample
from edgeseg.runtime.capture.frame_buffer import FrameBuffer
from edgeseg.runtime.capture.reader import Reader
from edgeseg.runtime.capture.sources import open_capture, parse_source
from edgeseg.runtime.events.records import SourceEvent
from tests.support import HANGS_S
from tests.support.picture_bytes import encode, exif, jpeg_with_exif

SIZE_HW = (96, 64)
NOISE = np.random.default_rng(0).integers(0, 255, (*SIZE_HW, 3), np.uint8)
PICTURE = cv2.GaussianBlur(NOISE, (0, 0), 3)
DEEP = PICTURE.astype(np.uint16) * 257 + np.random.default_rng(1).integers(0, 257, PICTURE.shape)
ALPHA = np.dstack([PICTURE, np.arange(64, dtype=np.uint8)[None].repeat(96, axis=0)])
FILES: dict[str, Callable[[], bytes]] = {
    "8-bit.png": lambda: encode(".png", PICTURE),
    "8-bit.jpg": lambda: encode(".jpg", PICTURE),
    "8-bit.jp2": lambda: encode(".jp2", PICTURE),
    "16-bit.png": lambda: encode(".png", DEEP.astype(np.uint16)),
    "16-bit.tif": lambda: encode(".tif", DEEP.astype(np.uint16)),
    "16-bit grey.png": lambda: encode(".png", DEEP[..., 0].astype(np.uint16)),
    "grey.png": lambda: encode(".png", PICTURE[..., 0]),
    "alpha.png": lambda: encode(".png", ALPHA),
    "turned.jpg": lambda: jpeg_with_exif(encode(".jpg", PICTURE), exif(6)),
}
REFUSED: dict[str, Callable[[], bytes]] = {
    "cut.jpg": lambda: encode(".jpg", PICTURE)[:-200],
    "no end.jpg": lambda: encode(".jpg", PICTURE)[:-2],
    "cut.png": lambda: encode(".png", PICTURE)[:-200],
    "float.tif": lambda: encode(".tif", PICTURE.astype(np.float32)),
    "text.png": lambda: b"no picture",
    "empty.bmp": lambda: b"",
    "phone.heic": lambda: b"\0\0\0\x18ftypheic\0\0\0\0mif1heic",
}


@pytest.mark.parametrize("name", FILES)
def test_a_fit_and_a_stream_see_the_same_pixels(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(FILES[name]())
    capture = open_capture(parse_source(str(tmp_path)), wait=lambda seconds: False, timeout_s=1.0)
    grab = capture.read()
    assert grab is not None
    assert grab.image_hwc is not None
    assert (grab.channels, grab.name) == ("rgb", name)
    (sample,) = open_dataset(tmp_path).train
    size_hw = SIZE_HW[::-1] if name.startswith("turned") else SIZE_HW
    np.testing.assert_array_equal(grab.image_hwc, read_sample(sample, size_hw)[0])
    assert capture.read() is None


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_fit_refuses_is_counted_and_never_scored(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(REFUSED[name]())
    (tmp_path / "whole.png").write_bytes(FILES["8-bit.png"]())
    with pytest.raises(DatasetError, match=name):
        list(load_batches(open_dataset(tmp_path).train, size_hw=SIZE_HW, batch_size=2))
    buffer = FrameBuffer(["every"], queue_size=8)
    events: list[SourceEvent] = []
    reader = Reader(
        parse_source(str(tmp_path)),
        0,
        buffer=buffer,
        stop=threading.Event(),
        on_event=events.append,
        stall_timeout_s=5.0,
    )
    reader.start()
    assert reader.join(timeout_s=HANGS_S)
    assert reader.error is None
    counters = buffer.counters(0)
    assert (counters.frames_in, dict(counters.dropped)) == (2, {"unreadable": 1})
    ((frame, _),) = buffer.take(2, timeout_s=0)
    assert frame.name == "whole.png"
    assert events[-1].reason.startswith(f"2 frames read; {tmp_path / name}: ")
