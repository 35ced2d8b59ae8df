"""MQTT against a real mosquitto on loopback: triggers, results, last will, loss and return."""

import json
import queue
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgeseg.base.errors import EdgesegError
from edgeseg.runtime.adapters import mqtt as adapter
from edgeseg.runtime.settings.adapter_kinds import MqttOptions
from edgeseg.runtime.station.records import TriggerEvent
from tests.doubles.broker import Broker, mosquitto
from tests.doubles.fakes import BrightnessSession, wait
from tests.doubles.rig import Rig
from tests.support import HANGS_S

pytest.importorskip("paho.mqtt.client", reason="needs paho-mqtt: pip install edgeseg[mqtt]")
pytestmark = pytest.mark.skipif(
    mosquitto() is None, reason="needs mosquitto: apt install mosquitto"
)


class Peer:
    """Somebody else at the broker."""

    def __init__(self, port: int, *, user: str | None = None, password: str | None = None) -> None:
        from paho.mqtt.client import Client
        from paho.mqtt.enums import CallbackAPIVersion

        self.messages: queue.Queue[tuple[str, Any, bool]] = queue.Queue()
        self.client = Client(CallbackAPIVersion.VERSION2)
        if user is not None:
            self.client.username_pw_set(user, password)
        self.client.on_message = lambda client, _, message: self.messages.put(
            (message.topic, json.loads(message.payload or b"{}"), message.retain)
        )
        self.client.connect("127.0.0.1", port)
        self.client.subscribe([("plant/line3/result", 1), ("plant/line3/state", 1)])
        self.client.loop_start()

    def send(self, topic: str, payload: object, *, retain: bool = False) -> None:
        text = payload if isinstance(payload, str | bytes) else json.dumps(payload)
        self.client.publish(f"plant/line3/{topic}", text, qos=1, retain=retain).wait_for_publish(10)

    def next(self, topic: str, **expected: object) -> dict[str, Any]:
        """The next message there in which these keys have these values."""
        deadline_s = time.monotonic() + HANGS_S
        while True:
            name, facts, _ = self.messages.get(timeout=max(0.1, deadline_s - time.monotonic()))
            if name.endswith(topic) and expected.items() <= facts.items():
                return facts

    def close(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path) as running:
        yield running


@pytest.fixture
def peer(broker: Broker) -> Iterator[Peer]:
    made = Peer(broker.port)
    yield made
    made.close()


def rig(broker: Broker, **values: object) -> Rig:
    url = f"mqtt://127.0.0.1:{broker.port}/plant/line3"
    return Rig(BrightnessSession(), {"trigger": "mqtt", "mqtt": url, **values})


def test_triggers_in_and_results_out(broker: Broker, peer: Peer) -> None:
    with rig(broker) as line:
        peer.next("state", trigger_ready=True)
        peer.send("trigger", {"part_id": "A1", "request": "r-1"})
        result = peer.next("result")
        assert (result["trigger_id"], result["part_id"], result["request"]) == (1, "A1", "r-1")
        assert (result["verdict"], result["code"]) == ("good", 1)
        assert result["run_id"] == line.station.run_id
        line.camera.level = 250
        peer.send("trigger", "B2")  # a scanner sends plain text
        result = peer.next("result")
        assert (result["part_id"], result["verdict"]) == ("B2", "defect")
        peer.send("trigger", "")
        assert peer.next("result")["trigger_id"] == 3
    assert peer.next("state", online=False)["run_id"] == line.station.run_id
    late = Peer(broker.port)
    assert late.next("state")["online"] is False  # retained
    assert all(not topic.endswith("result") for topic, _, _ in list(late.messages.queue))
    late.close()


def test_a_trigger_that_is_delivered_twice_is_one(broker: Broker, peer: Peer) -> None:
    with rig(broker) as line:
        peer.next("state", trigger_ready=True)
        for request in ("r-1", "r-1", "r-2"):
            line.wait(lambda: line.station.status().trigger_ready, "trigger ready")
            peer.send("trigger", {"request": request})
        assert peer.next("result", request="r-2")["trigger_id"] == 2
        peer.send("trigger", {"request": "r-1"})  # its result was lost with the broker
        assert peer.next("result", request="r-1")["trigger_id"] == 1
    assert len(line.results) == 2


def test_a_request_of_another_part_gets_no_old_verdict(broker: Broker, peer: Peer) -> None:
    with rig(broker) as line:
        peer.next("state", trigger_ready=True)
        peer.send("trigger", {"part_id": "A1", "request": "r-1"})
        assert peer.next("result", part_id="A1")["verdict"] == "good"
        line.camera.level = 250
        peer.send("trigger", {"part_id": "B2", "request": "r-1"})
        result = peer.next("result", part_id="B2")
    assert (result["verdict"], result["error"], result["error_code"]) == (
        "no_inspection",
        "request_reused",
        12,
    )
    assert result["request"] == "r-1"
    assert re.match("request 'r-1' .* 'A1', now 'B2'", result["reason"])
    assert line.faults.totals() == {"mqtt": 1}


def test_a_trigger_that_was_sent_long_ago_is_not_inspected(broker: Broker, peer: Peer) -> None:
    with rig(broker) as line:
        peer.next("state", trigger_ready=True)
        for part_id, sent in (("now", time.time()), ("old", time.time() - 60), ("odd", "noon")):
            line.wait(lambda: line.station.status().trigger_ready, "trigger ready")
            peer.send("trigger", {"part_id": part_id, "sent": sent})
        assert peer.next("result", part_id="now")["verdict"] == "good"
        old = peer.next("result", part_id="old")
    assert (old["verdict"], old["error"]) == ("no_inspection", "timeout")
    assert old["reason"].startswith("it came 60.")
    assert len(line.results) == 2


def test_more_messages_than_can_wait_are_refused_and_triggers_answered(
    broker: Broker, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter, "WAITING", 1)
    begun, go_on = threading.Event(), threading.Event()

    def fire(event: object) -> None:  # a camera that takes long to be fired
        begun.set()
        go_on.wait(HANGS_S)

    with rig(broker) as line:
        line.station.events.subscribe(TriggerEvent, fire, name="test")
        peer.next("state", trigger_ready=True)
        peer.send("trigger", "first")
        assert begun.wait(HANGS_S)
        peer.send("trigger", "waits")
        peer.send("trigger", "too many")
        refused = peer.next("result", part_id="too many")
        go_on.set()
        assert peer.next("result", part_id="waits")["trigger_id"] == 3
    assert (refused["error"], refused["reason"]) == ("missed", "1 messages wait before it")


def test_what_is_no_trigger_is_counted_and_triggers_nothing(broker: Broker, peer: Peer) -> None:
    peer.send("trigger", "old", retain=True)
    with rig(broker) as line:
        peer.next("state", trigger_ready=True)
        for payload in (b"\xff\xfe", "{", '{"part_id": 3}', '{"request": "%s"}' % ("x" * 65)):
            peer.send("trigger", payload)
        peer.send("trigger", "x" * 5000)
        peer.send("trigger", "real")
        assert peer.next("result")["part_id"] == "real"
    assert len(line.results) == 1
    assert line.faults.totals()["mqtt"] == 6  # the retained one too


def test_jobs_and_a_trigger_that_is_not_wanted(broker: Broker, peer: Peer) -> None:
    with rig(broker, trigger="free") as line:
        peer.next("state", online=True)
        peer.send("job", "7")
        state = peer.next("state", error="unknown_job")
        assert state["reason"] == "there is no job 7"
        assert peer.next("result", verdict="no_inspection")["error_code"] == 4
        peer.send("trigger", "")
        line.wait(lambda: line.faults.totals().get("mqtt") == 1, "the refusal")


def test_the_last_will_arrives_after_a_cut_socket(broker: Broker, peer: Peer) -> None:
    with rig(broker) as line:
        peer.next("state", online=True)
        sock = line.adapter("mqtt")._client.socket()
        sock.shutdown(2)  # no farewell from us
        state = peer.next("state", online=False)
        assert state == {
            "run_id": line.station.run_id,
            "online": False,
            "state": "offline",
            "trigger_ready": False,
        }
        peer.next("state", online=True)  # and back by itself
    assert line.faults.totals()["mqtt"] == 1


def test_results_wait_for_a_broker_that_was_killed(broker: Broker) -> None:
    with rig(broker) as line:
        client = line.adapter("mqtt")._client
        line.wait(client.is_connected, "the broker")
        broker.kill()
        line.wait(lambda: not client.is_connected(), "the loss")
        for number in range(5):
            line.station.trigger(origin="test", part_id=f"P{number}")
            line.wait(lambda: len(line.results) == number + 1, "the result")  # noqa: B023
        broker.start()
        after = Peer(broker.port)
        parts = [after.next("result")["part_id"] for _ in range(5)]
        after.close()
    assert parts == [f"P{number}" for number in range(5)]


def test_a_broker_that_was_never_there_stops_nothing() -> None:
    values = {"trigger": "mqtt", "mqtt": "mqtt://127.0.0.1:1/plant/line3"}
    with Rig(BrightnessSession(), values) as line:
        line.station.trigger(origin="test")
        line.wait(lambda: len(line.results) == 1, "the result")
    assert line.results[0].verdict == "good"


def test_a_password_by_file_and_a_wrong_one(tmp_path: Path) -> None:
    passwords = tmp_path / "passwords"
    made = subprocess.run(
        ["mosquitto_passwd", "-c", "-b", str(passwords), "line3", "hunter2"], capture_output=True
    )
    assert made.returncode == 0
    passwords.chmod(0o644)
    lines = ("allow_anonymous false", f"password_file {passwords}")
    with Broker(tmp_path, lines=lines) as broker:
        right, wrong = tmp_path / "right", tmp_path / "wrong"
        right.write_text("hunter2\n")
        wrong.write_text("hunter3\n")
        for file, let_in in ((right, True), (wrong, False)):
            with rig(broker, mqtt_user="line3", mqtt_password_file=file) as line:
                client = line.adapter("mqtt")._client
                if let_in:
                    line.wait(client.is_connected, "the broker")
                else:
                    line.wait(lambda: line.faults.totals().get("mqtt", 0) > 0, "the refusal")
                    assert not client.is_connected()


def test_tls_with_a_certificate_of_ones_own(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
    ]
    more = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    if subprocess.run([*command, *more], capture_output=True).returncode != 0:
        pytest.skip("needs openssl to make a certificate")
    key.chmod(0o644)
    lines = ("allow_anonymous true", f"certfile {certificate}", f"keyfile {key}")
    with Broker(tmp_path, lines=lines) as broker:
        url = f"mqtts://127.0.0.1:{broker.port}/plant/line3"
        with Rig(BrightnessSession(), {"mqtt": url, "mqtt_ca": certificate}) as line:
            line.wait(line.adapter("mqtt")._client.is_connected, "the broker")
        with Rig(BrightnessSession(), {"mqtt": url}) as line:  # nobody vouches for it
            wait(lambda: len(line.results) > 3, "results")
            assert not line.adapter("mqtt")._client.is_connected()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"mqtt": "broker"},
            "mqtt: expected mqtt://HOST[:PORT]/PREFIX, or mqtts:// with TLS, "
            "such as mqtt://broker/plant/line3",
        ),
        ({"mqtt": "mqtt://u:hunter2@b/x"}, "mqtt: a user in the address; give mqtt_user and "
         "mqtt_password_file"),
        ({"mqtt_user": "x"}, "mqtt_user, mqtt_password_file and mqtt_ca need mqtt=URL"),
        ({"mqtt": "mqtt://b/x", "mqtt_ca": Path("c")}, "mqtt_ca=c: is for mqtts://"),
    ],
)  # fmt: skip
def test_options_check_themselves_and_keep_secrets(values: Any, message: str) -> None:
    with pytest.raises(EdgesegError) as caught:
        MqttOptions(**values)
    assert str(caught.value) == message


def test_the_password_is_in_no_text() -> None:
    shown = adapter.BrokerAccess(host="b", port=1, prefix="p", user="u", password="hunter2")
    assert "hunter2" not in repr(shown)
