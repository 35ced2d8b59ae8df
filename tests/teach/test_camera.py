"""The camera that collects: newest frame, meters, and a picture of every part."""

import time

import cv2
import numpy as np
import pytest

from edgeseg.base.errors import UsageError
from edgeseg.runtime.capture.frame_buffer import Frame
from edgeseg.teach.auto_capture import rgb
from edgeseg.teach.camera import Camera, RepeatingFiles, open_as_camera
from edgeseg.teach.meters import Meters
from edgeseg.vision.images import write_image
from tests.support.messages import refuses
from tests.support.small_models import frames


@pytest.fixture
def folder(tmp_path):
    for index in range(3):
        image = np.full((24, 32, 3), 60 * (index + 1), np.uint8)
        write_image(tmp_path / "camera" / f"{index}.png", image)
    return tmp_path / "camera"


def frame(image: np.ndarray, index: int) -> Frame:
    return Frame(
        source_index=0, frame_index=index, image_hwc=image, channels="rgb",
        grabbed_ns=time.monotonic_ns(), wall_s=time.time(),
    )  # fmt: skip


def test_a_folder_shows_its_pictures_again_and_again(folder):
    camera = Camera(str(folder), keep=lambda image: None)
    ended = iter([False] * 7 + [True])
    source = RepeatingFiles(camera.spec, wait=lambda seconds: next(ended), timeout_s=1.0)
    grabs = [source.read() for _ in range(7)]
    assert [grab.name for grab in grabs] == [f"{index % 3}.png" for index in range(7)]
    assert [grab.grabbed_ns for grab in grabs] == sorted(grab.grabbed_ns for grab in grabs)
    assert source.read() is None  # the run is ending


def test_the_newest_frame_is_captured_and_facts_are_told(folder):
    camera = Camera(str(folder), keep=lambda image: None)
    camera.start()
    try:
        assert camera.capture().shape == (24, 32, 3)
        first = camera.newest_index
        assert camera.next(after=first).frame_index > first
        facts = camera.facts()
        assert (facts["ok"], facts["width"], facts["height"]) == (True, 32, 24)
        assert set(camera.meters()) == {"focus", "light", "motion"}
    finally:
        camera.close()


def test_a_source_that_cannot_be_opened_is_said_in_one_sentence(tmp_path):
    with pytest.raises(UsageError, match="no such file"):
        Camera(str(tmp_path / "nothing"), keep=lambda image: None)


def test_every_new_part_becomes_one_picture(folder):
    kept = []
    camera = Camera(str(folder), keep=kept.append)
    camera.set_mode("parts")
    empty = np.full((96, 128, 3), 80, np.uint8)
    part = empty.copy()
    part[30:60, 40:90] = 200
    views = ([empty] * 4 + [part] * 8) * 3 + [empty] * 4
    for index, image in enumerate(views):
        camera.put(frame(image, index))
    assert len(kept) == 3
    assert all(np.array_equal(image, part) for image in kept)
    camera.set_mode("off")
    for index, image in enumerate(views):
        camera.put(frame(image, index))
    assert len(kept) == 3


def test_a_free_camera_has_no_trigger_to_wait_for(folder):
    camera = Camera(str(folder), keep=lambda image: None)
    with refuses(UsageError, "camera_free"):
        camera.set_mode("trigger")
    assert camera.mode == "off"


def test_every_frame_of_a_triggered_camera_is_a_picture():
    kept = []
    camera = Camera("aravis:X,trigger=hardware", keep=kept.append)
    camera.set_mode("trigger")
    for index in range(3):
        camera.put(frame(np.full((8, 8, 3), index, np.uint8), index))
    assert [int(image.max()) for image in kept] == [0, 1, 2]


def test_bgr_frames_are_turned(folder):
    image = np.zeros((4, 4, 3), np.uint8)
    image[..., 0] = 255
    bgr = Frame(
        source_index=0, frame_index=0, image_hwc=image, channels="bgr", grabbed_ns=0, wall_s=0.0
    )
    assert rgb(bgr)[0, 0].tolist() == [0, 0, 255]


def test_live_sources_are_opened_as_they_are():
    camera = Camera("synthetic:fps=30,frames=2", keep=lambda image: None)
    opened = open_as_camera(camera.spec, wait=lambda seconds: False, timeout_s=1.0)
    assert not isinstance(opened, RepeatingFiles)
    opened.close()


def test_meters_tell_sharp_from_blurred_dark_from_bright_and_still_from_moving():
    sharp, other = frames(2)
    meters = Meters()
    assert meters.facts() == {}
    meters.look(sharp)
    meters.look(sharp)
    words = {name: reading["word"] for name, reading in meters.facts().items()}
    assert words == {"focus": "sharp", "light": "good", "motion": "still"}
    meters.look(cv2.GaussianBlur(other, (0, 0), 4))
    assert meters.facts()["focus"]["word"] == "blurred"
    meters.look(sharp // 10)
    assert meters.facts()["light"]["word"] == "too dark"
    assert meters.facts()["motion"]["word"] == "moving"
    meters.look(np.full_like(sharp, 255))
    assert meters.facts()["light"]["word"] == "too bright"
    assert all(0 <= reading["value"] <= 1 for reading in meters.facts().values())
