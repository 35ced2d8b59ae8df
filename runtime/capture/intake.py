"""What a reader hands its frames to: the buffer itself, or a trigger that stands before it."""

from typing import Protocol

from edgeseg.runtime.capture.frame_buffer import Frame


class Intake(Protocol):
    """Called from the readers' threads."""

    def put(self, frame: Frame) -> None:
        """Take a frame; may wait for room."""

    def count_unread(self, source_index: int, cause: str) -> None:
        """Account for a frame that never became an image."""

    def finish(self, source_index: int) -> None:
        """No more frames will come from this source."""
