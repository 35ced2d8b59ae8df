"""Recipes change under triggers: every trigger is answered, and none by the wrong recipe."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from edgeseg.base.errors import UsageError
from edgeseg.base.files import file_sha256
from edgeseg.base.progress import ignore
from edgeseg.modelfile.signature import check_signature, sign
from edgeseg.modelfile.signing_keys import make_keys
from edgeseg.runtime.adapters.modbus_map import CONTROL, JOB_LOAD, Control
from edgeseg.runtime.events.codes import Check, ErrorCode
from edgeseg.runtime.recipes import model_watch
from edgeseg.runtime.recipes.approval import read_approval
from edgeseg.runtime.recipes.check_record import records_of
from edgeseg.runtime.recipes.install import roll_back
from edgeseg.runtime.recipes.open_judge import check_recipe
from edgeseg.runtime.recipes.store import RecipeStore
from edgeseg.runtime.recipes.versions import put_model, versions_of
from edgeseg.vision.images import write_image
from tests.doubles.broker import Broker, mosquitto
from tests.doubles.fakes import wait
from tests.doubles.plc import ModbusPlc
from tests.doubles.rig import Rig
from tests.support.brightness_model import brightness_metadata, write_brightness_model
from tests.support.http_client import ask
from tests.support.page_site import running as page_site
from tests.support.recipe_folders import CPU, approve_now, edit, new_recipe, part
from tests.support.recipe_line import change, inspect, line, triggering, wait_for_results


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two recipes that disagree about the camera's frames."""
    new_recipe(tmp_path / "high", number=1, threshold=200.0)
    new_recipe(tmp_path / "low", number=2, threshold=145.0, good=(120, 140), bad=(150,))
    return tmp_path


def kinds(rig: Rig) -> list[object]:
    return [event["event"] for event in rig.events if event["event"] != "result"]


def test_a_recipe_is_loaded_by_number_and_by_name(folder: Path) -> None:
    with line(folder) as rig:
        assert inspect(rig) == ("high", "good")
        change(rig, 2, "low")
        assert inspect(rig) == ("low", "defect")
        change(rig, "high", "high")
        assert inspect(rig) == ("high", "good")
        wait(lambda: kinds(rig).count("changeover") == 2, "two changeovers")
    warm = [event["warm"] for event in rig.events if event["event"] == "changeover"]
    assert warm == [False, True]
    assert rig.end() is None


def by_modbus(rig: Rig, number: int) -> None:
    with ModbusPlc("127.0.0.1", rig.adapter("modbus").port) as plc:
        plc.write(JOB_LOAD, [number])
        plc.write(CONTROL, [int(Control.BUFFER_RESULTS | Control.LOAD_JOB)])


def by_http(rig: Rig, number: int) -> None:
    assert ask(rig, "POST", "/job", {"job": number})[0] == 202


@pytest.mark.parametrize("load", [by_modbus, by_http])
def test_a_plc_or_a_program_changes_the_recipe(
    folder: Path, load: Callable[[Rig, int], None]
) -> None:
    with line(folder, http="0") as rig:
        assert inspect(rig) == ("high", "good")
        load(rig, 2)
        rig.wait(lambda: rig.station.current_job.number == 2, "the recipe")
        assert inspect(rig) == ("low", "defect")


def test_people_change_the_recipe_on_the_page(folder: Path) -> None:
    with line(folder) as rig, page_site(station=rig.station, recipes=rig.run.recipes) as site:
        asked = {"method": "POST", "X_Edgeseg": "page"}
        status, _, answer = site.ask("/recipe", body=json.dumps({"recipe": "low"}), **asked)
        assert (status, json.loads(answer)) == (200, {"accepted": True})
        rig.wait(lambda: rig.station.current_job.name == "low", "the recipe")
        state = json.loads(site.ask("/state")[2])
        expected = {"names": ["high", "low"], "current": "low", "loading": False}
        assert state["recipes"] == expected
        assert inspect(rig) == ("low", "defect")
        status, _, answer = site.ask("/recipe", body=json.dumps({"recipe": "none"}), **asked)
        assert (status, json.loads(answer)) == (200, {"accepted": False})
        assert inspect(rig)[1] == "no_inspection", "nobody knows which part comes next"


@pytest.mark.skipif(mosquitto() is None, reason="needs mosquitto: apt install mosquitto")
def test_a_message_changes_the_recipe(folder: Path, tmp_path_factory) -> None:
    from paho.mqtt import publish, subscribe

    with Broker(tmp_path_factory.mktemp("broker")) as broker:
        address = f"mqtt://127.0.0.1:{broker.port}/plant/line3"
        with line(folder, mqtt=address) as rig:
            there = {"hostname": "127.0.0.1", "port": broker.port, "qos": 1}
            subscribe.simple("plant/line3/state", **there)  # told when it listens
            publish.single("plant/line3/job", "low", **there)
            rig.wait(lambda: rig.station.current_job.name == "low", "the recipe")
            assert inspect(rig) == ("low", "defect")


def test_every_result_names_what_judged_it(folder: Path) -> None:
    with line(folder) as rig:
        inspect(rig)
        rig.station.load_job(9)
        inspect(rig)
    judged, refused = [event for event in rig.events if event["event"] == "result"]
    assert (judged["recipe"], judged["precision"]) == ("high", "fp32")
    assert judged["model_sha256"] == file_sha256(folder / "high" / "model.onnx")
    assert judged["backend"] == "ONNX Runtime CPU, 1 thread"
    assert judged["operating_point"] == {
        "threshold": 200.0,
        "rate": 0.01,
        "method": "split-conformal, 100 good images",
    }
    for key in ("recipe", "model_sha256", "precision", "backend", "operating_point"):
        assert refused[key] is None


def test_an_unknown_recipe_inspects_nothing_until_a_known_one(folder: Path) -> None:
    with line(folder) as rig:
        for key in (7, "no", ""):
            assert not rig.station.load_job(key)
            assert inspect(rig)[1] == "no_inspection"
            assert rig.results[-1].error == ErrorCode.UNKNOWN_JOB
        change(rig, "1", "high")
        assert inspect(rig) == ("high", "good")


def test_a_recipe_that_cannot_be_opened_inspects_nothing(folder: Path) -> None:
    (folder / "low" / "model.onnx").write_bytes(b"damaged")
    with line(folder) as rig:
        assert rig.station.load_job(2)
        rig.wait(lambda: not rig.station.status().job_loading, "the failure")
        assert inspect(rig)[1] == "no_inspection"
        assert "recipe low: " in rig.results[-1].reason
        change(rig, 1, "high")
        assert inspect(rig) == ("high", "good")
    assert "changeover_failed" in kinds(rig)


def test_a_region_that_the_frames_do_not_hold_is_refused_before_the_swap(folder: Path) -> None:
    edit(RecipeStore(folder=folder).find("low"), '# roi = "0,0,640,480"', 'roi = "0,0,640,480"')
    with line(folder) as rig:
        inspect(rig)
        assert rig.station.load_job(2)
        rig.wait(lambda: not rig.station.status().job_loading, "the failure")
        assert "do not hold roi" in rig.station.status().reason
        change(rig, 1, "high")
        assert inspect(rig) == ("high", "good")


def test_triggers_of_many_threads_through_many_changes(folder: Path) -> None:
    """Results = triggers, in order, and each verdict is the one of the recipe it names."""
    expected = {"high": "good", "low": "defect"}
    with line(folder, queue_size=4) as rig:
        with triggering(rig):
            for index in range(12):
                change(rig, 1 + (index + 1) % 2, ["low", "high"][index % 2])
                wait_for_results(rig)
        status = rig.station.status()
    assert status.triggers == status.results == len(rig.results)
    ids = [result.trigger.trigger_id for result in rig.results]
    assert ids == list(range(1, len(ids) + 1))
    inspected = [result for result in rig.results if result.inspection is not None]
    assert {result.trigger.job.name for result in inspected} == {"high", "low"}
    for result in inspected:
        assert result.verdict == expected[result.trigger.job.name]
    errors = {result.error for result in rig.results} - {ErrorCode.NONE}
    assert errors <= {ErrorCode.JOB_LOADING, ErrorCode.MISSED}


def test_a_trigger_under_way_gets_the_verdict_of_its_own_recipe(folder: Path) -> None:
    with line(folder, trigger_timeout=20.0) as rig:
        inspect(rig)
        rig.camera.plugged = False  # the trigger waits for a frame
        event = rig.station.trigger(origin="test")
        assert rig.station.load_job(2)
        late = rig.station.trigger(origin="test")
        rig.camera.plugged = True
        rig.wait(lambda: not rig.station.status().job_loading, "the recipe")
        answers = {result.trigger.trigger_id: result for result in rig.results}
        first = answers[event.trigger_id]
        assert first.trigger.job.name == "high"
        # With its camera lost it is answered by an error; with a frame in time by its own recipe.
        assert first.verdict in ("good", "no_inspection")
        assert answers[late.trigger_id].error in (ErrorCode.JOB_LOADING, ErrorCode.SOURCE_LOST)
        assert rig.station.current_job.name == "low"


def test_the_last_of_several_wishes_counts(folder: Path) -> None:
    with line(folder) as rig:
        for _ in range(5):
            for key in (2, 1, 2):
                assert rig.station.load_job(key)
            rig.wait(lambda: not rig.station.status().job_loading, "the recipe")
            assert rig.station.current_job.name == "low"
            assert inspect(rig) == ("low", "defect")


def test_the_golden_check_at_a_changeover_passes_or_stops_the_line(folder: Path) -> None:
    store = RecipeStore(folder=folder)
    low = edit(store.find("low"), "at_start = false", "at_start = true")
    with line(folder) as rig:
        assert rig.station.status().check == Check.NONE
        change(rig, 2, "low")
        assert rig.station.status().check == Check.PASSED
        change(rig, 1, "high")
        write_image(low.golden / "good" / "120.png", part(121))
        assert rig.station.load_job(2)
        rig.wait(lambda: not rig.station.status().job_loading, "the failure")
        assert rig.station.status().check == Check.FAILED
        assert inspect(rig)[1] == "no_inspection"
        assert rig.results[-1].error == ErrorCode.CHECK_FAILED
        change(rig, 1, "high")
        assert inspect(rig) == ("high", "good")
    assert len(records_of(low)) == 2


def test_a_failed_check_at_the_start_refuses_every_trigger(folder: Path) -> None:
    high = edit(RecipeStore(folder=folder).find("high"), "at_start = false", "at_start = true")
    picture = high.golden / "good" / "150.png"
    approved = picture.read_bytes()
    write_image(picture, part(151))
    with line(folder) as rig:
        assert rig.station.status().check == Check.FAILED
        assert inspect(rig)[1] == "no_inspection"
        picture.write_bytes(approved)
        change(rig, "high", "high")  # asked for again: checked again
        assert rig.station.status().check == Check.PASSED
        assert inspect(rig) == ("high", "good")


# A model file replaced on the disk.


def swapped(rig: Rig) -> bool:
    """Two looks, so that the files are at rest."""
    watch = rig.changes._watch
    watch.look()
    return watch.look()


def replacement(folder: Path, threshold: float) -> Path:
    path = folder / f".new-{threshold}.onnx"
    write_brightness_model(path, metadata=brightness_metadata(threshold=threshold))
    return path


def test_a_replaced_model_is_proven_swapped_in_and_can_be_rolled_back(folder: Path) -> None:
    high = RecipeStore(folder=folder).find("high")
    before = file_sha256(high.model)
    with line(folder) as rig:
        rig.changes._watch.close()
        rig.camera.level = 195
        assert inspect(rig) == ("high", "good")
        put_model(high, replacement(folder, 190.0))
        assert swapped(rig)
        assert inspect(rig) == ("high", "defect")
        assert read_approval(high).model_sha256 == file_sha256(high.model) != before
        assert len(versions_of(high)) == 2
        roll_back(high)
        assert swapped(rig)
        assert inspect(rig) == ("high", "good")
        assert read_approval(high).model_sha256 == before
        assert not swapped(rig)
    assert kinds(rig).count("model_swapped") == 2


@pytest.mark.parametrize("end", [KeyboardInterrupt, UsageError])
def test_the_approval_is_of_the_model_that_the_next_start_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, end: type[BaseException]
) -> None:
    """Killed while it is swapped in, the new one on the disk; where it is refused, the old one."""
    high = RecipeStore(folder=folder).find("high")
    before = read_approval(high)

    def swap(*_: object, **__: object) -> None:
        raise end("at the swap")

    with line(folder) as rig:
        rig.changes._watch.close()
        put_model(high, replacement(folder, 190.0))
        monkeypatch.setattr(rig.changes.changeover, "swap", swap)
        if end is UsageError:
            assert not swapped(rig)
            assert not swapped(rig), "refused once: these files"
            assert read_approval(high) == before
        else:
            with pytest.raises(end):
                swapped(rig)
    if end is UsageError:
        assert kinds(rig).count("model_refused") == 1
        return
    assert read_approval(high).model_sha256 == file_sha256(high.model)
    assert check_recipe(high, CPU, note=ignore).passed


@pytest.mark.parametrize("threshold", [165.0, 230.0])
def test_a_model_that_fails_its_golden_set_never_inspects(folder: Path, threshold: float) -> None:
    high = RecipeStore(folder=folder).find("high")
    with line(folder) as rig:
        rig.changes._watch.close()
        put_model(high, replacement(folder, threshold))
        assert not swapped(rig)
        assert not swapped(rig), "refused once"
        assert inspect(rig) == ("high", "good")
        assert rig.pipeline.session.metadata.threshold.score == 200.0
    (event,) = [event for event in rig.events if event["event"] == "model_refused"]
    assert "golden pictures: " in str(event["reason"])


def test_a_model_that_cannot_be_proven_is_tried_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    high = RecipeStore(folder=folder).find("high")
    proofs: list[object] = []

    def prove(judge: object) -> None:
        proofs.append(judge)
        raise ZeroDivisionError("a surprise of a library")

    with line(folder) as rig:
        rig.changes._watch.close()
        monkeypatch.setattr(model_watch, "prove", prove)
        put_model(high, replacement(folder, 190.0))
        with pytest.raises(ZeroDivisionError):
            swapped(rig)
        assert not swapped(rig)
        assert len(proofs) == 1
        monkeypatch.undo()
        put_model(high, replacement(folder, 191.0))
        assert swapped(rig), "another file"


def test_half_a_copy_is_not_taken(folder: Path) -> None:
    high = RecipeStore(folder=folder).find("high")
    with line(folder) as rig:
        rig.changes._watch.close()
        whole = high.model.read_bytes()
        high.model.write_bytes(whole[: len(whole) // 2])
        assert not swapped(rig)
        assert inspect(rig) == ("high", "good")
        high.model.write_bytes(whole)
        assert swapped(rig), "the same bytes in new files: opened and proven again"
        assert inspect(rig) == ("high", "good")


def test_files_that_still_grow_are_left_alone(folder: Path) -> None:
    high = RecipeStore(folder=folder).find("high")
    with line(folder) as rig:
        rig.changes._watch.close()
        for threshold in (190.0, 191.0, 192.0):
            put_model(high, replacement(folder, threshold))
            assert not rig.changes._watch.look()
        assert rig.changes._watch.look()


def test_where_only_signed_recipes_count_a_model_comes_with_its_signature(folder: Path) -> None:
    pytest.importorskip("cryptography", reason="signatures need the package cryptography")
    high = RecipeStore(folder=folder).find("high")
    key, public = make_keys(folder / "owner.key")
    sign(high.folder, key, chain={})
    before = file_sha256(high.model)
    with line(folder, trust=(public,)) as rig:
        rig.changes._watch.close()
        put_model(high, replacement(folder, 190.0))
        assert not swapped(rig), "not signed"
        sign(high.folder, key, chain={})
        assert not swapped(rig), "refused once: these files"
        put_model(high, replacement(folder, 191.0))
        sign(high.folder, key, chain={})
        assert not swapped(rig), "signed, and its scores are not approved"
        put_model(high, replacement(folder, 192.0))
        approve_now(high)
        sign(high.folder, key, chain={})
        assert swapped(rig)
        roll_back(high)
        assert swapped(rig), "the signature came back with the model"
        assert file_sha256(high.model) == before
        check_signature(high.folder, (public,))
    reasons = [str(event["reason"]) for event in rig.events if event["event"] == "model_refused"]
    assert "was changed since it was signed" in reasons[0]
    assert reasons[1].startswith("its scores are not approved")
