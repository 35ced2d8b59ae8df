"""A server in a process of its own, that can be killed and started again.

Only the standard library: the system's Python runs one of the servers.
"""

import os
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from tests.support import HANGS_S

_START_S = HANGS_S  # guards against a server that never listens
_REPO = Path(__file__).resolve().parents[2]


def free_port() -> int:
    """Return a port that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


class ServerProcess:
    """Listens on a port of its own between `start` and `kill`."""

    def __init__(self) -> None:
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def _listen(self, command: Sequence[str]) -> None:
        """Start the process; return when it listens."""
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=_REPO
        )
        deadline_s = time.monotonic() + _START_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                assert self._process.poll() is None, f"{command[0]} ended at once"
                assert time.monotonic() < deadline_s, f"{command[0]} does not listen"
                time.sleep(0.02)

    def send(self, number: int) -> None:
        """Send a signal to the process."""
        assert self._process is not None, "the server does not run"
        os.kill(self._process.pid, number)

    def kill(self) -> None:
        """End it without a farewell, as a power cut does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(HANGS_S)
            self._process = None

    def __exit__(self, *_: object) -> None:
        self.kill()
