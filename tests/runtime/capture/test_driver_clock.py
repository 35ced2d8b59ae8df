"""A V4L2 device by its driver's stamps, with a capture in OpenCV's place."""

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edgeseg.runtime.capture import liveness
from edgeseg.runtime.capture.driver_clock import driver_stamp_s
from edgeseg.runtime.capture.opencv_capture import OpenCvCapture, device_clock
from tests.meaning.world import Sim


class Device:
    """Hands out one frame whenever it is asked; its driver says that it was filled then."""

    def __init__(self, stamp_s: float) -> None:
        self.stamp_s = stamp_s

    def grab(self) -> bool:
        return True

    def retrieve(self) -> tuple[bool, NDArray[np.uint8]]:
        return True, np.zeros((4, 6, 3), np.uint8)

    def get(self, what: int) -> float:
        return 1e3 * self.stamp_s if what == cv2.CAP_PROP_POS_MSEC else 0.0

    def release(self) -> None:
        pass


def grabbed_s(monkeypatch: pytest.MonkeyPatch, stamp_s: float) -> float:
    """Of a frame that is read at 1000 s, from a device that was opened at 990 s."""
    monkeypatch.setattr(liveness, "time", Sim(0))
    capture = OpenCvCapture(Device(stamp_s), clock=device_clock(990.0))  # type: ignore[arg-type]
    grab = capture.read()
    assert grab is not None
    assert grab.wall_s == pytest.approx(grab.grabbed_ns / 1e9)
    return grab.grabbed_ns / 1e9


def test_a_buffer_that_waited_is_as_old_as_its_stamp(monkeypatch: pytest.MonkeyPatch) -> None:
    assert grabbed_s(monkeypatch, 998.4) == pytest.approx(998.4)


@pytest.mark.parametrize("stamp_s", [0.0, 1000.5, 1.7e9, 930.0, -1.0])
def test_a_stamp_of_another_clock_is_none(monkeypatch: pytest.MonkeyPatch, stamp_s: float) -> None:
    assert driver_stamp_s(1000.0, stamp_s) is None
    assert grabbed_s(monkeypatch, stamp_s) == 990.0, "not before it was opened: all that is known"
