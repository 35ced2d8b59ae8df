"""Triggers and results over an MQTT broker.

    PREFIX/trigger, job, part, check in     PREFIX/result out, QoS 1, not retained
    PREFIX/state out, retained; the broker itself sets it to offline when the station is gone

A result is not retained: after a restart nobody may take an old one for new. The session is clean,
so that a broker keeps no trigger for a station that was away.
"""

import json
import socket
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgeseg.base.errors import RuntimeFailure, UsageError
from edgeseg.base.extras import install_command
from edgeseg.base.messages import Sentence, Setting
from edgeseg.base.plain import parse_json
from edgeseg.runtime.adapters.inbox import Inbox
from edgeseg.runtime.adapters.outbox import Outbox
from edgeseg.runtime.adapters.seen_requests import MAX_REQUEST, RequestReused, SeenRequests
from edgeseg.runtime.events.codes import ErrorCode, Refusal
from edgeseg.runtime.station.age import moment_ns, read_sent
from edgeseg.runtime.station.records import StationResult, job_key
from edgeseg.runtime.station.station import Station

if TYPE_CHECKING:
    from paho.mqtt.client import Client, MQTTMessage

QUEUED = 1000  # results that wait for a broker
WAITING = 64  # messages that wait for the station
_MAX_PAYLOAD = 4096
_KEEPALIVE_S = 10  # a cable that is cut is noticed, and the last will sent, within 1.5 times this
_STATE_S = 0.2  # how soon a change of state is told
_LISTENS = ("trigger", "job", "part", "check")
_OFFLINE = {"online": False, "state": "offline", "trigger_ready": False}


@dataclass(frozen=True, kw_only=True)
class BrokerAccess:
    """The address of the broker, and the credentials for it."""

    host: str
    port: int
    prefix: str
    tls: bool = False
    ca: Path | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)


def read_trigger(payload: bytes) -> tuple[str, str, float | None]:
    """Read part id, request and time of sending from an empty message, a part id, or JSON."""
    text = payload.decode("utf-8", "strict").strip()
    if not text.startswith("{"):
        return text, "", None
    values = parse_json(text)
    part_id, request = values.get("part_id", ""), values.get("request", "")
    if not isinstance(part_id, str) or not isinstance(request, str) or len(request) > MAX_REQUEST:
        raise ValueError("part_id and request")
    return part_id, request, read_sent(values.get("sent"))


def _send_at_once(client: "Client", _: Any, opened: Any) -> None:
    # Small messages would wait for each other's acknowledgement, 40 ms at a time.
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class MqttAdapter:
    """A connection to the broker from construction until close, renewed whenever it is lost."""

    name = "mqtt"

    def __init__(
        self,
        station: Station,
        broker: BrokerAccess,
        *,
        may_trigger: bool,
        on_error: Callable[[str, str], None],
    ) -> None:
        self._station, self._broker, self._on_error = station, broker, on_error
        self._may_trigger = may_trigger
        self._requests = SeenRequests()
        self._sent: OrderedDict[int, StationResult] = OrderedDict()
        self._client = self._make_client()
        self._outbox = Outbox(self.name, self._send, size=QUEUED, on_error=on_error)
        self._inbox: Inbox[tuple[str, bytes]] = Inbox(
            self.name, self._take, size=WAITING, on_error=on_error
        )
        station.events.subscribe(StationResult, self._outbox.put, name=self.name)
        try:
            self._client.connect_async(broker.host, broker.port, keepalive=_KEEPALIVE_S)
        except ValueError as error:
            raise UsageError(f"mqtt: {error}; expected mqtt://HOST/PREFIX") from None
        self._client.loop_start()
        self._over = threading.Event()
        threading.Thread(target=self._watch, name="mqtt-state", daemon=True).start()

    def _make_client(self) -> "Client":
        try:
            from paho.mqtt.client import Client
            from paho.mqtt.enums import CallbackAPIVersion
        except ImportError:
            command = install_command("paho")
            raise RuntimeFailure(f"mqtt: needs paho-mqtt; try: {command}") from None
        broker = self._broker
        client = Client(
            CallbackAPIVersion.VERSION2,
            client_id=f"edgeseg-{self._station.run_id}",  # two stations must not evict each other
            clean_session=True,
        )
        client.max_queued_messages_set(QUEUED)
        client.reconnect_delay_set(min_delay=1, max_delay=10)
        client.will_set(self._topic("state"), json.dumps(self._offline()), qos=1, retain=True)
        if broker.user is not None:
            client.username_pw_set(broker.user, broker.password)
        if broker.tls:
            client.tls_set(ca_certs=None if broker.ca is None else str(broker.ca))
            client.tls_insecure_set(False)
        client.on_socket_open = _send_at_once
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_message = self._on_message
        return client

    def _topic(self, name: str) -> str:
        return f"{self._broker.prefix}/{name}"

    def _offline(self) -> dict[str, object]:
        return {"run_id": self._station.run_id, **_OFFLINE}

    # In paho's thread.

    def _on_connect(
        self, client: "Client", _: Any, flags: Any, reason: Any, properties: Any
    ) -> None:
        if reason.is_failure:
            self._on_error(self.name, f"the broker refuses the connection ({reason})")
            return
        client.subscribe([(self._topic(name), 1) for name in _LISTENS])
        self.publish_state()

    def _on_disconnect(
        self, client: "Client", _: Any, flags: Any, reason: Any, properties: Any
    ) -> None:
        if reason.is_failure:
            self._on_error(self.name, f"the broker is lost ({reason})")

    def _on_message(self, client: "Client", _: Any, message: "MQTTMessage") -> None:
        if message.retain:  # from before: the part is long gone
            self._on_error(self.name, "a retained message is no trigger; clear it on the broker")
            return
        if len(message.payload) > _MAX_PAYLOAD:
            self._on_error(self.name, f"a message to {message.topic} is not understood")
        elif not self._inbox.put((message.topic, bytes(message.payload))):
            self._refuse(message.topic, bytes(message.payload))

    def _refuse(self, topic: str, payload: bytes) -> None:
        """Refuse a message, since too many wait; answer a trigger at once, as its part goes by."""
        self._on_error(self.name, f"a message to {topic} is refused: {WAITING} wait before it")
        if topic != self._topic("trigger") or not self._may_trigger:
            return
        with suppress(ValueError, AttributeError):
            part_id, request, _ = read_trigger(payload)
            refusal = (ErrorCode.MISSED, f"{WAITING} messages wait before it")
            self._answer(part_id, request, refusal)

    # In the inbox's thread.

    def _take(self, message: tuple[str, bytes], came_ns: int) -> None:
        topic, payload = message
        try:
            self._obey(topic, payload, came_ns)
        except (ValueError, AttributeError):  # a topic that anybody may write to
            self._on_error(self.name, f"a message to {topic} is not understood")

    def _obey(self, topic: str, payload: bytes, came_ns: int) -> None:
        if topic == self._topic("trigger"):
            part_id, request, sent_s = read_trigger(payload)
            return self._trigger(part_id, request, moment_ns(came_ns, sent_s))
        text = payload.decode("utf-8").strip()
        if topic == self._topic("part"):
            if not self._station.announce(text):
                self._on_error(self.name, "a part id is refused: triggers carry their own here")
            return None
        if topic == self._topic("check"):
            if not self._station.check_now():
                self._on_error(self.name, "a check is refused: nothing can be checked now")
        else:
            self._station.load_job(job_key(text))
        return self.publish_state()

    def _trigger(self, part_id: str, request: str, at_ns: int) -> None:
        if not self._may_trigger:
            self._on_error(
                self.name,
                Sentence("a trigger over MQTT is refused; start with ", Setting("trigger", "mqtt")),
            )
            return
        try:
            trigger_id, new = self._requests.trigger(
                self._station, origin=self.name, part_id=part_id, request=request, at_ns=at_ns
            )
        except RequestReused as reused:
            self._on_error(self.name, str(reused))
            self._answer(part_id, request, (ErrorCode.REQUEST_REUSED, str(reused)))
            return
        sent = None if new else self._sent.get(trigger_id)
        if sent is not None:  # whoever asks again has not got it
            self._outbox.put(sent)

    def _answer(self, part_id: str, request: str, refusal: Refusal) -> None:
        """Publish a result without an inspection: there is no other way to answer the sender."""
        self._station.trigger(origin=self.name, part_id=part_id, request=request, refusal=refusal)

    # In the outbox's thread.

    def _send(self, result: StationResult) -> None:
        self._sent[result.trigger.trigger_id] = result
        while len(self._sent) > QUEUED:
            self._sent.popitem(last=False)
        sent = self._client.publish(self._topic("result"), json.dumps(result.facts()), qos=1)
        if sent.rc not in (0, 4):  # 4: not connected, and queued until it is
            raise RuntimeFailure(f"a result is lost: {QUEUED} wait for the broker")

    # In a thread of its own.

    def _watch(self) -> None:
        last: dict[str, object] = {}
        while not self._over.wait(_STATE_S):
            state = self._station.status().facts()
            if state != last and self._client.is_connected():
                self.publish_state()
                last = state

    def publish_state(self) -> None:
        """Publish the station's status, retained for later subscribers."""
        state = json.dumps(self._station.status().facts())
        if self._client.is_connected():
            self._client.publish(self._topic("state"), state, qos=1, retain=True)

    def close(self) -> None:
        """Send the queued results, publish that the station is offline, and disconnect."""
        self._over.set()
        self._inbox.close()
        self._outbox.close()
        if self._client.is_connected():
            goodbye = self._client.publish(
                self._topic("state"), json.dumps(self._offline()), qos=1, retain=True
            )
            with suppress(RuntimeError, ValueError):  # the broker was lost meanwhile
                goodbye.wait_for_publish(1.0)
        self._client.disconnect()
        self._client.loop_stop()
