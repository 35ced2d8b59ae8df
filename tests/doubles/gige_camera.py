"""A camera of GigE Vision on loopback, with aravis' own fake, that can be killed."""

import fcntl
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from edgeseg.base.errors import EdgesegError
from edgeseg.runtime.capture.aravis.discovery import discover
from edgeseg.runtime.capture.aravis.library import library
from tests.support import HANGS_S

PROGRAM = "arv-fake-gv-camera-0.8"
SERIAL = "GV01"


def need_aravis() -> None:
    """Skip where library or camera are not installed."""
    try:
        library()
    except EdgesegError as error:
        pytest.skip(str(error))
    if shutil.which(PROGRAM) is None:
        pytest.skip(f"needs {PROGRAM} (sudo apt install aravis-tools)")


class GigeCamera:
    """The camera in a process of its own: 512x512, 25 frames a second."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *, lost_per_thousand: int = 0) -> None:
        """Switch it on, if it is off; returns when it answers."""
        if self._process is not None:
            return
        command = [PROGRAM, "-i", "127.0.0.1", "-s", SERIAL, "-r", str(lost_per_thousand)]
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline_s = time.monotonic() + HANGS_S
        while SERIAL not in [camera.serial for camera in discover()]:
            assert self._process.poll() is None, f"{PROGRAM} ended at once"
            assert time.monotonic() < deadline_s, f"{PROGRAM} does not answer"

    def kill(self) -> None:
        """Pull the plug."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(HANGS_S)
            self._process = None


@contextmanager
def gige_camera() -> Iterator[GigeCamera]:
    """One at a time on this computer: the port of the protocol is fixed."""
    need_aravis()
    camera = GigeCamera()
    with (Path(tempfile.gettempdir()) / "edgeseg-gige-camera.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield camera
        finally:
            camera.kill()


_AGAIN_S = 5.0  # a frame that has not come by then was lost on its way: nobody sends UDP twice
_UNCONFIRMED_S = 0.5  # after which the library sends a trigger again


def fire_until(fire: Callable[[], None], came: Callable[[], bool]) -> int:
    """Fire until a frame came, again where one was lost; how many the camera may have taken."""
    taken, deadline_s = 0, time.monotonic() + HANGS_S
    while not came():
        fired_s = time.monotonic()
        assert fired_s < deadline_s, "no trigger brings a frame"
        fire()
        taken += 1 + int((time.monotonic() - fired_s) / _UNCONFIRMED_S)
        while not came() and time.monotonic() < fired_s + _AGAIN_S:
            time.sleep(0.002)
    return taken


def is_whole(frame_hwc: NDArray[np.uint8]) -> bool:
    """Whether a frame of the fake is one picture: a ramp along its diagonal, no row of another."""
    grey = frame_hwc[:, :, 0]
    return bool(np.array_equal(grey[1:, :-1], grey[:-1, 1:])) and len(np.unique(grey)) > 9
