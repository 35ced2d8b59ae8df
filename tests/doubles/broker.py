"""A real mosquitto on a free port of this computer, that can be killed and started again."""

import os
import shutil
from pathlib import Path

from edgeseg.base.errors import RuntimeFailure
from tests.doubles.server_process import ServerProcess


def mosquitto() -> str | None:
    """Return the broker's program, if it is installed."""
    return shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")


class Broker(ServerProcess):
    """Runs while it is entered; `lines` are added to its configuration."""

    def __init__(self, folder: Path, *, lines: tuple[str, ...] = ("allow_anonymous true",)) -> None:
        super().__init__()
        self._settings = folder.resolve() / "mosquitto.conf"
        text = [
            f"listener {self.port} 127.0.0.1",
            "persistence false",
            "set_tcp_nodelay true",
            *lines,
        ]
        if os.getuid() == 0:
            text.append("user root")  # otherwise it becomes somebody who cannot read its files
        self._settings.write_text("\n".join(text) + "\n", encoding="utf-8")

    def start(self) -> None:
        """Start it; return when it listens."""
        program = mosquitto()
        if program is None:
            raise RuntimeFailure("mosquitto is not installed; try: apt install mosquitto")
        self._listen([program, "-c", str(self._settings)])

    def __enter__(self) -> "Broker":
        self.start()
        return self
