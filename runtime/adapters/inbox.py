"""Queue incoming messages: stamp each on arrival, and handle it in a thread that may be slow.

The thread that reads the network must not wait for a camera or for a recipe that is being loaded:
messages that arrive meanwhile would wait in a buffer, and nobody could tell how old they are.
"""

import queue
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

Message = TypeVar("Message")


class Inbox(Generic[Message]):
    """A bounded queue that hands on messages in order, each with its time of arrival."""

    def __init__(
        self,
        name: str,
        take: Callable[[Message, int], None],
        *,
        size: int,
        on_error: Callable[[str, str], None],
    ) -> None:
        self._name, self._take, self._on_error = name, take, on_error
        self._waiting: queue.Queue[tuple[Message, int] | None] = queue.Queue(size)
        self._thread = threading.Thread(target=self._run, name=f"{name}-in", daemon=True)
        self._thread.start()

    def put(self, message: Message) -> bool:
        """Queue a message that has just arrived; return False if the queue is full."""
        try:
            self._waiting.put_nowait((message, time.monotonic_ns()))
        except queue.Full:
            return False
        return True

    def _run(self) -> None:
        while (item := self._waiting.get()) is not None:
            try:
                self._take(*item)
            except Exception as error:  # whatever a message holds, the next ones are taken
                self._on_error(self._name, f"a message failed ({type(error).__name__})")

    def close(self) -> None:
        """Handle the queued messages, within a second or two."""
        try:
            self._waiting.put(None, timeout=1.0)
        except queue.Full:
            return
        self._thread.join(1.0)
