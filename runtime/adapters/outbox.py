"""Queue outgoing results for a thread, so that nobody waits for a network."""

import queue
import threading
from collections.abc import Callable

from edgeseg.runtime.capture.redact import redact
from edgeseg.runtime.station.records import StationResult

FLUSH_S = 3.0  # for what waits at the end


class Outbox:
    """A bounded queue that sends results in order; lost and failed ones are counted."""

    def __init__(
        self,
        name: str,
        send: Callable[[StationResult], None],
        *,
        size: int,
        on_error: Callable[[str, str], None],
    ) -> None:
        self._name, self._send, self._on_error = name, send, on_error
        self._waiting: queue.Queue[StationResult | None] = queue.Queue(size)
        self.closing = threading.Event()  # a sender that retries stops when it is set
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, result: StationResult) -> None:
        """Queue a result and return at once."""
        try:
            self._waiting.put_nowait(result)
        except queue.Full:
            self._on_error(self._name, "results are lost: more come than can be sent")

    def _run(self) -> None:
        while (result := self._waiting.get()) is not None:
            try:
                self._send(result)
            except Exception as error:  # a foreign message may hold anything, a URL too
                self._on_error(self._name, redact(f"{type(error).__name__}: {error}"))

    def close(self) -> None:
        """Send the queued results, within a few seconds."""
        timer = threading.Timer(FLUSH_S, self.closing.set)
        timer.daemon = True
        timer.start()
        try:
            self._waiting.put(None, timeout=FLUSH_S)
        except queue.Full:
            self.closing.set()
        self._thread.join(2 * FLUSH_S)
        timer.cancel()
        lost = self._waiting.qsize()
        if lost:
            self._on_error(self._name, f"{lost} results were not sent before the end")
