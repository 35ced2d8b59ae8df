"""Ask a station that runs in an image, as a PLC, a camera's network and a browser would."""

import http.server
import os
import signal
import socket
import struct
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from inside import Inside

# Bits of the registers 0 (state) and 1 (control), as docs/line.md has them.
READY, ANSWERED, VALID = 0b11, 0b100, 0b1000000
TRIGGER, READ = 0b01, 0b10
LONGEST_S = 900  # of one answer


class NotRun(Exception):
    """A command inside ended badly or not at all, which is a result: the report shows it."""


def ask_station(inside: Inside, model: str) -> dict[str, Any]:
    """Judge a good and a bad picture of the part by Modbus; ask the page and its health."""
    modbus, page = _free_ports(2)
    parts = _a_part_of_each_kind(inside.volume / "pictures")
    with _Camera(parts[0]) as camera:
        words = (
            "stream", "--model", model, "--backend", "cpu", "--threads", "1",
            "--source", camera.address, "--allow-repeats", "--trigger", "modbus",
            "--trigger-timeout", "300", "--modbus", str(modbus), "--serve", str(page),
        )  # fmt: skip
        with _stopped_at_the_end(inside.command(*words)) as alive:
            url = f"http://127.0.0.1:{page}"
            _until(alive, lambda: _listens(modbus) and _http(f"{url}/healthz") == 200)
            plc, answers = Plc(modbus), {}
            for camera.shown in parts:
                answers[camera.shown.stem] = ask_part(plc, lambda holds: _until(alive, holds))
            return {"healthz": _http(f"{url}/healthz"), "page": _http(url), "parts": answers}


def ask_part(plc: "Plc", until: Callable[[Callable[[], bool]], None]) -> dict[str, Any]:
    """Trigger, read the result of that trigger and acknowledge it."""
    until(lambda: plc.read(0, 1)[0] & (READY | ANSWERED) == READY)  # online, ready, no trigger set
    before = plc.read(4, 2)
    plc.write(1, TRIGGER)
    seen: list[tuple[int, ...]] = []

    def answered() -> bool:
        seen.append(plc.read(0, 12))  # of one moment
        return bool(seen[-1][0] & VALID) and seen[-1][4:6] != before

    until(answered)
    registers = seen[-1]
    plc.write(1, READ)
    plc.write(1, 0)
    score, threshold = struct.unpack(">ii", struct.pack(">4H", *registers[8:12]))
    return {
        "of_its_trigger": registers[2:4] == registers[4:6],
        "code": registers[6],
        "score": score / 1000,
        "threshold": threshold / 1000,
    }


def _a_part_of_each_kind(folder: Path) -> list[Path]:
    pictures = sorted(folder.iterdir())
    good = [path for path in pictures if path.name.startswith("good-")]
    bad = [path for path in pictures if path not in good]
    return [good[0], bad[0]]


class _Camera:
    """Gives the picture of the part that is under it, at an address."""

    def __init__(self, shown: Path) -> None:
        camera = self
        self.shown = shown

        class Picture(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.end_headers()
                self.wfile.write(camera.shown.read_bytes())

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Picture)
        self.address = f"http://127.0.0.1:{self._server.server_port}/part{shown.suffix}"

    def __enter__(self) -> "_Camera":
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class Plc:
    """Holding registers over Modbus TCP: function 3 reads, 6 writes."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)

    def read(self, start: int, count: int) -> tuple[int, ...]:
        """Return registers of one moment."""
        answer = self._ask(struct.pack(">BHH", 3, start, count))
        return struct.unpack(f">{count}H", answer[2:])

    def write(self, register: int, value: int) -> None:
        """Write one register."""
        self._ask(struct.pack(">BHH", 6, register, value))

    def _ask(self, request: bytes) -> bytes:
        self._socket.sendall(struct.pack(">HHHB", 1, 0, len(request) + 1, 1) + request)
        header = self._receive(7)
        return self._receive(struct.unpack(">HHHB", header)[2] - 1)

    def _receive(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self._socket.recv(count - len(data))
            if not more:
                raise NotRun("the station closed the line of the PLC")
            data += more
        return data


@contextmanager
def _stopped_at_the_end(command: list[str]) -> Iterator["subprocess.Popen[str]"]:
    """Start the station, and end it as a container service would."""
    running = subprocess.Popen(
        command, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        yield running
        children = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
        os.kill(int(children[0]), signal.SIGTERM)  # unshare itself does not listen
        if running.wait(timeout=300) != 0:
            raise NotRun(f"the station did not end well: {_last_words(running)}")
    finally:
        running.kill()


def _until(running: "subprocess.Popen[str]", holds: Callable[[], bool]) -> None:
    end = time.monotonic() + LONGEST_S
    while not holds():
        if running.poll() is not None or time.monotonic() > end:
            running.kill()
            raise NotRun(f"the station did not answer: {_last_words(running)}")
        time.sleep(0.5)


def _last_words(running: "subprocess.Popen[str]") -> str:
    said = running.communicate()[1].strip().splitlines()
    return said[-1] if said else "-"


def _http(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        return refused.code
    except OSError:
        return 0


def _listens(port: int) -> bool:
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) == 0


def _free_ports(count: int) -> list[int]:
    """Ports that are free together: all are held before one is given back."""
    with ExitStack() as held:
        taken = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in taken:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in taken]
