"""Pictures that are kept by themselves, and what is said while none is."""

import time

import numpy as np
import pytest

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Message
from edgeseg.runtime.capture.frame_buffer import Frame
from edgeseg.teach.auto_capture import NO_AUTO, AutoCapture
from edgeseg.teach.camera import Camera
from tests.support.messages import says

EMPTY = np.full((96, 128, 3), 80, np.uint8)
PART = EMPTY.copy()
PART[30:60, 40:90] = 200


class Line:
    """A belt before a camera, and a clock."""

    def __init__(self, mode="parts", keep=lambda image: None) -> None:
        self.kept, self.now_s, self.index = [], 0.0, 0
        buffer = Camera("synthetic:fps=30,frames=2", keep=lambda image: None)
        self.auto = AutoCapture(
            mode,
            buffer,
            keep=lambda image: (keep(image), self.kept.append(image)),
            clock_s=lambda: self.now_s,
        )

    def show(self, *images: np.ndarray) -> None:
        for image in images:
            self.index += 1
            self.auto.put(
                Frame(
                    source_index=0,
                    frame_index=self.index,
                    image_hwc=image,
                    channels="rgb",
                    grabbed_ns=time.monotonic_ns(),
                    wall_s=time.time(),
                )
            )

    def says(self, key: str) -> None:
        says(self.auto.facts()["sentence"], key)


def moving(step: int) -> np.ndarray:
    image = EMPTY.copy()
    image[30:60, 10 + 7 * (step % 10) : 60 + 7 * (step % 10)] = 200
    return image


def test_it_says_what_it_waits_for_from_part_to_part():
    line = Line()
    line.show(EMPTY, EMPTY)
    line.says("auto_waits")
    assert np.array_equal(line.auto.empty.image_hwc, EMPTY)
    line.show(PART, PART)
    line.says("auto_coming")
    line.show(*[PART] * 8)
    line.says("auto_taken")
    assert (line.auto.facts()["taken"], line.auto.facts()["empty"]) == (1, "1")
    line.show(*[EMPTY] * 4)
    line.says("auto_waits")


def test_a_view_that_is_never_empty_is_the_reason_why_nothing_more_is_kept():
    line = Line()
    line.show(EMPTY, *[PART] * 8)
    for step in range(40):  # parts follow each other without a gap
        line.now_s += 1.0
        line.show(moving(step))
    assert len(line.kept) == 1
    line.says("auto_never_empty")


def test_something_that_does_not_rest_is_said_too():
    line = Line()
    line.show(EMPTY)
    for step in range(40):
        line.now_s += 1.0
        line.show(moving(step))
    assert line.kept == []
    line.says("auto_restless")


def test_a_part_that_lay_there_at_the_start_is_seen_as_what_counts_as_empty():
    line = Line()
    line.show(*[PART] * 8)
    line.says("auto_waits")
    assert np.array_equal(line.auto.empty.image_hwc, PART)
    assert line.kept == []


def test_a_full_project_is_said_and_ends_nothing():
    def full(image: np.ndarray) -> None:
        raise UsageError(Message("pictures_full", kind=Message("word_good"), n=2000))

    line = Line(mode="trigger", keep=full)
    line.show(PART)
    line.says("pictures_full")
    assert line.auto.facts()["taken"] == 0


def test_triggers_are_counted():
    line = Line(mode="trigger")
    line.show(PART, PART)
    line.says("auto_trigger")
    assert line.auto.facts()["taken"] == len(line.kept) == 2


@pytest.mark.parametrize("shown", [(), (PART,)])
def test_nothing_is_said_while_it_is_off(shown):
    line = Line(mode="off")
    line.show(*shown)
    assert line.auto.facts() == NO_AUTO
