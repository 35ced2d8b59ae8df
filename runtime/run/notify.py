"""Notify systemd that the loop runs, what it does, and when it ends, by sd_notify.

The scoring loop itself sends, once in each tick. A loop that hangs in a model, a driver or a sink
sends no more, and systemd restarts the service. A camera that is off is no reason for that.
"""

import os
import socket
import time
from contextlib import suppress

from edgeseg.runtime.events.records import LoopTick
from edgeseg.runtime.scoring.pipeline import Pipeline
from edgeseg.runtime.scoring.report import status_line

_STATUS_S = 10.0  # between two lines for `systemctl status`


class Notifier:
    """The notifications of one run; without a service manager nothing is sent."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._address = os.environ.get("NOTIFY_SOCKET", "")
        self._ready = False
        self._next_status_s = 0.0

    def __enter__(self) -> "Notifier":
        if self._address:
            self._pipeline.events.subscribe(LoopTick, lambda tick: self.beat(), name="notify")
        return self

    def __exit__(self, *_: object) -> None:
        self._send("STOPPING=1")

    def beat(self) -> None:
        """Send a sign of life, once per tick of the loop."""
        now_s = time.monotonic()
        stuck = [reader for reader in self._pipeline.readers if reader.is_stuck(now_s)]
        lines = []
        if not self._ready:  # the model is loaded and warm, and the sources are being opened
            self._ready = True
            lines.append("READY=1")
        if not stuck:
            lines.append("WATCHDOG=1")
        if now_s >= self._next_status_s:
            self._next_status_s = now_s + _STATUS_S
            held = "".join(f"{reader.spec.name}: its driver hangs  " for reader in stuck)
            lines.append(f"STATUS={held}{status_line(self._pipeline.snapshot())}")
        self._send("\n".join(lines))

    def _send(self, text: str) -> None:
        if not self._address or not text:
            return
        # A name that begins with @ is in Linux' own name space, which begins with a zero.
        address = "\0" + self._address[1:] if self._address[0] == "@" else self._address
        # Never waits and never fails the run: what is lost is sent again in a second.
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.setblocking(False)
            channel.sendto(text.encode(), address)
