"""Somebody at the other end of each adapter, who survives a cut connection.

Each asks again with the same request, which the station takes once; `cut` loses the connection from
another thread.
"""

import asyncio
import contextlib
import http.client
import json
import queue
import socket
import threading
import time
from typing import Any, Protocol

from edgeseg.bench.studies.line.plc import ModbusPlc
from edgeseg.errors import RuntimeFailure

_AGAIN_S = 2.0  # without an answer
_GIVE_UP_S = 60.0


class Client(Protocol):
    """Triggers, and waits for the result."""

    def inspect(self, part_id: str) -> dict[str, Any]:
        """One part: its result, with trigger_id, part_id, code and error_code."""

    def cut(self) -> None:
        """Lose the connection now; from another thread."""

    def close(self) -> None:
        """Say goodbye."""


class ModbusClient:
    """A PLC; a request that got no reply is repeated, and does nothing twice."""

    def __init__(self, port: int) -> None:
        self._plc = ModbusPlc("127.0.0.1", port)
        self._plc.__enter__()

    def inspect(self, part_id: str) -> dict[str, Any]:
        """By the handshake."""
        result = self._plc.result(self._plc.trigger(part_id))
        return {
            "trigger_id": result.trigger_id,
            "part_id": result.part_id,
            "code": result.code,
            "error_code": result.error,
        }

    def cut(self) -> None:
        """The PLC connects again by itself."""
        self._plc.cut()

    def close(self) -> None:
        """Hang up."""
        self._plc.__exit__(None, None, None)


class HttpClient:
    """Keeps its connection, and asks again on a new one."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connection = self._open()

    def _open(self) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=10)
        connection.connect()
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def inspect(self, part_id: str) -> dict[str, Any]:
        """POST and wait."""
        deadline_s = time.monotonic() + _GIVE_UP_S
        body = json.dumps({"part_id": part_id, "request": part_id})
        while time.monotonic() < deadline_s:
            try:
                self._connection.request("POST", "/trigger?wait=1", body, {"X-Edgeseg": "1"})
                response = self._connection.getresponse()
                answer: dict[str, Any] = json.loads(response.read())
                if response.status == 200:
                    return answer
            except (OSError, http.client.HTTPException, ValueError):
                with contextlib.suppress(OSError):
                    self._connection.close()
                    self._connection = self._open()
        raise RuntimeFailure(f"http: no result for {part_id}")

    def cut(self) -> None:
        """Shut the socket under the request."""
        with contextlib.suppress(OSError, AttributeError):
            self._connection.sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Hang up."""
        self._connection.close()


def _send_at_once(client: Any, _: Any, opened: Any) -> None:
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class MqttClient:
    """A peer at the broker."""

    def __init__(self, port: int, prefix: str) -> None:
        from paho.mqtt.client import Client as Paho
        from paho.mqtt.enums import CallbackAPIVersion

        self._prefix = prefix
        self._results: queue.Queue[dict[str, Any]] = queue.Queue()
        self._there = threading.Event()
        self._client = Paho(CallbackAPIVersion.VERSION2)
        self._client.reconnect_delay_set(min_delay=1, max_delay=1)
        self._client.on_socket_open = _send_at_once
        self._client.on_connect = lambda client, *_: client.subscribe(f"{prefix}/result", 1)
        self._client.on_subscribe = lambda *_: self._there.set()
        self._client.on_message = lambda client, _, message: self._results.put(
            json.loads(message.payload)
        )
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        self._there.wait(_GIVE_UP_S)

    def inspect(self, part_id: str) -> dict[str, Any]:
        """Publish, and wait for the message that names the request."""
        deadline_s = time.monotonic() + _GIVE_UP_S
        message = json.dumps({"part_id": part_id, "request": part_id})
        while time.monotonic() < deadline_s:
            self._client.publish(f"{self._prefix}/trigger", message, qos=1)
            again_s = time.monotonic() + _AGAIN_S
            while (left_s := again_s - time.monotonic()) > 0:
                try:
                    result = self._results.get(timeout=left_s)
                except queue.Empty:
                    break
                if result["request"] == part_id:
                    return result
        raise RuntimeFailure(f"mqtt: no result for {part_id}")

    def cut(self) -> None:
        """Shut the socket; paho connects again."""
        sock: Any = self._client.socket()
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Say goodbye."""
        self._client.disconnect()
        self._client.loop_stop()


class OpcUaClient:
    """A loop in a thread of its own, asked from this one."""

    def __init__(self, url: str, namespace: str) -> None:
        self._url, self._namespace = url, namespace
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="opcua-client", daemon=True).start()
        self._run(self._connect())

    def _run(self, story: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(story, self._loop).result(_GIVE_UP_S)

    async def _connect(self) -> None:
        from asyncua.client.client import Client as Asyncua

        self._client: Any = Asyncua(self._url)
        await self._client.connect()
        space = await self._client.get_namespace_index(self._namespace)
        system = f"{space}:VisionSystem"
        find: Any = self._client.nodes.objects.get_child
        self._system: Any = await find([system])
        self._start: Any = await find([system, f"{space}:StartSingleJob"])
        self._results = await find([system, f"{space}:ResultManagement"])
        self._by_id = await find([system, f"{space}:ResultManagement", f"{space}:GetResultById"])

    async def _inspect(self, part_id: str) -> dict[str, Any]:
        from asyncua import ua

        job, error = await self._system.call_method(self._start, part_id, part_id)
        if error:
            raise RuntimeFailure("opcua: the job is refused")
        while True:
            number = ua.Variant(job, ua.VariantType.UInt32)
            content = await self._results.call_method(self._by_id, number)
            if content:
                answer: dict[str, Any] = json.loads(content)
                return answer

    def inspect(self, part_id: str) -> dict[str, Any]:
        """Call, and ask until the result is there."""
        deadline_s = time.monotonic() + _GIVE_UP_S
        while time.monotonic() < deadline_s:
            try:
                answer: dict[str, Any] = self._run(self._inspect(part_id))
                return answer
            except RuntimeFailure:
                raise
            except Exception:  # whatever the library says of a lost connection
                with contextlib.suppress(Exception):
                    self._run(self._connect())
        raise RuntimeFailure(f"opcua: no result for {part_id}")

    def cut(self) -> None:
        """Abort the transport."""
        with contextlib.suppress(Exception):
            transport = self._client.uaclient.protocol.transport
            self._loop.call_soon_threadsafe(transport.abort)

    def close(self) -> None:
        """Say goodbye."""
        with contextlib.suppress(Exception):
            self._run(self._client.disconnect())
        self._loop.call_soon_threadsafe(self._loop.stop)
