"""The receiver of a reader's frames: the buffer itself, or a trigger in front of it."""

from typing import Protocol

from edgeseg.runtime.capture.frame_buffer import Frame


class Intake(Protocol):
    """A receiver of frames, called from the readers' threads."""

    def put(self, frame: Frame) -> None:
        """Take a frame; may wait for free space."""

    def count_unread(self, source_index: int, cause: str) -> None:
        """Account for a frame that never became an image."""

    def finish(self, source_index: int) -> None:
        """Note that no more frames come from this source."""
