"""Encode the newest frame in one thread; each viewer takes it when it can."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from edgeseg.runtime.events.records import FrameResult
from edgeseg.runtime.sinks.overlay import annotate_result
from edgeseg.vision.images import encode_jpeg

MAX_SIDE = 960  # pixels: sharp on a desktop page, and a 4K frame does not cost 4K's JPEG
MIN_SIDE = 512  # so that lines drawn on a small frame are thin when the page enlarges it
MAX_FPS = 15.0  # smooth to the eye; scoring needs the processor more than viewers do
QUALITY = 80
_IDLE_S = 0.5


@dataclass
class _Channel:
    """One source: the newest scored frame, the newest JPEG, and the number of viewers."""

    newest: FrameResult | None = None
    encoded: FrameResult | None = None  # which frame the JPEG shows
    jpeg: bytes = b""
    version: int = 0
    viewers: int = 0


class LiveView:
    """Channels by source index; scoring only swaps a reference and sets a flag."""

    def __init__(self, *, on_error: Callable[[str, str], None]) -> None:
        self._on_error = on_error
        self._channels: dict[int, _Channel] = {}
        self._wanted = threading.Event()
        self._published = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="page-encoder", daemon=True)

    def start(self) -> None:
        """Start the thread that encodes while somebody watches."""
        self._thread.start()

    def offer(self, result: FrameResult) -> None:
        """Make a frame the newest one; the one before is forgotten if nobody took it."""
        channel = self._channels.get(result.source_index)
        if channel is None:
            # setdefault: a viewer may have asked for this source a moment ago.
            channel = self._channels.setdefault(result.source_index, _Channel())
        channel.newest = result
        if channel.viewers:
            self._wanted.set()

    def newest(self, source_index: int) -> FrameResult | None:
        """Return the last scored frame of a source."""
        channel = self._channels.get(source_index)
        return channel.newest if channel else None

    @property
    def viewers(self) -> int:
        """The number of open live views."""
        return sum(channel.viewers for channel in list(self._channels.values()))

    @contextmanager
    def watch(self, source_index: int) -> Iterator[Callable[[float], bytes | None]]:
        """Yield a function that waits for the next JPEG; None when none came within its time."""
        channel = self._channels.setdefault(source_index, _Channel())
        seen = 0

        def next_jpeg(timeout_s: float) -> bytes | None:
            nonlocal seen
            with self._published:
                self._published.wait_for(
                    lambda: channel.version > seen or self._closing, timeout=timeout_s
                )
                if self._closing or channel.version <= seen:
                    return None
                seen = channel.version
                return channel.jpeg

        with self._published:
            channel.viewers += 1
            current = channel.version > 0 and channel.encoded is channel.newest
            seen = channel.version - 1 if current else channel.version
        self._wanted.set()  # the newest frame may have been scored before anybody watched
        try:
            yield next_jpeg
        finally:
            with self._published:
                channel.viewers -= 1

    def close(self) -> None:
        """Wake every viewer and stop."""
        with self._published:
            self._closing = True
            self._published.notify_all()
        self._wanted.set()
        self._thread.join(5.0)

    def _run(self) -> None:
        while not self._closing:
            if not self._wanted.wait(_IDLE_S):
                continue
            self._wanted.clear()
            begin_s = time.monotonic()
            self.encode_watched()
            time.sleep(max(0.0, 1.0 / MAX_FPS - (time.monotonic() - begin_s)))

    def encode_watched(self) -> None:
        """Encode the newest frame of every source that has viewers; one round of the thread."""
        for channel in list(self._channels.values()):
            if channel.viewers and channel.newest is not channel.encoded:
                self._encode(channel)

    def _encode(self, channel: _Channel) -> None:
        result = channel.newest
        if result is None:
            return
        try:
            picture = annotate_result(result, min_side=MIN_SIDE, max_side=MAX_SIDE, strip=False)
            jpeg = encode_jpeg(picture, quality=QUALITY)
        except Exception as error:  # one odd frame must not end the view
            self._on_error("page", f"a frame could not be drawn ({type(error).__name__})")
            channel.encoded = result
            return
        with self._published:
            channel.jpeg, channel.encoded = jpeg, result
            channel.version += 1
            self._published.notify_all()
