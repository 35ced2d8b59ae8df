"""Pipelines in a child process: sizes, ends, deaths, stalls, and what GStreamer said of them."""

import os
import shutil
import signal
import threading
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from edgeseg.base.errors import EdgesegError, RuntimeFailure
from edgeseg.runtime.capture import gstreamer_process
from edgeseg.runtime.capture.gstreamer_process import GstProcess, command, open_gstreamer
from tests.doubles.fakes import wait
from tests.support.running_pipeline import running_pipeline

real = pytest.mark.skipif(
    shutil.which(gstreamer_process.PROGRAM) is None,
    reason=f"needs {gstreamer_process.PROGRAM} ({gstreamer_process.INSTALL})",
)
LIVE = "videotestsrc is-live=true ! video/x-raw,width=64,height=48,framerate=50/1"


def opened(pipeline: str, *, live: bool = True, timeout_s: float = 20.0) -> GstProcess:
    return open_gstreamer(pipeline, live=live, wait=lambda seconds: False, timeout_s=timeout_s)


def to_the_end(capture: GstProcess) -> None:
    while capture.read() is not None:
        pass


def children() -> list[int]:
    """Processes that this one started and did not yet bury."""
    return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


def test_the_pipe_takes_the_place_of_appsink() -> None:
    tail = "! videoconvert ! video/x-raw,format=BGR ! gdppay ! fdsink fd=7"
    asked = "v4l2src device='/dev/my cam' ! appsink max-buffers=1"
    first = ["gst-launch-1.0", "-q", "v4l2src", "device=/dev/my cam"]
    assert command(asked, 7) == [*first, *tail.split(), "sync=false"]
    assert command(asked + " sync=true", 7)[-1] == "sync=true"
    assert command("v4l2src device='/dev/my cam'", 7) == command(asked, 7)
    newest = ["!", "queue", "leaky=downstream", "max-size-buffers=1"]
    assert command(asked + " drop=true", 7) == [*first, *newest, *tail.split(), "sync=false"]
    with pytest.raises(RuntimeFailure, match="No closing quotation in the pipeline"):
        command("a 'b ! appsink", 7)


@real
@pytest.mark.parametrize("width", [64, 65, 317])
def test_frames_have_the_size_of_the_pipeline_and_its_colours(width: int) -> None:
    size = f"video/x-raw,width={width},height=40,framerate=25/1"
    capture = opened(f"videotestsrc pattern=blue num-buffers=3 ! {size} ! appsink", live=False)
    assert capture.fps == 25
    images = []
    while (grab := capture.read()) is not None:
        assert grab.channels == "bgr"
        assert grab.image_hwc is not None
        images.append(grab.image_hwc)
    capture.close()
    capture.close()
    assert len(images) == 3, "and then its end, which is no failure"
    for image_hwc in images:
        assert image_hwc.shape == (40, width, 3)
        assert np.abs(image_hwc.astype(int) - (255, 0, 0)).max() <= 2


@real
@pytest.mark.parametrize(
    ("pipeline", "message"),
    [
        ("videotestsrc ! nosuchelement ! appsink", ': no element "nosuchelement"'),
        ("videotestsrc foo=1 ! appsink", 'no property "foo" in element "videotestsrc"'),
        ("filesrc location=/nowhere ! decodebin ! appsink", "filesrc0: Resource not found."),
        ("audiotestsrc ! appsink", "could not link audiotestsrc0 to videoconvert0"),
        ("videotestsrc num-buffers=0 ! appsink", "the pipeline gives no frames"),
    ],
)
def test_what_cannot_start_is_said_in_the_words_of_gstreamer(pipeline: str, message: str) -> None:
    before = children()
    with pytest.raises(RuntimeFailure) as error:
        opened(pipeline)
    assert message in str(error.value)
    assert str(error.value).startswith(pipeline)
    assert children() == before


@real
def test_no_secret_is_in_the_words_of_gstreamer() -> None:
    with pytest.raises(RuntimeFailure) as error:
        opened("filesrc location=rtsp://admin:hunter2@cam/1 ! decodebin ! appsink")
    assert "hunter2" not in str(error.value)


@real
def test_a_pipeline_that_fails_on_the_way_says_why() -> None:
    capture = opened(f"{LIVE} ! identity error-after=5 ! appsink")
    with pytest.raises(RuntimeFailure, match="identity0: Failed after iterations as requested"):
        to_the_end(capture)
    capture.close()


@real
def test_a_pipeline_that_stalls_is_ended() -> None:
    # Stopped, as a driver that hangs would stop it.
    capture = opened(f"{LIVE} ! appsink", timeout_s=1.0)
    assert capture.read() is not None
    (child,) = [pid for pid in children() if "gst-launch" in _name(pid)]
    os.kill(child, signal.SIGSTOP)
    with pytest.raises(RuntimeFailure, match=r"^no frame for 1\.\d s$"):
        to_the_end(capture)
    capture.close()
    assert child not in children()


def _name(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


@real
def test_something_else_in_the_pipe_is_no_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    def noise(pipeline: str, descriptor: int) -> list[str]:
        return ["sh", "-c", f"seq 1000 > /dev/fd/{descriptor}"]

    monkeypatch.setattr(gstreamer_process, "command", noise)
    with pytest.raises(RuntimeFailure, match="x: the pipeline writes something else than frames"):
        opened("x")


@real
def test_the_end_of_the_run_is_noticed_while_no_frame_comes() -> None:
    stop = threading.Event()
    capture = open_gstreamer(f"{LIVE} ! appsink", live=True, wait=stop.wait, timeout_s=3600)
    (child,) = [pid for pid in children() if "gst-launch" in _name(pid)]
    os.kill(child, signal.SIGSTOP)
    threading.Timer(0.2, stop.set).start()
    to_the_end(capture)
    capture.close()


def test_without_gstreamer_one_sentence_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gstreamer_process, "PROGRAM", "no-such-gst-launch")
    with pytest.raises(EdgesegError) as error:
        opened("videotestsrc ! appsink")
    assert str(error.value) == (
        "GStreamer pipelines need no-such-gst-launch, which is not installed; try: sudo apt "
        "install gstreamer1.0-tools gstreamer1.0-plugins-good gstreamer1.0-plugins-bad"
    )


@real
def test_a_child_that_is_killed_is_a_loss_and_comes_back() -> None:
    before = children()
    with running_pipeline(f"{LIVE} ! appsink", stall_timeout_s=10.0) as (_, sink):
        wait(lambda: len(sink.results) > 3, "frames")
        (child,) = set(_group_leaders()) - set(before)
        os.kill(child, signal.SIGKILL)
        wait(lambda: "source_back" in [event.kind for event in list(sink.events)], "its return")
        count = len(sink.results)
        wait(lambda: len(sink.results) > count + 3, "frames after it")
    assert not set(_group_leaders()) - set(before), "no child is left"
    lost = next(event for event in sink.events if event.kind == "source_lost")
    assert lost.reason == "GStreamer ended with signal 9"
    ages = [result.times.capture_age for result in sink.results]
    assert min(ages) >= 0


def _group_leaders() -> list[int]:
    """Children of all threads: a reader starts its own."""
    children = []
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError):  # a thread that has just ended
            children += map(int, (task / "children").read_text().split())
    return children
