"""Free running without an approved model: no output of the stream says good."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from edgeseg.runtime.recipes.store import RecipeStore
from edgeseg.runtime.web.page_sink import PageSink
from edgeseg.vision.images import write_image
from tests.doubles.rig import Rig
from tests.support import HANGS_S
from tests.support.recipe_folders import edit, new_recipe, part
from tests.support.recipe_line import change, line


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number, name in enumerate(("high", "other"), 1):
        new_recipe(tmp_path / "recipes" / name, number=number, at_start=name == "other")
    return tmp_path


@pytest.fixture
def receiver() -> Iterator[tuple[str, list[dict[str, object]]]]:
    """Where a webhook posts to."""
    posted: list[dict[str, object]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/", posted
    server.shutdown()


def failed_check(rig: Rig, folder: Path) -> None:
    """Another recipe is asked for, and is not what was approved."""
    write_image(folder / "recipes" / "other" / "golden" / "good" / "150.png", part(151))
    assert rig.station.load_job("other")
    rig.wait(lambda: not rig.station.status().job_loading, "the failure")


def failed_request(rig: Rig, folder: Path) -> None:
    """The recipe that runs is checked, and fails."""
    write_image(folder / "recipes" / "high" / "golden" / "good" / "150.png", part(151))
    assert rig.station.check_now()
    rig.wait(lambda: rig.station.status().checks == 1, "the check")


def unknown_recipe(rig: Rig, folder: Path) -> None:
    assert not rig.station.load_job(99)


def page_of(rig: Rig) -> PageSink:
    page = rig.run.sink(PageSink)
    assert page is not None
    return page


def verdicts_of(rig: Rig) -> dict[str, float]:
    """As Prometheus reads them, with the gauge of the station."""
    with urlopen(f"{page_of(rig).url}metrics", timeout=HANGS_S) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    found = {family.name: family for family in families}
    counts = {
        sample.labels["verdict"]: sample.value
        for sample in found["edgeseg_verdicts"].samples
        if sample.name.endswith("_total")
    }
    return counts | {"blocked": found["edgeseg_no_inspection"].samples[0].value}


@pytest.mark.parametrize("block", [failed_check, failed_request, unknown_recipe])
def test_no_output_says_good_until_there_is_an_approved_model_again(
    folder: Path, receiver: tuple[str, list[dict[str, object]]], block: object
) -> None:
    url, posted = receiver
    values = {
        "trigger": "free",
        "modbus": None,
        "events": str(folder / "events.jsonl"),
        "counters": folder / "counters.json",
        "serve": 0,
        "webhook": url,
        "on_verdict": (f"good=touch {folder}/good", f"no_inspection=touch {folder}/none"),
    }
    with line(folder / "recipes", sinks=True, **values) as rig:
        rig.camera.fps = 50.0
        rig.wait(lambda: rig.results and rig.results[-1].verdict == "good", "a good part")
        rig.wait(lambda: (folder / "good").exists(), "the program for good ones")
        block(rig, folder)
        seen = len(rig.results)
        rig.wait(lambda: len(rig.results) > seen + 5, "frames without a verdict")
        # Programs run one after the other: those for good frames have ended when this one runs.
        rig.wait(lambda: (folder / "none").exists(), "the program for parts without one")
        (folder / "good").unlink()
        before, screen = verdicts_of(rig), page_of(rig).screen()
        rig.wait(lambda: len(rig.results) > seen + 15, "more of them")
        after = verdicts_of(rig)
        assert after["good"] == before["good"]
        assert after["no_inspection"] > before["no_inspection"] > 0
        assert (before["blocked"], after["blocked"]) == (1, 1)
        assert screen["part"]["verdict"] == "no_inspection"
        assert screen["halt"]["why"] in ("check_failed", "unknown_job")
        assert {result.verdict for result in rig.results[seen:]} == {"no_inspection"}
        rig.wait(lambda: posted and posted[-1]["verdict"] == "no_inspection", "the webhook")
        blocked_at = len(rig.results)
        assert not (folder / "good").exists()
        write_image(folder / "recipes" / "high" / "golden" / "good" / "150.png", part(150))
        change(rig, "high", "high")
        rig.wait(lambda: rig.results[-1].verdict == "good", "a good part again")
        assert verdicts_of(rig)["blocked"] == 0
    assert_events(folder / "events.jsonl")
    counts = json.loads((folder / "counters.json").read_text())["total"]["all"]
    verdicts = [result.verdict for result in rig.results]
    assert counts["no_inspection"] == verdicts.count("no_inspection")
    assert counts["good"] == verdicts.count("good")
    assert counts["parts"] == len(verdicts) > blocked_at


def assert_events(log: Path) -> None:
    """Frames that are good, then such without a verdict and the reason, then good ones."""
    events = [json.loads(text) for text in log.read_text().splitlines()]
    frames = [event for event in events if event["event"] == "frame"]
    verdicts = [frame["verdict"] for frame in frames]
    first = verdicts.index("no_inspection")
    last = len(verdicts) - verdicts[::-1].index("no_inspection")
    assert set(verdicts[:first]) == set(verdicts[last:]) == {"good"}
    assert set(verdicts[first:last]) == {"no_inspection"}
    for frame in frames[first:last]:
        assert frame["error"] in ("check_failed", "unknown_job", "job_loading")
        assert frame["reason"]
        assert frame["alarm"]
    assert {frame["error"] for frame in frames[:first]} == {"none"}


def test_a_triggered_line_that_is_blocked_does_not_show_its_last_good_part(folder: Path) -> None:
    with line(folder / "recipes", sinks=True, serve=0) as rig:
        event = rig.station.trigger(origin="test")
        rig.wait(lambda: not rig.station.waits_for(event.trigger_id), "a result")
        page = page_of(rig)
        rig.wait(lambda: page.screen()["part"] is not None, "the part on the page")
        assert (page.screen()["part"]["verdict"], page.screen()["halt"]) == ("good", None)
        rig.station.load_job(99)
        assert page.screen()["halt"] == {"why": "unknown_job", "reason": "there is no job 99"}
        assert page.state(source_index=0, after=0)["station"]["reason"] == "there is no job 99"


def test_a_recipe_whose_check_failed_is_checked_again_whatever_it_says(folder: Path) -> None:
    high = RecipeStore(folder=folder / "recipes").find("high")
    assert high is not None
    with line(folder / "recipes") as rig:
        failed_request(rig, folder)
        for _ in range(2):
            assert rig.station.load_job("high")
            rig.wait(lambda: not rig.station.status().job_loading, "the recipe")
            assert rig.station.status().check.name == "FAILED"
            assert not rig.station.status().trigger_ready
        write_image(high.golden / "good" / "150.png", part(150))
        change(rig, "high", "high")
        assert rig.station.status().check.name == "PASSED"
        assert rig.station.status().trigger_ready


def test_a_check_that_cannot_even_begin_has_failed_and_the_loop_goes_on(folder: Path) -> None:
    high = RecipeStore(folder=folder / "recipes").find("high")
    assert high is not None
    edit(high, "at_start = false", "at_start = true")
    with line(folder / "recipes") as rig:
        (high.golden / "expected.json").write_text("{")
        for ask in (rig.station.check_now, lambda: rig.station.load_job("high")):
            assert ask()
            rig.wait(lambda: rig.station.status().check.name == "FAILED", "the failure")
            rig.wait(lambda: not rig.station.status().job_loading, "the end of it")
        assert not rig.ended()
        event = rig.station.trigger(origin="test")
        assert not rig.station.waits_for(event.trigger_id)
        assert rig.results[-1].verdict == "no_inspection"
