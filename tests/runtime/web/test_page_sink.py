"""The page's server without a browser: its answers."""

import base64
import hashlib
import json
import math
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from edgeseg.base.errors import RuntimeFailure
from edgeseg.runtime.drift.position import Movement
from edgeseg.runtime.events.records import SourceEvent
from edgeseg.runtime.web.page_sink import PageSink
from tests.doubles.fakes import wait
from tests.support.brightness_model import brightness_metadata
from tests.support.page_site import Site, running
from tests.support.scored_frames import make_result


@pytest.fixture
def site() -> Iterator[Site]:
    with running() as started:
        yield started


def test_page_is_one_file_whose_own_script_alone_may_run(site: Site) -> None:
    status, headers, html = site.ask("/")
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'")
    for tag in (b"script", b"style"):
        (body,) = re.findall(b"<%s>(.*)</%s>" % (tag, tag), html, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(body).digest()).decode()
        assert f"{tag.decode()}-src 'sha256-{digest}'" in policy
    text = html.decode()
    assert "style=" not in text.split("<script>")[0]  # the policy forbids it
    # Works without internet: nothing is loaded from anywhere else.
    addresses = re.findall(r"(?:src|href)=\"([^\"]+)\"|url\(([^)]+)\)|https?://([^\s'\"]+)", text)
    assert {"".join(address).split(",")[0] for address in addresses} <= {
        "data:image/svg+xml",
        "www.w3.org/2000/svg",
    }


@pytest.mark.parametrize("path", ["/", "/state", "/events", "/metrics", "/healthz", "/nothing"])
def test_headers_of_every_answer(site: Site, path: str) -> None:
    _, headers, body = site.ask(path)
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "Python" not in headers["Server"]
    _, head_headers, head_body = site.ask(path, method="HEAD")
    assert head_body == b""
    if path in ("/", "/nothing"):
        assert head_headers["Content-Length"] == str(len(body))


def test_state_holds_the_numbers_of_the_run(site: Site) -> None:
    site.view.errors = {"events": 3}
    result = make_result(score=5.5, grid_hw=np.full((4, 6), 100.0, np.float32))
    site.drift.on_frame(result)
    site.page.on_frame(result)
    state = site.state()
    assert (state["model"], state["backend"], state["threshold"]) == (
        "bottle",
        "onnxruntime cpu, float32",
        10.0,
    )
    assert state["stages"]["end_to_end"]["p99"] == 12.25
    assert state["errors"] == {"events": 3}
    assert state["accuracy"][0]["pro"] == 0.95
    source = state["sources"][0]
    assert source["dropped"] == {"overwritten": 100}
    assert source["drift"]["level"] == "unseen"
    assert source["drift"]["message"] == "not yet known: 0 of 200 frames"
    assert "ratio_hw" not in source["drift"]
    assert [score for _, score, _ in state["scores"]] == [5.5]
    assert state["recording"] is False
    assert site.state("?source=7")["scores"] == []
    assert site.state("?source=-1&after=x")["scores"] != []


def test_how_odd_a_part_is_in_words(site: Site) -> None:
    site.page.on_frame(make_result(score=5.5))
    unknown = site.screen()["part"]
    assert (unknown["p_value"], unknown["oddness"]) == (None, None)
    odd = make_result(score=20.0, alarm_started=True, p_value=0.0125, frame_index=1)
    site.page.on_frame(odd)
    wait(lambda: bool(site.rejects()["items"]), "the reject is listed")
    wait(lambda: site.screen()["part"]["id"] == odd.key, "the newest part")
    words = "one good part in 80 looks this odd"
    part = site.screen()["part"]
    assert (part["p_value"], part["oddness"]) == (0.0125, words)
    assert part["oddness_said"]["values"] == {"n": 80}
    assert site.rejects()["items"][0]["oddness"] == words


def test_an_invalid_score_is_null_not_nan(site: Site) -> None:
    site.page.on_frame(make_result(score=math.nan, alarm_started=True))
    assert site.screen()["part"]["score"] is None
    assert site.screen()["held"]["verdict"] == "invalid"
    assert site.state()["scores"][0][1:] == [None, True]
    assert json.loads(site.ask("/events")[2])[0]["score"] is None


def test_events_are_numbered_and_can_be_continued(site: Site) -> None:
    for kind in ("source_lost", "source_back"):
        site.page.on_source(
            SourceEvent(kind=kind, source="cam", source_index=0, wall_s=1.0, monotonic_s=1.0)
        )
    site.page.on_frame(make_result(score=20.0, alarm_started=True))
    site.page.on_frame(make_result(score=20.0, alarm=True))
    events = json.loads(site.ask("/events")[2])
    assert [(e["number"], e["event"]) for e in events] == [
        (1, "source_lost"),
        (2, "source_back"),
        (3, "alarm"),
    ]
    assert [e["number"] for e in json.loads(site.ask("/events?after=2")[2])] == [3]


def test_health_fails_without_frames() -> None:
    site = Site(stale_after_s=1000.0)  # more than any computer needs for this test
    try:
        assert site.ask("/healthz")[0] == 200
        site.view.last_scored_s = time.monotonic() - 1010
        status, _, body = site.ask("/healthz")
        assert status == 503
        assert re.fullmatch(r"no frame scored for 1\d{3}\.\d s, limit 1000 s\n", body.decode())
        site.view.last_scored_s, site.view.uptime_s = None, 3.0
        assert site.ask("/healthz")[::2] == (200, b"starting\n")
        site.view.uptime_s = 1000.5
        assert site.ask("/healthz")[::2] == (503, b"no frame scored for 1000.5 s, limit 1000 s\n")
    finally:
        site.page.close()


def test_health_of_a_station_is_its_camera_and_not_its_last_part() -> None:
    site = Site(stale_after_s=1000.0)
    try:
        site.view.on_demand = True
        site.view.last_scored_s, site.view.uptime_s = None, 5000.0
        assert site.ask("/healthz")[::2] == (200, b"ok, waits for triggers\n")
        assert site.page.state(source_index=0, after=0)["stale_after_s"] is None
        site.view.connected = False
        assert site.ask("/healthz")[::2] == (503, b"lost: camera 0\n")
        site.view.uptime_s = 3.0
        assert site.ask("/healthz")[::2] == (200, b"starting\n")
    finally:
        site.page.close()


def test_metrics_are_valid_and_equal_the_snapshot(site: Site) -> None:
    result = make_result(grid_hw=np.full((4, 6), 100.0, np.float32))
    site.view.errors = {"video": 2}
    site.view.names = ['a "quoted" \\ name\n']
    site.drift.on_frame(result)
    _, headers, body = site.ask("/metrics")
    assert headers["Content-Type"].startswith("text/plain")
    samples = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    }
    source = (("index", "0"), ("source", 'a "quoted" \\ name\n'))
    assert samples["edgeseg_frames_in_total", source] == 1000
    assert samples["edgeseg_frames_scored_total", source] == 900
    assert samples["edgeseg_frames_dropped_total", (("cause", "overwritten"), *source)] == 100
    assert samples["edgeseg_verdicts_total", (*source, ("verdict", "defect"))] == 20
    assert samples["edgeseg_errors_total", (("cause", "video"),)] == 2
    assert samples["edgeseg_drift_known", source] == 0
    assert not any(name == "edgeseg_drift_warning" for name, _ in samples)
    p99 = (("quantile", "0.99"), ("stage", "end_to_end"))
    assert samples["edgeseg_stage_seconds", p99] == pytest.approx(0.01225)
    assert samples["edgeseg_last_frame_age_seconds", ()] < 60


def test_page_and_metrics_say_whether_camera_or_parts_moved(site: Site) -> None:
    site.drift.on_frame(make_result(grid_hw=np.full((4, 6), 100.0, np.float32)))
    moved = Movement(right=0.05, down=0.0, turn=0.0)
    state = replace(site.drift.states[0], level="warn", kind="parts", parts=moved)
    site.drift.states[0] = state
    body = site.ask("/metrics")[2].decode()
    assert 'edgeseg_drift_kind{index="0",kind="parts",source="camera 0"} 1.0' in body
    assert 'edgeseg_drift_kind{index="0",kind="camera",source="camera 0"} 0.0' in body
    drift = site.page.state(source_index=0, after=0)["sources"][0]["drift"]
    assert (drift["kind"], drift["parts"]["right"]) == ("parts", 0.05)


def test_metrics_say_whether_drift_is_known(site: Site) -> None:
    grid_hw = np.full((4, 6), 100.0, np.float32)
    for _ in range(200):
        site.drift.on_frame(make_result(grid_hw=grid_hw))
    body = site.ask("/metrics")[2].decode()
    assert 'edgeseg_drift_known{index="0",source="camera 0"} 1.0' in body
    assert 'edgeseg_drift_kind{index="0",kind="none",source="camera 0"} 1.0' in body
    lost = SourceEvent(
        kind="source_lost", source="camera 0", source_index=0, wall_s=0.0, monotonic_s=0.0
    )
    site.drift.on_source(lost)
    body = site.ask("/metrics")[2].decode()
    assert 'edgeseg_drift_known{index="0",source="camera 0"} 0.0' in body
    assert "edgeseg_drift_kind{" not in body
    assert "edgeseg_drift_warning{" not in body


def test_drift_picture(site: Site) -> None:
    assert site.ask("/drift/0.jpg")[0] == 404
    result = make_result(grid_hw=np.full((4, 6), 100.0, np.float32))
    site.drift.on_frame(result)
    site.page.on_frame(result)
    status, _, jpeg = site.ask("/drift/0.jpg")
    assert (status, jpeg[:2]) == (200, b"\xff\xd8")


def test_a_taken_port_is_named(site: Site) -> None:
    listening = rf"^serve={site.port}: cannot listen on 127.0.0.1:{site.port} "
    with pytest.raises(RuntimeFailure, match=rf"{listening}\(Address already in use\)"):
        PageSink(
            metadata=brightness_metadata(),
            view=site.view,
            counters=site.counters,
            on_error=lambda name, text: None,
            host="127.0.0.1",
            port=site.port,
            stale_after_s=10.0,
        )


def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(RuntimeFailure, match=r"try: pip install 'edgeseg\[web\]'"):
        Site()
