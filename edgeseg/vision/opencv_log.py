"""OpenCV's own lines on stderr: of a file they give no name, of a URL they give the password."""

import threading

import cv2


class Silence:
    """Nothing is printed while anyone is inside; then the level is what it was before."""

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
