"""Silence OpenCV's own lines on stderr: they name no file, and they show the password of a URL."""

import threading

import cv2


class Silence:
    """A context in which OpenCV prints nothing; afterwards its log level is restored."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # pictures are decoded in several threads at once
        self._inside = 0
        self._level = 0

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._level = cv2.utils.logging.getLogLevel()
                cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                cv2.utils.logging.setLogLevel(self._level)

    def keep(self) -> None:
        """Stay silent until the process ends."""
        self.__enter__()


quiet_opencv = Silence()
