"""Part ids from adapters before the pulse of a camera's line."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from edgeseg.runtime.adapters.modbus_map import NEXT_PART_ID, PART_NOTE, text_registers
from edgeseg.runtime.capture.captures import Grab, Wait
from edgeseg.runtime.capture.reader import Reader
from edgeseg.runtime.capture.sources import SourceSpec, open_capture, parse_source
from edgeseg.runtime.events.codes import PartNote
from edgeseg.runtime.triggers.part import GONE, REST
from tests.doubles.broker import Broker, mosquitto
from tests.doubles.fakes import BrightnessSession
from tests.doubles.gige_camera import SERIAL, fire_until, gige_camera
from tests.doubles.opcua_peer import Peer, visit
from tests.doubles.plc import ModbusPlc
from tests.doubles.rig import Rig
from tests.doubles.server_process import free_port
from tests.support.http_client import ask


class LineCamera:
    """A camera whose line a test pulses; it shows nothing by itself."""

    def __init__(self, opened: object) -> None:
        self._camera, self.pulses = opened, 0

    def open(self, spec: SourceSpec, *, wait: Wait, timeout_s: float) -> "LineCamera":
        self._open = self._camera.open(spec, wait=wait, timeout_s=timeout_s)
        self._wait, self.fps = wait, 500.0
        return self

    def read(self) -> Grab | None:
        while not self.pulses:
            if self._wait(0.001):
                return None
        self.pulses -= 1
        return self._open.read()

    def close(self) -> None:
        pass


class Line:
    """A hardware-triggered line."""

    def __init__(self, rig: Rig, camera: LineCamera) -> None:
        self.rig, self._camera = rig, camera

    def pulse(self) -> tuple[str, PartNote]:
        """One part goes by."""
        seen = len(self.rig.results)
        self._camera.pulses += 1
        self.rig.wait(lambda: len(self.rig.results) == seen + 1, "its result")
        trigger = self.rig.results[-1].trigger
        assert self.rig.results[-1].verdict == "good"
        return trigger.part_id, trigger.part_note


@contextmanager
def hardware(**values: object) -> Iterator[Line]:
    rig = Rig(BrightnessSession(), {"trigger": "hardware", "stall_timeout": 60.0, **values})
    camera = LineCamera(rig.camera)
    rig.pipeline.readers[0]._opener = camera.open
    camera.pulses = 1  # the first frame says that the camera is there
    with rig:
        rig.wait(lambda: len(rig.results) == 1, "the first frame")
        yield Line(rig, camera)


def test_modbus() -> None:
    with (
        hardware(modbus="0") as line,
        ModbusPlc("127.0.0.1", line.rig.adapter("modbus").port) as plc,
    ):
        plc.result(1)
        for name in ("SN-1", "SN-2"):
            plc.write(NEXT_PART_ID, text_registers(name))
            assert line.pulse() == (name, PartNote.NONE)
            assert plc.read(PART_NOTE, 1) == [PartNote.NONE]
            assert plc.result(line.rig.results[-1].trigger.trigger_id).part_id == name
        assert line.pulse() == ("", PartNote.MISSING)
        assert plc.read(PART_NOTE, 1) == [PartNote.MISSING]
        plc.write(NEXT_PART_ID + 1, [0x4141])  # in the middle: no id yet
        assert line.pulse() == ("", PartNote.MISSING)
    assert line.rig.faults.totals()["part_id"] == 2


def test_http() -> None:
    with hardware(http="0") as line:
        assert ask(line.rig, "POST", "/part", {"part_id": "A1"}) == (202, {"accepted": True})
        assert line.pulse() == ("A1", PartNote.NONE)
        assert line.pulse() == ("", PartNote.MISSING)
        result = ask(line.rig, "GET", "/result")[1]
        assert (result["part_id"], result["part_note"]) == ("", "missing")
        for body in ({}, {"part_id": 3}):
            assert ask(line.rig, "POST", "/part", body)[0] == 400


def test_an_id_that_waited_too_long_is_stale() -> None:
    with hardware(http="0", part_id_age=1e-9) as line:
        ask(line.rig, "POST", "/part", {"part_id": "A1"})
        assert line.pulse() == ("", PartNote.STALE)
        assert ask(line.rig, "GET", "/result")[1]["part_note"] == "stale"


@pytest.mark.skipif(mosquitto() is None, reason="needs mosquitto: apt install mosquitto")
def test_mqtt(tmp_path: Path) -> None:
    pytest.importorskip("paho.mqtt.client", reason="needs paho-mqtt: pip install edgeseg[mqtt]")
    from tests.runtime.adapters.test_mqtt import Peer as MqttPeer

    with Broker(tmp_path) as broker:
        peer = MqttPeer(broker.port)
        with hardware(mqtt=f"mqtt://127.0.0.1:{broker.port}/plant/line3") as line:
            peer.next("state", trigger_ready=True)
            for name in ("A1", "A2"):
                peer.send("part", name)
                # A message has no answer: the line waits until the station has heard it.
                waiting = line.rig.station._part
                line.rig.wait(lambda: waiting._waiting is not None, "the id")  # noqa: B023
                line.pulse()
                assert peer.next("result", part_id=name)["part_note"] == "none"
        peer.close()


def test_opc_ua() -> None:
    async def story(peer: Peer) -> None:
        assert await peer.call("AnnouncePart", "A1") == 0
        line.pulse()

        async def there() -> bool:
            content = await peer.value("ResultManagement", "ResultContent")
            return bool(content) and json.loads(content)["part_id"] == "A1"

        await peer.until(there)

    with hardware(opcua=str(free_port())) as line:
        visit(line.rig, story)


def test_where_a_trigger_carries_its_own_id_an_announced_one_is_refused() -> None:
    with Rig(BrightnessSession(), {"trigger": "http", "http": "0"}) as rig:
        status, told = ask(rig, "POST", "/part", {"part_id": "A1"})
        assert (status, told["error"]) == (
            409,
            "a part id before its trigger is for --trigger hardware and part",
        )
        assert ask(rig, "POST", "/trigger?wait=1", {})[1]["part_id"] == ""


def test_a_part_that_comes_into_view_takes_it_too() -> None:
    values = {"trigger": "part", "http": "0", "part_area": 0.5}
    with Rig(BrightnessSession(), values) as rig:
        rig.wait(lambda: rig.pipeline.snapshot().sources[0].frames_in > 2 * GONE, "the empty view")
        ask(rig, "POST", "/part", {"part_id": "A1"})
        rig.camera.level = 20
        rig.wait(lambda: len(rig.results) == 1, f"a part that rests for {REST} frames")
        assert rig.results[0].trigger.part_id == "A1"


def test_a_gige_camera_takes_the_id_with_its_next_frame() -> None:
    """Ids are announced before some pulses; the fake has no line, so software pulls the trigger."""
    spec = parse_source(f"aravis:{SERIAL},trigger=software")

    def opener(_: object, **opening: object) -> object:
        return open_capture(spec, **opening)

    values = {"trigger": "hardware", "http": "0", "stall_timeout": 30.0}
    with gige_camera() as camera:
        camera.start()
        rig = Rig(BrightnessSession(), values, opener=opener)
        reader = rig.pipeline.readers[0]
        reader.spec = replace(reader.spec, trigger="hardware")  # silence is no loss
        with rig:
            announced = [
                fire_until_taken(rig, reader, part_id)
                for part_id in ("P0", "P1", "P2", "", "P4", "P5")
            ]
    # The library sends a trigger again that is not confirmed within half a second, and the fake
    # takes a second frame for it: one without an id, or with the next one. None is taken twice.
    told = [(result.trigger.part_id, result.trigger.part_note) for result in rig.results]
    ids = [part_id for part_id, _ in told if part_id]
    assert list(dict.fromkeys(ids)) == ["P0", "P1", "P2", "P4", "P5"]
    assert len(ids) <= sum(announced)
    assert {note for part_id, note in told if not part_id} == {PartNote.MISSING}


def fire_until_taken(rig: Rig, reader: Reader, part_id: str) -> int:
    """Announce a part and fire, again where the frame was lost on its way; how often announced."""
    seen, announced = len(rig.results), 0

    def announce_and_fire() -> None:
        nonlocal announced
        if part_id:
            ask(rig, "POST", "/part", {"part_id": part_id})
            announced += 1
        reader.fire()

    fire_until(announce_and_fire, lambda: taken(rig, seen, part_id))
    return announced


def taken(rig: Rig, seen: int, part_id: str) -> bool:
    return part_id in [result.trigger.part_id for result in rig.results[seen:]]
