"""Buffer frames between the reader threads and the scoring loop, and count every one of them.

One lock guards frames and counters together, so that at any moment, for each source,
frames_in = scored + dropped + waiting + under way, and after close() frames_in = scored + dropped.
"""

import threading
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from edgeseg.vision.frames import Channels

Policy = Literal["latest", "queue", "every"]

REPLACED = "replaced"  # a newer frame came before this one was scored (policy latest)
QUEUE_FULL = "queue_full"  # the oldest of a full queue (policy queue)
SHUTDOWN = "shutdown"  # still waiting when the run ended
FAILED = "failed"  # taken, and the run ended with an error before its verdict
UNREADABLE = "unreadable"  # announced by the source and not decodable
INCOMPLETE = "incomplete"  # a part of it was lost between camera and computer
REPEATED = "repeated"  # byte for byte the one before: no new exposure of a real sensor
UNDERRUN = "underrun"  # the camera sent it while every buffer of the computer was full


@dataclass(frozen=True, kw_only=True, slots=True)
class Frame:
    """One captured image; each reader makes a new array for every frame."""

    source_index: int
    frame_index: int
    image_hwc: NDArray[np.uint8]
    channels: Channels
    grabbed_ns: int  # time.monotonic_ns(); it was not exposed before, as far as its source knows
    wall_s: float
    name: str = ""
    frame_id: int | None = None  # as the camera counts, and its own clock
    camera_ns: int | None = None
    trigger_id: int | None = None  # that it answers; None: free running
    part_id: str | None = None


@dataclass(kw_only=True)
class Lane:
    """One source's waiting frames and counters."""

    policy: Policy
    capacity: int
    waiting: deque[tuple[Frame, int]] = field(default_factory=deque)  # with the time it came in
    frames_in: int = 0
    under_way: int = 0
    scored: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    last_frame_s: float | None = None
    finished: bool = False


class FrameBuffer:
    """A lane per source; readers put, one scoring thread takes."""

    def __init__(self, policies: list[Policy], *, queue_size: int) -> None:
        # `every` reads a few frames ahead, so that decoding and scoring overlap.
        sizes = {"latest": 1, "queue": queue_size, "every": min(queue_size, 4)}
        self._lanes = [Lane(policy=policy, capacity=sizes[policy]) for policy in policies]
        self._changed = threading.Condition()
        self._closed = False
        self._woken = False
        self._next = 0

    def put(self, frame: Frame) -> None:
        """Count a frame and keep it by its lane's policy; `every` waits for free space."""
        with self._changed:
            lane = self._lanes[frame.source_index]
            lane.frames_in += 1
            lane.last_frame_s = time.monotonic()
            while lane.policy == "every" and len(lane.waiting) >= lane.capacity:
                if self._closed:
                    break
                self._changed.wait(0.5)
            if self._closed:
                lane.dropped[SHUTDOWN] += 1
                return
            if len(lane.waiting) >= lane.capacity:
                lane.waiting.popleft()
                lane.dropped[REPLACED if lane.policy == "latest" else QUEUE_FULL] += 1
            lane.waiting.append((frame, time.monotonic_ns()))
            self._changed.notify_all()

    def take(self, most: int, *, timeout_s: float) -> list[tuple[Frame, int]]:
        """Return at most one frame of each source, with its time of entry; [] after a time-out."""
        deadline_s = time.monotonic() + timeout_s
        with self._changed:
            while not (taken := self._take_ready(most)):
                left_s = deadline_s - time.monotonic()
                if left_s <= 0 or self._closed or self._woken or self._is_exhausted():
                    break
                self._changed.wait(left_s)
            self._woken = False
            if taken:
                self._changed.notify_all()  # a reader may wait for room
        return taken

    def wake(self) -> None:
        """Wake the thread that waits for frames, so that it can do other work."""
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def _take_ready(self, most: int) -> list[tuple[Frame, int]]:
        taken = []
        count = len(self._lanes)
        # Start after the lane served last: with more sources than batch places, none starves.
        for step in range(count):
            index = (self._next + step) % count
            if self._lanes[index].waiting:
                taken.append(self._lanes[index].waiting.popleft())
                self._lanes[index].under_way += 1
                if len(taken) == most:
                    break
        if taken:
            self._next = (taken[-1][0].source_index + 1) % count
        return taken

    def count_scored(self, source_index: int) -> None:
        """Account for a frame that was taken and scored."""
        with self._changed:
            self._lanes[source_index].scored += 1
            self._lanes[source_index].under_way -= 1

    def count_dropped(self, source_index: int, cause: str) -> None:
        """Account for a frame that was taken and not scored."""
        with self._changed:
            self._lanes[source_index].dropped[cause] += 1
            self._lanes[source_index].under_way -= 1

    def count_unread(self, source_index: int, cause: str) -> None:
        """Account for a frame that never became an image."""
        with self._changed:
            lane = self._lanes[source_index]
            lane.frames_in += 1
            lane.last_frame_s = time.monotonic()
            lane.dropped[cause] += 1

    def finish(self, source_index: int) -> None:
        """Note that no more frames come from this source."""
        with self._changed:
            self._lanes[source_index].finished = True
            self._changed.notify_all()

    def close(self) -> None:
        """Refuse further frames; those that wait or are being scored count as dropped."""
        with self._changed:
            self._closed = True
            for lane in self._lanes:
                lane.dropped[SHUTDOWN] += len(lane.waiting)
                lane.dropped[FAILED] += lane.under_way
                lane.waiting.clear()
                lane.under_way = 0
            self._changed.notify_all()

    def _is_exhausted(self) -> bool:
        return all(lane.finished and not lane.waiting for lane in self._lanes)

    @property
    def exhausted(self) -> bool:
        """Whether every source has ended and no frame waits."""
        with self._changed:
            return self._is_exhausted()

    def counters(self, source_index: int) -> Lane:
        """Copy one lane's counters, all of the same moment, without its frames."""
        with self._changed:
            lane = self._lanes[source_index]
            return Lane(
                policy=lane.policy,
                capacity=lane.capacity,
                frames_in=lane.frames_in,
                under_way=lane.under_way,
                scored=lane.scored,
                dropped=Counter({k: v for k, v in lane.dropped.items() if v}),
                last_frame_s=lane.last_frame_s,
                finished=lane.finished,
            )
