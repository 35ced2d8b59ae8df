"""A window on the desktop, for setting up a camera."""

import os
import sys
from collections.abc import Callable

import cv2
import numpy as np

from edgeseg.errors import RuntimeFailure
from edgeseg.runtime.records import FrameResult, SourceEvent
from edgeseg.runtime.sinks.overlay import annotate_result

_MAX_SIDE = 1280


class WindowSink:
    """Shows annotated frames; `q` or Escape ends the run.

    OpenCV draws in the thread that calls it, so a window costs scoring time: it is for people.
    """

    name = "window"

    def __init__(self, *, on_quit: Callable[[], None]) -> None:
        check_display()
        self._on_quit = on_quit

    def on_frame(self, result: FrameResult) -> None:
        """Draw one frame and look for a key."""
        picture = annotate_result(result, max_side=_MAX_SIDE)
        cv2.imshow(f"edgeseg {result.source}", cv2.cvtColor(picture, cv2.COLOR_RGB2BGR))
        if cv2.waitKey(1) & 0xFF in (ord("q"), 27):
            self._on_quit()

    def on_source(self, event: SourceEvent) -> None:
        """Nothing to draw."""

    def close(self) -> None:
        """Close all windows."""
        cv2.destroyAllWindows()


def check_display() -> None:
    """Refuse before the run when no window can be opened."""
    if sys.platform == "linux" and not {"DISPLAY", "WAYLAND_DISPLAY"} & set(os.environ):
        raise RuntimeFailure(
            "--show: there is no display here; use --serve PORT and a browser instead"
        )
    try:
        cv2.imshow("edgeseg", np.zeros((32, 32, 3), np.uint8))
        cv2.waitKey(1)
        cv2.destroyAllWindows()
    except cv2.error:
        raise RuntimeFailure(
            "--show: this OpenCV was built without windows; `pip uninstall "
            "opencv-python-headless`, then `pip install opencv-python`, or use --serve PORT"
        ) from None
