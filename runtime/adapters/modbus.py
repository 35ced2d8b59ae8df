"""Serve Modbus TCP with the standard library: one thread, few connections, every frame checked."""

import os
import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from edgeseg.base.errors import RuntimeFailure
from edgeseg.base.messages import Setting
from edgeseg.runtime.adapters.modbus_face import ModbusFace

MAX_CONNECTIONS = 8
READ_HOLDING, READ_INPUT, WRITE_ONE, WRITE_MANY = 3, 4, 6, 16
BAD_FUNCTION, BAD_ADDRESS, BAD_VALUE = 1, 2, 3
_HEADER = struct.Struct(">HHHB")  # transaction, protocol, length, unit
_MAX_LENGTH = 254  # unit and a request of at most 253 bytes
_MAX_UNSENT = 65536  # a client that asks and does not read
_RECEIVED = 4096  # bytes at once
_IDLE_S = 60.0


@dataclass
class _Client:
    connection: socket.socket
    received: bytearray = field(default_factory=bytearray)
    unsent: bytearray = field(default_factory=bytearray)
    heard_s: float = field(default_factory=time.monotonic)
    came_ns: int = 0  # when what was read last came at the latest
    more: bool = False  # as much was read as fits: what follows may have come with it


def answer(face: ModbusFace, request: bytes, *, came_ns: int | None = None) -> bytes:
    """Return the reply to one request, without its header; a bad request gets an exception code."""
    function = request[0]
    if function in (READ_HOLDING, READ_INPUT):
        return _read(face, function, request)
    if function == WRITE_ONE:
        if len(request) != 5:
            return _refuse(function, BAD_VALUE)
        address, value = struct.unpack_from(">HH", request, 1)
        written = face.write(address, [value], came_ns=came_ns)
        return request if written else _refuse(function, BAD_ADDRESS)
    if function == WRITE_MANY:
        return _write_many(face, request, came_ns)
    return _refuse(function, BAD_FUNCTION)


def _read(face: ModbusFace, function: int, request: bytes) -> bytes:
    if len(request) != 5:
        return _refuse(function, BAD_VALUE)
    address, count = struct.unpack_from(">HH", request, 1)
    if not 1 <= count <= 125:
        return _refuse(function, BAD_VALUE)
    registers = face.read(address, count)
    if registers is None:
        return _refuse(function, BAD_ADDRESS)
    return struct.pack(f">BB{count}H", function, 2 * count, *registers)


def _write_many(face: ModbusFace, request: bytes, came_ns: int | None) -> bytes:
    if len(request) < 6:
        return _refuse(WRITE_MANY, BAD_VALUE)
    address, count, size = struct.unpack_from(">HHB", request, 1)
    if not 1 <= count <= 123 or size != 2 * count or len(request) != 6 + size:
        return _refuse(WRITE_MANY, BAD_VALUE)
    values = list(struct.unpack_from(f">{count}H", request, 6))
    if not face.write(address, values, came_ns=came_ns):
        return _refuse(WRITE_MANY, BAD_ADDRESS)
    return request[:5]


def _refuse(function: int, code: int) -> bytes:
    return bytes([function & 0x7F | 0x80, code])


class ModbusServer:
    """A server of the registers, from construction until close."""

    name = "modbus"

    def __init__(
        self, face: ModbusFace, *, host: str, port: int, on_error: Callable[[str, str], None]
    ) -> None:
        self._face, self._on_error = face, on_error
        self._selector = selectors.DefaultSelector()
        self._clients: dict[socket.socket, _Client] = {}
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._listener = socket.create_server((host, port), family=family, backlog=8)
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else error
            raise RuntimeFailure(
                Setting("modbus", f"{host}:{port}"),
                f": cannot listen ({reason}); try another port, such as 1502",
            ) from None
        self.port: int = self._listener.getsockname()[1]
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._came_ns = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="modbus", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop accepting connections, and close the open ones."""
        self._over.set()
        self._thread.join(2.0)

    def _run(self) -> None:
        looked_ns = time.monotonic_ns()
        while not self._over.is_set():
            ready = self._selector.select(0)
            # What is there at once came after the last look; while one was served, another waited.
            self._came_ns = looked_ns
            if not ready:
                ready = self._selector.select(0.1)
                self._came_ns = time.monotonic_ns()
            looked_ns = time.monotonic_ns()
            for key, events in ready:
                try:
                    self._serve(key, events)
                except Exception as error:  # whatever a frame holds, the others are served on
                    self._on_error(self.name, f"a connection failed ({type(error).__name__})")
                    if key.data is not None:
                        self._hang_up(key.data)
            self._drop_idle()
        for client in list(self._clients.values()):
            self._hang_up(client)
        self._listener.close()
        self._selector.close()

    def _serve(self, key: selectors.SelectorKey, events: int) -> None:
        client: _Client | None = key.data
        if client is None:
            self._accept()
            return
        if client.connection not in self._clients:
            return  # given up for a newer one meanwhile
        try:
            if events & selectors.EVENT_READ and not self._receive(client):
                self._hang_up(client)
                return
            self._send(client)
        except OSError:
            self._hang_up(client)

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        if len(self._clients) >= MAX_CONNECTIONS:
            # A PLC whose cable was cut comes back while its old connections still look alive.
            self._hang_up(min(self._clients.values(), key=lambda client: client.heard_s))
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client = self._clients[connection] = _Client(connection)
        self._selector.register(connection, selectors.EVENT_READ, client)

    def _receive(self, client: _Client) -> bool:
        """Answer the requests that have arrived; return False if the connection must be closed."""
        data = client.connection.recv(_RECEIVED)
        if not data:
            return False
        client.received += data
        client.came_ns = client.came_ns if client.more else self._came_ns
        client.more = len(data) == _RECEIVED
        client.heard_s = time.monotonic()
        while len(client.received) >= _HEADER.size:
            transaction, protocol, length, unit = _HEADER.unpack_from(client.received)
            if protocol != 0 or not 2 <= length <= _MAX_LENGTH:
                self._on_error(self.name, "a connection that does not speak Modbus was closed")
                return False
            whole = _HEADER.size - 1 + length
            if len(client.received) < whole:
                break
            request = bytes(client.received[_HEADER.size : whole])
            del client.received[:whole]
            reply = answer(self._face, request, came_ns=client.came_ns)
            client.unsent += _HEADER.pack(transaction, 0, 1 + len(reply), unit) + reply
        return len(client.unsent) <= _MAX_UNSENT

    def _send(self, client: _Client) -> None:
        if client.unsent:
            try:
                sent = client.connection.send(client.unsent)
            except BlockingIOError:
                sent = 0
            del client.unsent[:sent]
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if client.unsent else 0)
        self._selector.modify(client.connection, events, client)

    def _drop_idle(self) -> None:
        before_s = time.monotonic() - _IDLE_S
        for client in [client for client in self._clients.values() if client.heard_s < before_s]:
            self._hang_up(client)

    def _hang_up(self, client: _Client) -> None:
        if self._clients.pop(client.connection, None) is not None:
            self._selector.unregister(client.connection)
            client.connection.close()
