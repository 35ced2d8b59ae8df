"""A PLC, a program or a person asks for the golden check while parts come, and hears of it."""

import json
from pathlib import Path

import pytest

from edgeseg.runtime.adapters.modbus_map import (
    CHECK_ANSWER,
    CHECKS,
    CONTROL,
    STATUS,
    Control,
    Status,
)
from edgeseg.runtime.events.codes import Check, CheckAnswer, ErrorCode
from edgeseg.runtime.recipes.check_record import records_of
from edgeseg.runtime.recipes.store import RecipeStore
from edgeseg.runtime.station.records import StationResult
from edgeseg.vision.images import write_image
from tests.doubles.broker import Broker, mosquitto
from tests.doubles.opcua_peer import Peer, visit
from tests.doubles.plc import ModbusPlc
from tests.doubles.server_process import free_port
from tests.support.http_client import ask
from tests.support.page_site import running as page_site
from tests.support.recipe_folders import new_recipe, part
from tests.support.recipe_line import inspect, line, triggering, wait_for_results


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    new_recipe(tmp_path / "high", number=1)
    new_recipe(tmp_path / "bare", number=2, good=(), bad=(), approved=False)
    return tmp_path


def spoil(folder: Path) -> None:
    """A golden picture is no longer the one that was approved."""
    write_image(folder / "high" / "golden" / "good" / "150.png", part(151))


def test_modbus(folder: Path) -> None:
    with line(folder) as rig, ModbusPlc("127.0.0.1", rig.adapter("modbus").port) as plc:

        def check() -> tuple[Status, int, int]:
            before = plc.read(CHECKS, 1)[0]
            plc.write(CONTROL, [int(Control.BUFFER_RESULTS | Control.CHECK_NOW)])
            rig.wait(lambda: plc.read(CHECKS, 1)[0] == before + 1, "the answer")
            plc.write(CONTROL, [int(Control.BUFFER_RESULTS)])
            registers = plc.read(0, 64)
            return Status(registers[STATUS]), registers[CHECKS], registers[CHECK_ANSWER]

        status, count, answer = check()
        assert Status.CHECK_PASSED | Status.TRIGGER_READY in status
        assert (count, answer) == (1, CheckAnswer.PASSED)
        assert plc.result(plc.trigger("A1")).code == 1
        spoil(folder)
        status, count, answer = check()
        assert Status.CHECK_FAILED | Status.ERROR in status
        assert not status & (Status.TRIGGER_READY | Status.CHECK_PASSED | Status.CHECK_RUNNING)
        assert (count, answer) == (2, CheckAnswer.FAILED)
    records = records_of(RecipeStore(folder=folder).find("high"))
    assert [json.loads(path.read_text())["passed"] for path in records] == [True, False]


def test_http(folder: Path) -> None:
    with line(folder, http="0") as rig:
        status, told = ask(rig, "POST", "/check?wait=1")
        assert (status, told["check"], told["check_answer"]) == (200, "passed", "passed")
        spoil(folder)
        status, told = ask(rig, "POST", "/check?wait=1")
        assert (status, told["check"], told["trigger_ready"]) == (200, "failed", False)
        assert told["reason"].startswith("good/150.png: is not")
        assert ask(rig, "POST", "/check")[0] in (200, 202)
        rig.wait(lambda: rig.station.status().checks == 3, "the third")
        assert ask(rig, "GET", "/state")[1]["check_answer"] == "failed"


@pytest.mark.skipif(mosquitto() is None, reason="needs mosquitto: apt install mosquitto")
def test_mqtt(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    pytest.importorskip("paho.mqtt.client", reason="needs paho-mqtt: pip install edgeseg[mqtt]")
    from tests.runtime.adapters.test_mqtt import Peer as MqttPeer

    with Broker(tmp_path_factory.mktemp("broker")) as broker:
        peer = MqttPeer(broker.port)
        with line(folder, mqtt=f"mqtt://127.0.0.1:{broker.port}/plant/line3"):
            peer.next("state", trigger_ready=True)
            peer.send("check", "")
            assert peer.next("state", checks=1)["check"] == "passed"
            spoil(folder)
            peer.send("check", "")
            assert peer.next("state", checks=2)["check"] == "failed"
        peer.close()


def test_opc_ua_checks_and_loads_recipes(folder: Path) -> None:
    """Job load and check from end to end: what the client asks for is what inspects."""
    new_recipe(folder / "low", number=3, threshold=145.0, good=(120, 140), bad=(150,))

    async def story(peer: Peer) -> None:
        async def becomes(name: str, value: object) -> None:
            async def so() -> bool:
                return await peer.value(name) == value

            await peer.until(so)

        async def verdict(meas_id: str) -> tuple[str, str]:
            await becomes("TriggerReady", True)
            job, error = await peer.call("StartSingleJob", meas_id, "A1")
            assert error == 0

            async def there() -> bool:
                return await peer.value("ResultManagement", "ResultId") == job

            await peer.until(there)
            content = json.loads(await peer.value("ResultManagement", "ResultContent"))
            return content["job_name"], content["verdict"]

        await becomes("Recipe", "high")
        assert await verdict("m1") == ("high", "good")
        assert await peer.call("CheckNow") == 0
        await becomes("Checks", 1)
        assert (await peer.value("Check"), await peer.value("CheckAnswer")) == ("passed", 2)
        for key, name, word in (("3", "low", "defect"), ("high", "high", "good")):
            assert await peer.call("PrepareRecipe", key) == 0
            await becomes("Recipe", name)
            assert await verdict(f"of {name}") == (name, word)
        assert await peer.call("PrepareRecipe", "99") == -1
        await becomes("Error", int(ErrorCode.UNKNOWN_JOB))
        assert await peer.value("VisionStateMachine", "CurrentState") == "Error"
        job, _ = await peer.call("StartSingleJob", "m4", "A2")
        rig.wait(lambda: rig.results[-1].trigger.trigger_id == job, "its answer")
        assert rig.results[-1].verdict == "no_inspection"
        assert await peer.call("PrepareRecipe", "1") == 0
        await becomes("Error", 0)
        assert await verdict("m5") == ("high", "good")
        spoil(folder)
        assert await peer.call("CheckNow") == 0
        await becomes("Checks", 2)
        await becomes("Error", int(ErrorCode.CHECK_FAILED))
        assert await peer.value("Check") == "failed"

    with line(folder, trigger="opcua", modbus=None, opcua=str(free_port())) as rig:
        visit(rig, story)


def test_the_page(folder: Path) -> None:
    with line(folder) as rig, page_site(station=rig.station, recipes=rig.run.recipes) as site:
        asked = {"method": "POST", "body": '{"check": true}', "X_Edgeseg": "page"}
        status, _, answer = site.ask("/check", **asked)
        assert (status, json.loads(answer)) == (200, {"accepted": True})
        rig.wait(lambda: rig.station.status().checks == 1, "the check")
        assert site.state()["station"]["check"] == "passed"


def test_a_page_without_a_station_has_nothing_to_check() -> None:
    with page_site() as site:
        status, _, answer = site.ask(
            "/check", method="POST", body='{"check": true}', X_Edgeseg="page"
        )
        assert status == 409
        assert json.loads(answer) == {"error": "this stream has no station to check"}
        assert site.state()["station"] is None


def test_a_recipe_without_golden_pictures_refuses_and_inspects_on(folder: Path) -> None:
    with line(folder, first="bare", http="0") as rig:
        status, told = ask(rig, "POST", "/check?wait=1")
        assert status == 409
        assert "no golden pictures" in told["error"]
        assert rig.station.status().check_answer == CheckAnswer.REFUSED
        assert inspect(rig) == ("bare", "good")
        with ModbusPlc("127.0.0.1", rig.adapter("modbus").port) as plc:
            plc.write(CONTROL, [int(Control.BUFFER_RESULTS | Control.CHECK_NOW)])
            assert plc.read(CHECKS, 2) == [2, CheckAnswer.REFUSED]
    assert rig.faults.totals()["modbus"] == 1


@pytest.mark.parametrize("passes", [True, False])
def test_triggers_meanwhile_are_all_answered_and_none_is_good(folder: Path, passes: bool) -> None:
    if not passes:
        spoil(folder)
    states: list[tuple[Check, str]] = []
    with line(folder, queue_size=4) as rig:
        rig.station.events.subscribe(
            StationResult,
            lambda r: states.append((rig.station.status().check, r.verdict)),
            name="test",
        )
        with triggering(rig):
            for number in range(1, 6):
                assert rig.station.check_now()
                rig.wait(lambda number=number: rig.station.status().checks == number, "a check")
                wait_for_results(rig)
        status = rig.station.status()
    assert status.triggers == status.results == len(rig.results)
    ids = [result.trigger.trigger_id for result in rig.results]
    assert ids == list(range(1, len(ids) + 1))
    errors = {result.error for result in rig.results} - {ErrorCode.NONE}
    assert errors <= {ErrorCode.CHECK_FAILED, ErrorCode.MISSED}
    assert ErrorCode.CHECK_FAILED in errors
    if passes:
        assert "good" in {result.verdict for result in rig.results}
    else:
        first = next(at for at, state in enumerate(states) if state[0] == Check.FAILED)
        assert {verdict for _, verdict in states[first:]} == {"no_inspection"}


def test_a_recipe_asked_for_during_a_check_comes_after_it(folder: Path) -> None:
    with line(folder) as rig:
        for _ in range(5):
            assert rig.station.check_now()
            assert rig.station.load_job("bare")
            rig.wait(lambda: rig.station.current_job.name == "bare", "the recipe")
            assert rig.station.status().check == Check.NONE
            assert rig.station.load_job("high")
            rig.wait(lambda: rig.station.current_job.name == "high", "the recipe")
        assert inspect(rig) == ("high", "good")
        assert rig.station.status().checks == 5
