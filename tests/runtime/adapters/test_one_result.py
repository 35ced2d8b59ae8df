"""One result says the same through every door: event, HTTP, MQTT, OPC UA, webhook and command."""

import json
import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from edgeseg.runtime.adapters.mqtt import MqttAdapter
from edgeseg.runtime.adapters.webhook import Webhook
from tests.doubles.fakes import BrightnessSession, wait
from tests.doubles.rig import Rig
from tests.doubles.server_process import free_port
from tests.support.brightness_model import brightness_metadata
from tests.support.documents import keys_of, text_of
from tests.support.http_client import ask

FORMATS = text_of("docs/formats.md")
DOORS = ("event", "http", "mqtt", "opcua", "webhook", "command")
# What a model of one product, one part in a picture and no known defects does not say.
UNSAID = ("variant", "parts[]", "parts", "kind", "kind_number", "like", "why")
# A good part, a defect, a picture of something else, and a camera that is lost.
VERDICTS = ("good", "defect", "invalid", "no_inspection")
Told = dict[str, list[dict[str, Any]]]


class FakeBroker:
    """As much of a client of a broker as sends."""

    def __init__(self, sent: list[dict[str, Any]]) -> None:
        self._sent = sent

    def publish(self, topic: str, text: str, *, qos: int, retain: bool = False) -> Any:
        if topic.endswith("/result"):
            self._sent.append(json.loads(text))
        return SimpleNamespace(rc=0, wait_for_publish=lambda seconds: None)

    def is_connected(self) -> bool:
        return True

    def connect_async(self, host: str, port: int, *, keepalive: int) -> None: ...
    def loop_start(self) -> None: ...
    def loop_stop(self) -> None: ...
    def disconnect(self) -> None: ...


def trigger(line: Rig, part_id: str) -> dict[str, Any]:
    body = {"part_id": part_id, "request": f"r-{part_id}"}
    return ask(line, "POST", "/trigger?wait=1", body)[1]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """What each door said of the same four parts."""
    pytest.importorskip("asyncua", reason="needs asyncua: pip install edgeseg[opcua]")
    pytest.importorskip("paho.mqtt.client", reason="needs paho-mqtt: pip install edgeseg[mqtt]")
    folder = tmp_path_factory.mktemp("doors")
    program = folder / "program.py"
    program.write_text(
        f"import os; print(os.environ['EDGESEG_RESULT'], file=open({str(folder / 'out')!r}, 'a'))"
    )
    said: Told = {door: [] for door in DOORS}
    metadata = brightness_metadata()
    limits = replace(metadata.threshold, foreign=230.0)
    values = {
        "trigger": "http",
        "http": "0",
        "mqtt": "mqtt://nowhere/plant/line3",
        "opcua": str(free_port()),
        "webhook": "http://nowhere/results",
        "on_verdict": (f"any={sys.executable} {program}",),
    }
    with pytest.MonkeyPatch.context() as patch:
        broker = FakeBroker(said["mqtt"])
        patch.setattr(MqttAdapter, "_make_client", lambda adapter: broker)
        patch.setattr(Webhook, "_post", lambda hook, body: said["webhook"].append(json.loads(body)))
        with Rig(BrightnessSession(replace(metadata, threshold=limits)), values) as line:
            _show(line, said)
            kept = line.adapter("opcua")._kept
            wait(lambda: len(kept) == len(VERDICTS), "results over OPC UA")
            said["opcua"] = [json.loads(content) for content in kept.values()]
            said["event"] = [each for each in line.events if each["event"] == "result"]
    said["command"] = [json.loads(text) for text in (folder / "out").read_text().splitlines()]
    return said


def _show(line: Rig, said: Told) -> None:
    grey = np.full((32, 48, 3), 100, np.uint8)
    stained = grey.copy()
    stained[8:16, 8:16] = 250
    for name, picture in (("good", grey), ("bad", stained), ("other", np.full_like(grey, 250))):
        line.camera.picture = picture
        said["http"].append(trigger(line, name))
    line.camera.plugged = False
    line.wait(lambda: not line.station.status().online, "the loss")
    said["http"].append(trigger(line, "gone"))


def test_every_door_says_the_same(told: Told) -> None:
    plain = [
        {key: value for key, value in each.items() if key not in ("schema", "event")}
        for each in told["event"]
    ]
    assert tuple(each["verdict"] for each in plain) == VERDICTS
    for door in DOORS[1:]:
        assert told[door] == plain, door


@pytest.mark.parametrize("door", DOORS)
def test_every_door_has_the_documented_keys(told: Told, door: str) -> None:
    documented = {key.removesuffix(".*") for key in keys_of(FORMATS, "Event result")}
    own = {"schema", "event"} if door != "event" else set()
    for each in told[door]:
        unsaid = {key for key in documented - own if key.partition(".")[0] in UNSAID}
        assert set(each) == documented - own - unsaid


def test_what_was_judged_names_what_judged_it(told: Told) -> None:
    *judged, gone = told["http"]
    for each in judged:
        assert (each["backend"], each["precision"]) == ("numpy", "fp32")
        assert each["operating_point"]["threshold"] == each["threshold"]
    assert gone["backend"] is gone["operating_point"] is None


def test_what_gave_no_verdict_says_why(told: Told) -> None:
    good, bad, other, gone = told["mqtt"]
    assert (good["reason"], good["doubt"], bad["reason"], bad["doubt"]) == ("", None, "", None)
    assert other["doubt"] == "foreign"
    assert other["reason"].startswith("the picture is not of this part")
    assert (gone["error"], gone["doubt"]) == ("source_lost", None)
    assert gone["reason"] != ""
