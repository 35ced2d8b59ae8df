"""OpenCV is silent while anyone needs it to be, and not longer."""

from collections.abc import Iterator

import cv2
import pytest

from edgeseg.vision.opencv_log import Silence

logging = cv2.utils.logging


@pytest.fixture(autouse=True)
def level() -> Iterator[None]:
    before = logging.getLogLevel()
    logging.setLogLevel(logging.LOG_LEVEL_WARNING)
    yield
    logging.setLogLevel(before)


def test_the_level_is_given_back_when_the_last_one_leaves() -> None:
    quiet = Silence()
    with quiet:
        with quiet:
            assert logging.getLogLevel() == logging.LOG_LEVEL_SILENT
        assert logging.getLogLevel() == logging.LOG_LEVEL_SILENT
    assert logging.getLogLevel() == logging.LOG_LEVEL_WARNING


def test_kept_silence_outlasts_a_decoded_picture() -> None:
    """Otherwise a folder of images beside a camera would print the camera's password."""
    quiet = Silence()
    with quiet:
        quiet.keep()
    with quiet:
        pass
    assert logging.getLogLevel() == logging.LOG_LEVEL_SILENT
