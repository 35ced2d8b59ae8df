"""A PLC's side of Modbus TCP: the handshake of docs/line.md over a plain socket."""

import socket
import struct
import time
from dataclasses import dataclass

from edgeseg.base.errors import RuntimeFailure
from edgeseg.runtime.adapters.modbus_map import (
    CONTROL,
    ERROR,
    NEXT_PART_ID,
    PART_ID,
    RESULT_ID,
    STATUS,
    TRIGGER_ID,
    VERDICT,
    Control,
    Status,
    text_of,
    text_registers,
)

_REPLY = struct.Struct(">HHHBB")


@dataclass(frozen=True, kw_only=True)
class PlcResult:
    """What the registers said."""

    trigger_id: int
    code: int
    error: int
    part_id: str


class ModbusPlc:
    """One connection, in buffered mode: every result waits until it has been read."""

    def __init__(self, host: str, port: int, *, timeout_s: float = 10.0) -> None:
        self._address, self._timeout_s = (host, port), timeout_s
        self._transaction = 0
        self._connect()

    def _connect(self) -> None:
        self._socket = socket.create_connection(self._address, timeout=self._timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> "ModbusPlc":
        self.write(CONTROL, [int(Control.BUFFER_RESULTS)])
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def _ask(self, request: bytes) -> bytes:
        """Ask until there is a reply: what was asked twice is done once."""
        deadline_s = time.monotonic() + self._timeout_s
        while True:
            try:
                return self._ask_once(request)
            except OSError:
                if time.monotonic() > deadline_s:
                    raise
                self._socket.close()
                self._connect()

    def _ask_once(self, request: bytes) -> bytes:
        self._transaction = (self._transaction + 1) % 65536
        self._socket.sendall(struct.pack(">HHHB", self._transaction, 0, 1 + len(request), 1))
        self._socket.sendall(request)
        head = self._receive(_REPLY.size)
        transaction, _, length, _, function = _REPLY.unpack(head)
        body = self._receive(length - 2)
        if transaction != self._transaction or function != request[0]:
            raise RuntimeFailure(f"modbus: reply {transaction}/{function} to {self._transaction}")
        return body

    def _receive(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self._socket.recv(count - len(data))
            if not more:
                raise ConnectionResetError("hung up")
            data += more
        return data

    def read(self, at: int, count: int) -> list[int]:
        """Holding registers."""
        body = self._ask(struct.pack(">BHH", 3, at, count))
        return list(struct.unpack(f">{count}H", body[1:]))

    def write(self, at: int, values: list[int]) -> None:
        """Write registers in one request."""
        count = len(values)
        self._ask(struct.pack(f">BHHB{count}H", 16, at, count, 2 * count, *values))

    def trigger(self, part_id: str) -> int:
        """Wait for trigger ready, trigger, wait for the acknowledgement; returns the id."""
        self.until(Status.TRIGGER_READY)
        self.write(NEXT_PART_ID, text_registers(part_id))
        self.write(CONTROL, [int(Control.BUFFER_RESULTS | Control.TRIGGER)])
        registers = self.until(Status.TRIGGER_ACK)
        self.write(CONTROL, [int(Control.BUFFER_RESULTS)])
        return registers[TRIGGER_ID] << 16 | registers[TRIGGER_ID + 1]

    def until(self, bit: Status) -> list[int]:
        """Poll until a bit of the status is there."""
        deadline_s = time.monotonic() + self._timeout_s
        while True:
            registers = self.read(0, 36)
            if bit in Status(registers[STATUS]):
                return registers
            if time.monotonic() > deadline_s:
                raise RuntimeFailure(f"modbus: {bit.name} did not come in {self._timeout_s:g} s")

    def result(self, trigger_id: int) -> PlcResult:
        """Read the results in order, acknowledging each, up to that of a trigger."""
        while True:
            registers = self.until(Status.RESULTS_VALID)
            found = PlcResult(
                trigger_id=registers[RESULT_ID] << 16 | registers[RESULT_ID + 1],
                code=registers[VERDICT],
                error=registers[ERROR],
                part_id=text_of(registers[PART_ID : PART_ID + 16]),
            )
            level = Control.BUFFER_RESULTS
            self.write(CONTROL, [int(level | Control.RESULTS_ACK)])
            self.write(CONTROL, [int(level)])
            if found.trigger_id == trigger_id:
                return found
