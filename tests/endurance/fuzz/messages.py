"""Readers of what a network brings: Modbus, HTTP and MQTT."""

import socket
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from tests.endurance.fuzz.seeds import Seed

_MOST_READ = 200_000  # bytes of an answer: a live view has no end
_FAILED: list[str] = []  # what the servers say of themselves since the last look


def note(name: str, text: str) -> None:
    """What a server says of itself."""
    if "does not speak" not in text:  # a refusal
        _FAILED.append(f"{name}: {text}")


def answer_registers(data: bytes, seed: Seed, folder: Path) -> object:
    """A request of Modbus without its header."""
    from edgeseg.runtime.adapters.modbus import answer

    reply = answer(_face(), data[:253] or b"\0")
    if not 1 < len(reply) < 254:
        raise ValueError(f"a reply of {len(reply)} bytes")
    return reply


@cache
def _face() -> Any:
    from edgeseg.runtime.adapters.modbus_face import ModbusFace
    from edgeseg.runtime.station.station import Station

    station = Station()
    station.start()
    return ModbusFace(station, may_trigger=True, capacity=2, on_error=lambda name, text: None)


def answer_frame(data: bytes, seed: Seed, folder: Path) -> object:
    """Frames of Modbus over a real socket."""
    return exchange(_modbus_port(), data)


@cache
def _modbus_port() -> int:
    from edgeseg.runtime.adapters.modbus import ModbusServer

    server = ModbusServer(_face(), host="127.0.0.1", port=0, on_error=note)
    RUNNING.append(server)
    return server.port


def answer_request(data: bytes, seed: Seed, folder: Path) -> object:
    """Whole requests to the page and to the station's service, head and all."""
    answer = exchange(page_port() if seed.name == "page" else http_port(), data[:100_000])
    if answer.startswith(b"HTTP/1.") and _status(answer) == 500:
        raise ValueError(f"{answer[:20]!r}")
    return len(answer)


def _status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def exchange(port: int, data: bytes) -> bytes:
    """Send everything, and hear everything until the other end hangs up."""
    answer = b""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while len(answer) < _MOST_READ and (part := connection.recv(1 << 16)):
                answer += part
        except OSError as error:
            if isinstance(error, TimeoutError):
                raise
            # Whoever hangs up before the end has heard enough: too long a body, another protocol.
    if _FAILED:
        told = "; ".join(_FAILED)
        _FAILED.clear()
        raise ValueError(told)
    return answer


@cache
def http_port() -> int:
    """Of the station's service."""
    from edgeseg.runtime.adapters.http_service import HttpService
    from edgeseg.runtime.station.station import Station

    station = Station()
    station.start()
    service = HttpService(
        station,
        host="127.0.0.1",
        port=0,
        token=None,
        may_trigger=True,
        wait_s=0.0,
        on_error=note,
    )
    RUNNING.append(service)
    return service.port


@cache
def page_port() -> int:
    """Of a page whose stream runs; what its button records has no frames."""
    from urllib.parse import urlsplit

    from edgeseg.runtime.sinks.counters import Counters
    from edgeseg.runtime.sinks.shift_times import ShiftTimes
    from edgeseg.runtime.sinks.video import Recorder
    from edgeseg.runtime.web.page_sink import PageSink
    from tests.doubles.fakes import BrightnessSession
    from tests.doubles.rig import Rig, RigCamera

    recorder = Recorder(
        Path(tempfile.gettempdir()), first=None, fps_of=lambda index: 20.0, live=True, on_error=note
    )
    rig = Rig(BrightnessSession(), {}, camera=RigCamera(fps=20.0)).__enter__()
    page = PageSink(
        metadata=rig.session.metadata,
        view=rig.pipeline,
        counters=Counters(None, times=ShiftTimes(), on_error=note),
        on_error=note,
        host="127.0.0.1",
        port=0,
        stale_after_s=10.0,
        recorder=recorder,
    )
    RUNNING.extend((rig, page))
    return urlsplit(page.url).port or 0


RUNNING: list[Any] = []  # for as long as the process lives


def read_payload(data: bytes, seed: Seed, folder: Path) -> object:
    """A trigger of MQTT."""
    from edgeseg.runtime.adapters.mqtt import read_trigger

    return read_trigger(data)
