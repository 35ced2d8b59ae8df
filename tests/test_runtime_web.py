"""The page's server without a browser: answers, refusals, viewers and what never leaks."""

import base64
import hashlib
import http.client
import json
import math
import re
import socket
import sys
import threading
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families
from runtime_frames import FakeView, make_result
from runtime_models import brightness_metadata

from edgeseg.errors import RuntimeFailure, UsageError
from edgeseg.runtime import live, pagehandler
from edgeseg.runtime.access import Access
from edgeseg.runtime.driftsink import DriftSink
from edgeseg.runtime.history import BUCKET_S, BUCKETS, ScoreHistory
from edgeseg.runtime.pageserver import MAX_CONNECTIONS
from edgeseg.runtime.redact import redact
from edgeseg.runtime.result import SourceEvent
from edgeseg.runtime.sources import parse_source
from edgeseg.runtime.web import PageSink

TOKEN = "a-token-of-the-test-0123456789"


class FakeRecorder:
    def __init__(self) -> None:
        self.active = False
        self.error: str | None = None

    def start(self) -> None:
        if self.error:
            raise RuntimeFailure(self.error)
        self.active = True

    def stop(self) -> None:
        self.active = False


class Site:
    """A page and a client for it."""

    def __init__(self, *, token: str | None = None, stale_after_s: float = 10.0) -> None:
        self.view, self.recorder, self.errors = FakeView(), FakeRecorder(), []
        metadata = brightness_metadata()
        self.drift = DriftSink(metadata)
        self.page = PageSink(
            metadata=metadata,
            view=self.view,
            on_error=lambda name, text: self.errors.append((name, text)),
            port=0,
            token=token,
            drift=self.drift,
            recorder=self.recorder,
            stale_after_s=stale_after_s,
        )
        self.port = urlsplit(self.page.url).port or 0

    def ask(
        self, path: str, *, method: str = "GET", body: str | None = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        """One request; `_` in a header's name stands for `-`."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body=body, headers=names)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, dict(answer.getheaders()), content

    def state(self, query: str = "") -> dict:
        return json.loads(self.ask(f"/state{query}")[2])


@pytest.fixture
def site() -> Iterator[Site]:
    started = Site()
    yield started
    started.page.close()
    assert started.errors == []


@pytest.fixture
def locked() -> Iterator[Site]:
    started = Site(token=TOKEN)
    yield started
    started.page.close()


def _wait(condition, what: str) -> None:
    deadline_s = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline_s, what
        time.sleep(0.005)


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
    assert {"".join(found).split(",")[0] for found in addresses} <= {
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
        "onnxruntime cpu",
        10.0,
    )
    assert state["stages"]["end_to_end"]["p99"] == 12.25
    assert state["errors"] == {"events": 3}
    assert state["accuracy"][0]["pro"] == 0.95
    source = state["sources"][0]
    assert (source["score"], source["verdict"], source["dropped"]) == (
        5.5,
        "good",
        {"overwritten": 100},
    )
    assert source["drift"]["level"] == "ok"
    assert "ratio_hw" not in source["drift"]
    assert [score for _, score, _ in state["scores"]] == [5.5]
    assert state["recording"] is False
    assert site.state("?source=7")["scores"] == []
    assert site.state("?source=-1&after=x")["scores"] != []


def test_an_invalid_score_is_null_not_nan(site: Site) -> None:
    site.page.on_frame(make_result(score=math.nan, alarm_started=True))
    state = site.state()
    assert state["sources"][0]["score"] is None
    assert state["scores"][0][1:] == [None, True]
    assert json.loads(site.ask("/events")[2])[0]["score"] is None


def test_alarms_keep_their_pictures(site: Site) -> None:
    for index in range(30):
        site.page.on_frame(make_result(score=20.0, alarm_started=True, frame_index=index))
        _wait(lambda index=index: len(site.state()["alarms"]) >= min(24, index + 1), "no card")
    alarms = site.state()["alarms"]
    assert len(alarms) == 24
    _wait(lambda: site.state()["alarms"][0]["frame_index"] == 29, "the last alarm comes first")
    status, headers, jpeg = site.ask(site.state()["alarms"][0]["picture"])
    assert (status, headers["Content-Type"], jpeg[:2]) == (200, "image/jpeg", b"\xff\xd8")
    assert site.ask("/alarms/1.jpg")[0] == 404  # forgotten
    for path in ("/alarms/../1.jpg", "/alarms/x.jpg", "/alarms/99999999999.jpg"):
        assert site.ask(path)[0] == 404


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
    site = Site(stale_after_s=5.0)
    try:
        assert site.ask("/healthz")[0] == 200
        site.view.last_scored_s = time.monotonic() - 6
        status, _, body = site.ask("/healthz")
        assert status == 503
        assert re.fullmatch(r"no frame scored for 6\.\d s, limit 5 s\n", body.decode())
        site.view.last_scored_s, site.view.uptime_s = None, 3.0
        assert site.ask("/healthz")[::2] == (200, b"starting\n")
        site.view.uptime_s = 5.5
        assert site.ask("/healthz")[::2] == (503, b"no frame scored for 5.5 s, limit 5 s\n")
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
    assert samples["edgeseg_drift_warning", source] == 0
    assert samples["edgeseg_drift_ratio", source] == pytest.approx(1.0)
    p99 = (("quantile", "0.99"), ("stage", "end_to_end"))
    assert samples["edgeseg_stage_seconds", p99] == pytest.approx(0.01225)
    assert samples["edgeseg_last_frame_age_seconds", ()] < 60


def test_drift_picture(site: Site) -> None:
    assert site.ask("/drift/0.jpg")[0] == 404
    result = make_result(grid_hw=np.full((4, 6), 100.0, np.float32))
    site.drift.on_frame(result)
    site.page.on_frame(result)
    status, _, jpeg = site.ask("/drift/0.jpg")
    assert (status, jpeg[:2]) == (200, b"\xff\xd8")


def _open_stream(site: Site, *, receive_bytes: int | None = None) -> socket.socket:
    viewer = socket.socket()
    if receive_bytes is not None:
        viewer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    viewer.settimeout(20)
    viewer.connect(("127.0.0.1", site.port))
    viewer.sendall(b"GET /stream.mjpg HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return viewer


def _read_jpegs(viewer: socket.socket, count: int) -> list[bytes]:
    file = viewer.makefile("rb")
    jpegs = []
    while len(jpegs) < count:
        line = file.readline()
        assert line, "the stream has ended"
        if line.lower().startswith(b"content-length:"):
            assert file.readline() == b"\r\n"
            jpegs.append(file.read(int(line.split(b":")[1])))
    return jpegs


def test_viewers_see_the_newest_frame(site: Site) -> None:
    site.page.on_frame(make_result())  # scored before anybody watched: shown at once
    viewers = [_open_stream(site) for _ in range(3)]
    first = [_read_jpegs(viewer, 1)[0] for viewer in viewers]
    assert first[0][:2] == b"\xff\xd8"
    assert first[0] == first[1] == first[2]
    assert site.state()["viewers"] == 3
    white = make_result(frame_hwc=np.full((48, 64, 3), 255, np.uint8))
    site.page.on_frame(white)
    assert all(_read_jpegs(viewer, 1)[0] != first[0] for viewer in viewers)
    for viewer in viewers:
        viewer.close()

    def gone() -> bool:
        site.page.on_frame(make_result())
        return site.state()["viewers"] == 0

    _wait(gone, "viewers that left are still counted")


def test_a_still_source_keeps_its_viewers_and_notices_their_end(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pagehandler, "_NEXT_FRAME_S", 0.02)
    waiting = _open_stream(site)  # before the first frame
    _wait(lambda: site.state()["viewers"] == 1, "a viewer")
    waiting.close()
    _wait(lambda: site.state()["viewers"] == 0, "left before the first frame")
    site.page.on_frame(make_result())
    viewer = _open_stream(site)
    first, again = _read_jpegs(viewer, 2)  # no new frame: the same picture again
    assert first == again
    viewer.close()
    _wait(lambda: site.state()["viewers"] == 0, "left while no frame came")
    assert site.ask("/stream.mjpg?source=1")[0] == 404


def test_nothing_is_encoded_without_viewers(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[int] = []
    encode = live.encode_jpeg
    monkeypatch.setattr(
        live, "encode_jpeg", lambda *args, **rest: encoded.append(1) or encode(*args, **rest)
    )
    for _ in range(50):
        site.page.on_frame(make_result())
    time.sleep(0.2)
    assert encoded == []
    viewer = _open_stream(site)
    _read_jpegs(viewer, 1)
    assert len(encoded) == 1
    viewer.close()


def test_a_viewer_that_does_not_read_slows_nobody(site: Site) -> None:
    rng = np.random.default_rng(0)
    noise = [rng.integers(0, 256, (480, 640, 3), dtype=np.uint8) for _ in range(7)]
    asleep = [_open_stream(site, receive_bytes=4096) for _ in range(3)]  # never read
    _wait(lambda: site.state()["viewers"] == 3, "three viewers")
    awake = _open_stream(site)
    stop, slowest = threading.Event(), [0.0]

    def score() -> None:
        index = 0
        while not stop.wait(0.005):
            begin = time.thread_time()  # not the clock: another process may hold the processor
            site.page.on_frame(make_result(frame_hwc=noise[index % 7], frame_index=index))
            slowest[0] = max(slowest[0], time.thread_time() - begin)
            index += 1

    scorer = threading.Thread(target=score)
    scorer.start()
    try:
        # Far more than the sleepers' buffers hold: their threads are stuck by now.
        jpegs = _read_jpegs(awake, 20)
    finally:
        stop.set()
        scorer.join(20)
    assert not scorer.is_alive()
    assert all(jpeg[:2] == b"\xff\xd8" for jpeg in jpegs)
    assert len(set(jpegs)) > 1
    assert slowest[0] < 0.05
    for viewer in (*asleep, awake):
        viewer.close()


def test_close_ends_streams_and_threads() -> None:
    before = set(threading.enumerate())
    site = Site()
    site.page.on_frame(make_result(score=20.0, alarm_started=True))
    viewer = _open_stream(site)
    _read_jpegs(viewer, 1)
    site.page.close()
    while viewer.recv(65536):
        pass
    _wait(lambda: not set(threading.enumerate()) - before, "a thread is left")
    with pytest.raises(OSError, match="refused"):
        site.ask("/")


def test_connections_are_limited(site: Site) -> None:
    crowd = []
    for _ in range(MAX_CONNECTIONS):
        client = socket.create_connection(("127.0.0.1", site.port), timeout=10)
        crowd.append(client)
    late = socket.create_connection(("127.0.0.1", site.port), timeout=10)
    assert late.recv(10) == b""  # closed at once
    for client in (*crowd, late):
        client.close()
    _wait(lambda: _works(site), "the page does not recover")


def _works(site: Site) -> bool:
    try:
        return site.ask("/healthz")[0] == 200
    except (OSError, http.client.HTTPException):
        return False


ACTION = {"method": "POST", "body": '{"active": true}'}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"X_Edgeseg": "1"}, 200),
        ({"X_Edgeseg": "1", "Origin": "http://HOST", "Sec_Fetch_Site": "same-origin"}, 200),
        ({}, 403),
        ({"X_Edgeseg": "1", "Origin": "http://evil.example"}, 403),
        ({"X_Edgeseg": "1", "Origin": "null"}, 403),
        ({"X_Edgeseg": "1", "Origin": "http://localhost:1"}, 403),
        ({"X_Edgeseg": "1", "Sec_Fetch_Site": "cross-site"}, 403),
        ({"X_Edgeseg": "1", "Sec_Fetch_Site": "same-site"}, 403),
        ({"X_Edgeseg": "1", "Host": "evil.example"}, 403),
    ],
)
def test_only_our_page_may_act(site: Site, headers: dict[str, str], status: int) -> None:
    own = {k: v.replace("HOST", f"127.0.0.1:{site.port}") for k, v in headers.items()}
    assert site.ask("/recording", **ACTION, **own)[0] == status
    assert site.recorder.active is (status == 200)


def test_recording_starts_stops_and_explains(site: Site) -> None:
    def act(body: str) -> tuple[int, dict]:
        status, _, answer = site.ask("/recording", method="POST", body=body, X_Edgeseg="1")
        return status, json.loads(answer)

    assert act('{"active": true}') == (200, {"active": True})
    assert act('{"active": true}') == (200, {"active": True})
    assert act('{"active": false}') == (200, {"active": False})
    site.recorder.error = "the disk is full"
    assert act('{"active": true}') == (409, {"error": "the disk is full"})
    site.recorder.start = lambda: 1 / 0  # type: ignore[method-assign]
    assert act('{"active": true}') == (500, {"error": "ZeroDivisionError"})
    for body in ("", "[]", "{}", '{"active": 1}', "\xff", "x" * 5000):
        assert act(body)[0] == 400
    assert site.ask("/other", **ACTION, X_Edgeseg="1")[0] == 404
    assert site.recorder.active is False


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:1234", 200),
        ("127.0.0.1:8080", 200),
        ("127.8.9.1", 200),
        ("[::1]:8080", 200),
        ("evil.example", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("192.168.1.4:8080", 403),
        ("", 403),
        ("[::1", 403),
    ],
)
def test_loopback_answers_to_loopback_names_only(site: Site, host: str, status: int) -> None:
    assert site.ask("/state", Host=host)[0] == status


def test_embedding_by_another_site_is_refused(site: Site) -> None:
    foreign = {"Sec_Fetch_Site": "cross-site"}
    assert site.ask("/stream.mjpg", **foreign, Sec_Fetch_Mode="no-cors")[0] == 403
    assert site.ask("/", **foreign, Sec_Fetch_Mode="navigate")[0] == 200


@pytest.mark.parametrize("path", ["/", "/state", "/events", "/metrics", "/stream.mjpg"])
def test_token_is_needed_everywhere(locked: Site, path: str) -> None:
    assert locked.ask(path, method="HEAD")[0] == 401
    assert locked.ask(path, method="HEAD", Authorization=f"Bearer {TOKEN[:-1]}")[0] == 401
    assert locked.ask(path, method="HEAD", Cookie=f"edgeseg={TOKEN}")[0] == 401
    assert locked.ask(path, method="HEAD", Authorization=f"bearer {TOKEN}")[0] == 200
    assert locked.ask("/healthz")[0] == 200


def test_token_in_the_address_becomes_a_cookie(locked: Site) -> None:
    status, headers, _ = locked.ask(f"/?token={TOKEN}")
    assert (status, headers["Location"]) == (303, "/")
    cookie = headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert TOKEN not in cookie
    pair = cookie.split(";")[0]
    assert locked.ask("/state", Cookie=f"a=b; {pair}")[0] == 200
    assert locked.ask("/state", Cookie=pair + "0")[0] == 401
    assert locked.ask(f"/state?token={TOKEN}")[0] == 200
    assert locked.ask("/recording", **ACTION)[0] == 403
    assert locked.ask("/recording", **ACTION, Cookie=pair)[0] == 403
    assert locked.ask("/recording", **ACTION, Cookie=pair, X_Edgeseg="1")[0] == 200


def test_login_form(locked: Site) -> None:
    form = {"method": "POST", "Content_Type": "application/x-www-form-urlencoded"}
    assert locked.ask("/login", body="token=wrong", **form)[0] == 401
    assert locked.ask("/login", body="", **form)[0] == 401
    status, headers, _ = locked.ask("/login", body=f"token={TOKEN}", **form)
    assert (status, headers["Location"]) == (303, "/")


def test_token_is_never_shown(locked: Site, capfd: pytest.CaptureFixture[str]) -> None:
    locked.page.on_frame(make_result(score=20.0, alarm_started=True))
    answers = [
        locked.ask(path, Authorization=f"Bearer {TOKEN}")[1:]
        for path in ("/", "/state", "/events", "/metrics", "/healthz", f"/?token={TOKEN}")
    ]
    assert TOKEN not in repr(answers)
    assert TOKEN not in repr(locked.page.access)
    assert TOKEN not in locked.page.url
    assert capfd.readouterr() == ("", "")  # no access log: request lines hold tokens
    assert locked.errors == []


@pytest.mark.parametrize("host", ["0.0.0.0", "", "192.168.1.4", "::", "factory.example"])
def test_other_addresses_need_a_token(host: str) -> None:
    with pytest.raises(UsageError, match=r"--serve on .*expected a token; give --token-file"):
        Access(host=host)
    Access(host=host, token=TOKEN)


@pytest.mark.parametrize("token", ["", "short", "fifteen-letters", "ä" * 20])
def test_weak_tokens_are_refused(token: str) -> None:
    with pytest.raises(UsageError, match="expected 16 or more of ASCII") as caught:
        Access(host="127.0.0.1", token=token)
    assert not token or token not in str(caught.value)


def test_a_taken_port_is_named(site: Site) -> None:
    with pytest.raises(
        RuntimeFailure, match=rf"cannot listen on 127.0.0.1:{site.port} \(Address already in use\)"
    ):
        PageSink(
            metadata=brightness_metadata(),
            view=site.view,
            on_error=lambda name, text: None,
            port=site.port,
        )


def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(RuntimeFailure, match=r"try: pip install 'edgeseg\[web\]'"):
        Site()


def test_garbage_is_answered_or_dropped(site: Site) -> None:
    for garbage in (b"\x16\x03\x01\x02", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\0" * 70000):
        client = socket.create_connection(("127.0.0.1", site.port), timeout=15)
        client.sendall(garbage)
        client.shutdown(socket.SHUT_WR)
        while client.recv(65536):
            pass
        client.close()
    assert site.ask("/healthz")[0] == 200


def test_camera_credentials_reach_no_answer(site: Site) -> None:
    name = parse_source("rtsp://admin:hunter2@10.0.0.9:554/stream1?token=abcdef0123").name
    site.view.names = [name]
    reason = redact("cannot open rtsp://admin:hunter2@10.0.0.9:554/stream1")
    site.page.on_source(
        SourceEvent(
            kind="source_lost",
            source=name,
            source_index=0,
            wall_s=1.0,
            monotonic_s=1.0,
            reason=reason,
        )
    )
    answers = [site.ask(path)[2].decode() for path in ("/", "/state", "/events", "/metrics")]
    assert "10.0.0.9" in answers[1]
    for secret in ("hunter2", "admin", "abcdef0123"):
        assert all(secret not in answer for answer in answers)


def test_history_is_the_maximum_of_each_bucket() -> None:
    rng = np.random.default_rng(0)
    history = ScoreHistory()
    times = np.sort(rng.uniform(0, 400, 5000))
    scores = rng.gamma(2, 3, 5000)
    for moment, score in zip(times, scores, strict=True):
        history.add(make_result(score=float(score), wall_s=float(moment)))
    expected: dict[int, float] = {}
    for moment, score in zip(times, scores, strict=True):
        bucket = int(moment / BUCKET_S)
        expected[bucket] = max(expected.get(bucket, 0.0), score)
    kept = sorted(expected)[-BUCKETS:]
    assert history.since(0) == [[b, expected[b], bool(expected[b] > 10)] for b in kept]
    assert history.since(kept[-3])[0][0] == kept[-3]


def test_history_survives_a_clock_set_back() -> None:
    history = ScoreHistory()
    for moment, score in ((100.0, 1.0), (50.0, 20.0), (100.3, 2.0)):
        history.add(make_result(score=score, wall_s=moment))
    assert history.since(0) == [[400, 20.0, True], [401, 2.0, False]]
