"""Peers that trigger the station over Modbus and over MQTT, and wait for each result.

Each asks again with the same request, which the station takes once.
"""

import json
import queue
import socket
import threading
import time
from typing import Any, Protocol

from edgeseg.base.errors import RuntimeFailure
from tests.doubles.plc import ModbusPlc
from tests.support import HANGS_S

_AGAIN_S = 2.0  # without an answer
_GIVE_UP_S = HANGS_S


class Client(Protocol):
    """Triggers, and waits for the result."""

    def inspect(self, part_id: str) -> dict[str, Any]:
        """One part: its result, with trigger_id, part_id, code and error_code."""

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

    def close(self) -> None:
        """Hang up."""
        self._plc.__exit__(None, None, None)


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

    def close(self) -> None:
        """Say goodbye."""
        self._client.disconnect()
        self._client.loop_stop()
