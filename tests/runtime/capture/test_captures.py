"""Reading real files and made-up scenes; what is said when a source cannot be opened."""

from pathlib import Path
from types import SimpleNamespace

import cv2
import numpy as np
import pytest

from edgeseg.base.errors import DatasetError, RuntimeFailure
from edgeseg.data.synthetic.scene import KINDS, SceneGenerator
from edgeseg.runtime.capture import captures
from edgeseg.runtime.capture.captures import Pace
from edgeseg.runtime.capture.image_files import ImageFiles
from edgeseg.runtime.capture.opencv_capture import three_channels
from edgeseg.runtime.capture.sources import open_capture, parse_source
from edgeseg.vision.images import read_image


def never(seconds: float) -> bool:
    """Wait no time at all; the run goes on."""
    return False


def open_text(text: str) -> object:
    return open_capture(parse_source(text), wait=never, timeout_s=1.0)


def test_images_of_every_kind_become_three_channels(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    grey_hw = rng.integers(0, 255, (31, 47), dtype=np.uint8)  # odd sizes
    colour = rng.integers(0, 255, (31, 47, 3), dtype=np.uint8)
    cv2.imwrite(str(tmp_path / "a.png"), grey_hw)
    cv2.imwrite(str(tmp_path / "b.png"), colour)
    cv2.imwrite(str(tmp_path / "c.png"), np.dstack([colour, grey_hw]))  # alpha
    cv2.imwrite(str(tmp_path / "d.png"), grey_hw.astype(np.uint16) * 257)
    (tmp_path / "e.png").write_bytes(b"not an image")
    (tmp_path / "f.png").write_bytes(b"")
    capture = ImageFiles(tuple(sorted(tmp_path.iterdir())))
    grabs = []
    while (grab := capture.read()) is not None:
        grabs.append(grab)
    assert [grab.name for grab in grabs] == ["a.png", "b.png", "c.png", "d.png", "e.png", "f.png"]
    assert [grab.image_hwc is None for grab in grabs] == [False] * 4 + [True] * 2
    as_grey = np.repeat(grey_hw[:, :, None], 3, axis=2)
    rgb = colour[:, :, ::-1]
    for index, expected in ((0, as_grey), (1, rgb), (2, rgb), (3, as_grey)):
        assert grabs[index].channels == "rgb"
        assert np.array_equal(grabs[index].image_hwc, expected)


def test_grey_and_deep_frames_of_cameras() -> None:
    assert three_channels(np.zeros((4, 6), np.uint8)).shape == (4, 6, 3)
    assert three_channels(np.zeros((4, 6, 1), np.uint8)).shape == (4, 6, 3)
    assert three_channels(np.zeros((4, 6, 4), np.uint8)).shape == (4, 6, 3)
    assert three_channels(np.full((4, 6), 0xFFFF, np.uint16)).max() == 255


def test_deep_frames_of_cameras_are_rounded_like_those_of_files(tmp_path: Path) -> None:
    deep_hw = np.arange(0, 65536, 13, dtype=np.uint16)[:4096].reshape(64, 64)
    cv2.imwrite(str(tmp_path / "deep.png"), deep_hw)
    assert np.array_equal(three_channels(deep_hw), read_image(tmp_path / "deep.png"))


def test_frames_of_a_depth_that_nobody_knows() -> None:
    with pytest.raises(DatasetError, match="a frame of the camera: pixels are float32, expected"):
        three_channels(np.zeros((4, 6), np.float32))


def test_every_frame_of_a_video_is_read_once(shared: Path) -> None:
    path = shared / "data/video/car-detection.mp4"
    capture = open_text(str(path))
    count = 0
    while (grab := capture.read()) is not None:
        assert grab.image_hwc is not None
        assert grab.image_hwc.shape == (432, 768, 3)
        count += 1
    capture.close()
    assert count == 377
    assert capture.fps == 12.5


def test_the_synthetic_camera_ends_is_repeatable_and_says_what_it_drew() -> None:
    def read_all(text: str) -> list[tuple[str, bytes]]:
        capture = open_text(text)
        found = []
        while (grab := capture.read()) is not None:
            found.append((grab.name, grab.image_hwc.tobytes()))
        return found

    text = "synthetic:fps=0,frames=12,defects=0.5,seed=1,height=48,width=64"
    first = read_all(text)
    assert first == read_all(text)
    assert len({picture for _, picture in first}) == 12, "no frame repeats"
    names = {name for name, _ in first}
    assert "good" in names
    assert names - {"good"} <= set(KINDS)
    assert names != {"good"}
    assert {name for name, _ in read_all(text.replace("0.5", "0"))} == {"good"}
    written = {SceneGenerator(size_hw=(48, 64), seed=1).good(i).tobytes() for i in range(50)}
    assert not written & {picture for _, picture in first}, "not the frames a model is fitted on"


def test_pace_waits_until_a_frame_is_due_and_does_not_hurry_after_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [0.0]
    waits: list[float] = []
    monkeypatch.setattr(captures, "time", SimpleNamespace(monotonic=lambda: clock[0]))

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        clock[0] += seconds
        return False

    pace = Pace(10.0, wait=wait)
    for _ in range(4):
        assert not pace.ending()
    assert waits == pytest.approx([0.0, 0.1, 0.1, 0.1])
    clock[0] += 60.0  # the computer slept
    waits.clear()
    for _ in range(14):
        pace.ending()
    assert sum(wait == 0.0 for wait in waits) <= 11, "at most one second is caught up"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("/dev/video97", "/dev/video97: no device /dev/video97; is the camera plugged in?"),
        ("97", "97: no device /dev/video97"),
        (
            "http://admin:hunter2@127.0.0.1:1/x",
            "http://***@127.0.0.1:1/x: 127.0.0.1:1 does not answer (Connection refused)",
        ),
        ("rtsp://admin:hunter2@127.0.0.1:1/x", "127.0.0.1:1 does not answer (Connection refused)"),
        ("nosuchsrc user-pw=hunter2 ! appsink", "nosuchsrc user-pw=*** ! appsink: "),
    ],
)
def test_why_a_source_cannot_be_opened(text: str, message: str) -> None:
    with pytest.raises(RuntimeFailure) as error:
        open_text(text)
    assert message in str(error.value)
    assert "hunter2" not in str(error.value)


def test_a_file_that_is_no_video(tmp_path: Path) -> None:
    path = tmp_path / "clip.mp4"
    path.write_bytes(b"no video at all")
    with pytest.raises(RuntimeFailure, match="not a video that OpenCV can decode"):
        open_text(str(path))
