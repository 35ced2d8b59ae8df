"""Match frames with their triggers, in the reader's thread, in front of the buffer.

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


def with_trigger(frame: Frame, event: "TriggerEvent") -> Frame:
    """Return the frame with the trigger that it answers."""
    return replace(frame, trigger_id=event.trigger_id, part_id=event.part_id or None)


class SoftwareIntake:
    """An intake of the first frame after each trigger; if `fired`, each takes its own frame."""

    def __init__(self, buffer: FrameBuffer, station: Station, *, fired: bool = False) -> None:
        self._buffer, self._station, self._fired = buffer, station, fired

    def put(self, frame: Frame) -> None:
        """Score the frame if an older trigger waits for it."""
        event = self._station.acquire(grabbed_ns=frame.grabbed_ns)
        if event is None:
            self._buffer.count_unread(frame.source_index, UNTRIGGERED)
        else:
            self._buffer.put(with_trigger(frame, event))

    def count_unread(self, source_index: int, cause: str) -> None:
        """Answer a waiting trigger with the damaged frame: the part may be gone.

        A picture that a free-running camera sends twice is ignored: a new one may still come.
        """
        self._buffer.count_unread(source_index, cause)
        if cause == REPEATED and not self._fired:
            return
        self._station.fail_acquiring(ErrorCode.INCOMPLETE_FRAME, f"the frame is lost ({cause})")

    def finish(self, source_index: int) -> None:
        """Note that no more frames come from this source."""
        self._buffer.finish(source_index)


class HardwareIntake:
    """An intake that takes every frame for a trigger: the camera exposes on its line."""

    def __init__(self, buffer: FrameBuffer, station: Station) -> None:
        self._buffer, self._station = buffer, station

    def put(self, frame: Frame) -> None:
        """Trigger with the frame, and score it if the station accepts it."""
        event = self._station.trigger(origin="hardware", at_ns=frame.grabbed_ns, acquired=True)
        if self._station.waits_for(event.trigger_id):
            self._buffer.put(with_trigger(frame, event))
        else:
            self._buffer.count_unread(frame.source_index, MISSED)

    def count_unread(self, source_index: int, cause: str) -> None:
        """Answer the trigger of the line: its frame is lost."""
        self._buffer.count_unread(source_index, cause)
        event = self._station.trigger(origin="hardware", acquired=True)
        reason = f"the frame is lost ({cause})"
        self._station.fail(event.trigger_id, ErrorCode.INCOMPLETE_FRAME, reason)

    def finish(self, source_index: int) -> None:
        """Note that no more frames come from this source."""
        self._buffer.finish(source_index)
