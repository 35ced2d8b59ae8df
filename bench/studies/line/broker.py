"""A real mosquitto on a free port of this computer, that can be killed and started again."""

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType

from edgeseg.errors import RuntimeFailure

_START_S = 15.0


def mosquitto() -> str | None:
    """The broker's program, if it is installed."""
    return shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


class Broker:
    """Runs while it is entered; `lines` are added to its configuration."""

    def __init__(self, folder: Path, *, lines: tuple[str, ...] = ("allow_anonymous true",)) -> None:
        self.port = free_port()
        self._settings = folder / "mosquitto.conf"
        text = [
            f"listener {self.port} 127.0.0.1",
            "persistence false",
            "set_tcp_nodelay true",
            *lines,
        ]
        if os.getuid() == 0:
            text.append("user root")  # otherwise it becomes somebody who cannot read its files
        self._settings.write_text("\n".join(text) + "\n", encoding="utf-8")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns when it listens."""
        program = mosquitto()
        if program is None:
            raise RuntimeFailure("mosquitto is not installed; try: apt install mosquitto")
        self._process = subprocess.Popen(
            [program, "-c", str(self._settings)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline_s = time.monotonic() + _START_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                if time.monotonic() > deadline_s:
                    raise RuntimeFailure(f"mosquitto does not listen on {self.port}") from None
                time.sleep(0.02)

    def kill(self) -> None:
        """Without a farewell, as a power cut does it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            self._process = None

    def __enter__(self) -> "Broker":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
