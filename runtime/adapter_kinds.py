"""Every kind of adapter: what it is told, how that is typed, and how it is made for a station.

    options typed -> its own checked record -> make(line, record) -> an adapter, or None

A new adapter is its module and an entry in ADAPTERS; `edgeseg stream` then has its options.
Light on purpose: the help reads this, so an adapter is imported when it is made.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import click

from edgeseg.errors import UsageError
from edgeseg.progress import Note
from edgeseg.runtime.trigger_kinds import add_software_trigger

if TYPE_CHECKING:
    from edgeseg.runtime.station.station import Station

Record = TypeVar("Record")


class Adapter(Protocol):
    """Something that triggers the station or passes its results on, in threads of its own."""

    name: str  # short and fixed, e.g. "modbus": the key of its error counter

    def close(self) -> None:
        """Send what waits, and release."""


@dataclass(frozen=True, kw_only=True)
class LineRun:
    """The station that adapters are made for."""

    station: "Station"
    trigger: str  # a key of TRIGGERS
    on_error: Callable[[str, str], None]
    note: Note


@dataclass(frozen=True, kw_only=True)
class AdapterKind(Generic[Record]):
    """An entry of ADAPTERS."""

    record: type[Record]  # a frozen dataclass with defaults, which checks itself
    options: tuple[click.Option, ...]  # one for each field, by the same name
    make: "Callable[[LineRun, Record], Adapter | None]"
    setting: str  # that asks for it, with its value: "modbus=PORT"


ADAPTERS: dict[str, AdapterKind[Any]] = {}


def address(name: str, text: str) -> tuple[str, int]:
    """`PORT` on this computer, or `HOST:PORT`."""
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise UsageError(
            f"{name}={text!r}: expected PORT or HOST:PORT, such as 1502 or 0.0.0.0:1502"
        )
    return host.strip("[]") or "127.0.0.1", int(port)


@dataclass(frozen=True, kw_only=True)
class ModbusOptions:
    """What `modbus` is told."""

    modbus: str | None = None
    result_buffer: int = 16

    def __post_init__(self) -> None:
        if self.modbus is not None:
            address("modbus", self.modbus)
        if not 1 <= self.result_buffer <= 4096:
            raise UsageError(f"result_buffer={self.result_buffer}: expected 1 to 4096")


def _modbus(line: LineRun, options: ModbusOptions) -> "Adapter | None":
    if options.modbus is None:
        return None
    from edgeseg.runtime.adapters.modbus import ModbusServer
    from edgeseg.runtime.adapters.modbus_face import ModbusFace

    face = ModbusFace(
        line.station,
        may_trigger=line.trigger == "modbus",
        capacity=options.result_buffer,
        on_error=line.on_error,
    )
    host, port = address("modbus", options.modbus)
    server = ModbusServer(face, host=host, port=port, on_error=line.on_error)
    line.note(f"modbus: {host}:{server.port}")
    return server


ADAPTERS["modbus"] = AdapterKind(
    record=ModbusOptions,
    options=(
        click.Option(
            ["--modbus"],
            metavar="[HOST:]PORT",
            help="Modbus TCP server for a PLC, on this computer unless a host is given.",
        ),
        click.Option(
            ["--result-buffer"],
            type=int,
            default=ModbusOptions.result_buffer,
            help="Results that wait for a PLC's acknowledgement.",
        ),
    ),
    make=_modbus,
    setting="modbus=PORT",
)
add_software_trigger("modbus")
