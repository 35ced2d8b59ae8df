"""Frames meet their triggers, in the reader's thread, before the buffer.

software: trigger, then the first frame exposed after it        frames between them are dropped
hardware: every frame of the camera is a trigger of its line    a damaged one is answered too
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from edgeseg.runtime.capture.frame_buffer import REPEATED, Frame, FrameBuffer
from edgeseg.runtime.events.codes import ErrorCode
from edgeseg.runtime.station.station import Station

if TYPE_CHECKING:
    from edgeseg.runtime.station.records import TriggerEvent

UNTRIGGERED = "untriggered"  # nobody asked for it
MISSED = "missed"  # triggered, and the station could not take it


def tied(frame: Frame, event: "TriggerEvent") -> Frame:
    """The frame with the trigger that it answers."""
    return replace(frame, trigger_id=event.trigger_id, part_id=event.part_id or None)


class SoftwareIntake:
    """Lets the first frame after each trigger through; `fired`: each takes a frame of its own."""

    def __init__(self, buffer: FrameBuffer, station: Station, *, fired: bool = False) -> None:
        self._buffer, self._station, self._fired = buffer, station, fired

    def put(self, frame: Frame) -> None:
        """Score it if a trigger waits that is older than it."""
        event = self._station.acquire(grabbed_ns=frame.grabbed_ns)
        if event is None:
            self._buffer.count_unread(frame.source_index, UNTRIGGERED)
        else:
            self._buffer.put(tied(frame, event))

    def count_unread(self, source_index: int, cause: str) -> None:
        """A damaged frame is the answer to a trigger that waits: the part may be gone.

        A picture that a camera which runs freely gives twice is none: a new one may still come.
        """
        self._buffer.count_unread(source_index, cause)
        if cause == REPEATED and not self._fired:
            return
        self._station.fail_acquiring(ErrorCode.INCOMPLETE_FRAME, f"the frame is lost ({cause})")

    def finish(self, source_index: int) -> None:
        """No more frames will come from this source."""
        self._buffer.finish(source_index)


class HardwareIntake:
    """Takes every frame for a trigger: the camera exposes when its line says so."""

    def __init__(self, buffer: FrameBuffer, station: Station) -> None:
        self._buffer, self._station = buffer, station

    def put(self, frame: Frame) -> None:
        """Trigger with it, and score it if the station takes it."""
        event = self._station.trigger(origin="hardware", at_ns=frame.grabbed_ns, acquired=True)
        if self._station.waits_for(event.trigger_id):
            self._buffer.put(tied(frame, event))
        else:
            self._buffer.count_unread(frame.source_index, MISSED)

    def count_unread(self, source_index: int, cause: str) -> None:
        """The line has triggered, and the frame is lost."""
        self._buffer.count_unread(source_index, cause)
        event = self._station.trigger(origin="hardware", acquired=True)
        reason = f"the frame is lost ({cause})"
        self._station.fail(event.trigger_id, ErrorCode.INCOMPLETE_FRAME, reason)

    def finish(self, source_index: int) -> None:
        """No more frames will come from this source."""
        self._buffer.finish(source_index)
