"""The study of cameras, in small."""

import shutil

import pytest

from edgeseg.bench.studies.line.cameras import lost_packets, pipe, triggers
from edgeseg.runtime.capture.gstreamer_process import PROGRAM
from tests.support.gige_camera import gige_camera


@pytest.mark.skipif(shutil.which(PROGRAM) is None, reason=f"needs {PROGRAM}")
def test_the_pipe() -> None:
    ((what, measured),) = pipe(64, 48, 5)
    assert what == "GStreamer, 64x48"
    assert "frames a second" in measured


def test_triggers_and_losses() -> None:
    with gige_camera():  # nobody else's at the same time
        count, whole, _ = triggers(5)
        assert (count[1], whole[1]) == ("5", "5")
        ((_, measured),) = lost_packets(10)
    numbers = [int(word) for word in measured.replace(",", "").split() if word.isdigit()]
    assert sum(numbers) == 10
