"""POST /trigger and GET /result, who may, and what a wrong request gets."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from edgeseg.base.errors import EdgesegError
from edgeseg.runtime.adapters.http_service import HttpService
from edgeseg.runtime.settings.adapter_kinds import HttpOptions
from edgeseg.runtime.station.records import StationResult
from edgeseg.runtime.station.station import Station
from tests.doubles.fakes import BrightnessSession
from tests.doubles.rig import Rig
from tests.support import HANGS_S
from tests.support.http_client import ask, send_raw

TOKEN = "a-token-of-some-length"


@pytest.fixture
def line() -> Iterator[Rig]:
    with Rig(BrightnessSession(), {"trigger": "http", "http": "0"}) as running:
        yield running


def test_a_trigger_and_its_result(line: Rig) -> None:
    assert ask(line, "GET", "/result") == (404, {"error": "no such result, or not yet"})
    status, told = ask(line, "POST", "/trigger", {"part_id": "A1"})
    assert (status, told) == (202, {"run_id": line.station.run_id, "trigger_id": 1})
    line.wait(lambda: len(line.results) == 1, "the result")
    for path in ("/result", "/result?id=1"):
        status, result = ask(line, "GET", path)
        assert (status, result["part_id"], result["verdict"]) == (200, "A1", "good")
    assert ask(line, "GET", "/result?id=2")[0] == 404
    assert ask(line, "GET", "/state")[1]["trigger_id"] == 1


def test_waiting_for_the_result_and_asking_again(line: Rig) -> None:
    line.camera.level = 250
    for _ in range(2):  # the second after a lost answer
        status, result = ask(line, "POST", "/trigger?wait=1", {"request": "r-1"})
        assert (status, result["trigger_id"], result["verdict"]) == (200, 1, "defect")
        assert result["request"] == "r-1"
    assert len(line.results) == 1


def test_a_request_of_another_part_gets_no_old_verdict(line: Rig) -> None:
    first = {"part_id": "A1", "request": "r-1"}
    assert ask(line, "POST", "/trigger?wait=1", first)[1]["verdict"] == "good"
    line.camera.level = 250
    status, told = ask(line, "POST", "/trigger?wait=1", {"part_id": "B2", "request": "r-1"})
    assert status == 409
    assert told["error"].startswith("request 'r-1' was used for part 'A1', now 'B2'")
    assert len(line.results) == 1


def test_a_trigger_that_was_sent_long_ago_is_not_inspected(line: Rig) -> None:
    status, old = ask(line, "POST", "/trigger?wait=1", {"sent": time.time() - 60})
    assert (status, old["verdict"], old["error"]) == (200, "no_inspection", "timeout")
    assert old["latency_ms"] >= 60_000
    assert ask(line, "POST", "/trigger?wait=1", {"sent": time.time()})[1]["verdict"] == "good"
    assert ask(line, "POST", "/trigger?wait=1", {"sent": "noon"})[0] == 400


def test_a_trigger_that_waited_behind_another_is_as_old_as_its_message(line: Rig) -> None:
    """Two in one packet: the second waits until the first has its result."""
    head = "POST /trigger?wait=1 HTTP/1.1\r\nHost: localhost\r\nX-Edgeseg: 1\r\nContent-Length: 2"
    answer = send_raw(line.adapter("http").port, 2 * (head.encode() + b"\r\n\r\n{}"))
    assert answer.count(b" 200 OK") == 2
    first, second = line.results
    assert first.trigger.monotonic_ns == second.trigger.monotonic_ns
    assert second.latency_ms > first.latency_ms


@pytest.mark.parametrize("sent", [b"", b'{"part_id": "A1"'], ids=["none of it", "half"])
def test_a_request_cut_before_its_body_triggers_nothing(line: Rig, sent: bytes) -> None:
    head = "POST /trigger?wait=1 HTTP/1.1\r\nHost: localhost\r\nX-Edgeseg: 1\r\nContent-Length: 40"
    answer = send_raw(line.adapter("http").port, head.encode() + b"\r\n\r\n" + sent)
    assert b" 400 " in answer.splitlines()[0]
    assert line.station.status().triggers == 0


def test_a_body_in_chunks_triggers_nothing(line: Rig) -> None:
    """It would be read as no body, and its part's name as the next request."""
    head = "POST /trigger HTTP/1.1\r\nHost: localhost\r\nX-Edgeseg: 1\r\nTransfer-Encoding: chunked"
    body = b'11\r\n{"part_id": "A1"}\r\n0\r\n\r\n'
    answer = send_raw(line.adapter("http").port, head.encode() + b"\r\n\r\n" + body)
    assert b" 400 " in answer.splitlines()[0]
    assert answer.count(b"HTTP/1.1") == 1
    assert line.station.status().triggers == 0


def test_jobs(line: Rig) -> None:
    assert ask(line, "POST", "/job", {"job": 7}) == (404, {"accepted": False})
    assert ask(line, "GET", "/state")[1]["reason"] == "there is no job 7"
    status, result = ask(line, "POST", "/trigger?wait=1", {})
    assert (status, result["verdict"], result["error"]) == (200, "no_inspection", "unknown_job")
    assert ask(line, "POST", "/job", {"job": 0}) == (202, {"accepted": True})


def test_a_result_on_its_way_is_waited_for() -> None:
    station = Station()
    late = threading.Event()  # a listener before the service, which has not returned yet
    station.events.subscribe(StationResult, lambda result: late.wait(HANGS_S), name="test")
    service = HttpService(
        station,
        host="127.0.0.1",
        port=0,
        token=None,
        may_trigger=True,
        wait_s=30.0,
        on_error=lambda name, message: None,
    )
    try:
        station.start()
        trigger_id = station.trigger(origin="test").trigger_id
        ending = threading.Thread(target=station.stop)
        ending.start()
        with ThreadPoolExecutor(1) as pool:
            while station.waits_for(trigger_id):
                time.sleep(0.001)
            asked = pool.submit(service.result, trigger_id, wait=True)
            assert not asked.done()
            late.set()
            found = asked.result(timeout=HANGS_S)
        ending.join()
        assert found is not None
        assert found.trigger.trigger_id == trigger_id
    finally:
        late.set()
        service.close()


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/trigger", "{", 400),
        ("POST", "/trigger", "[]", 400),
        ("POST", "/trigger", {"part_id": 3}, 400),
        ("POST", "/trigger", {"request": "x" * 65}, 400),
        ("POST", "/trigger", "x" * 5000, 400),
        ("POST", "/job", {}, 400),
        ("POST", "/job", {"job": True}, 400),
        ("POST", "/nothing", {}, 404),
        ("GET", "/nothing", None, 404),
        ("GET", "/result?id=x", None, 400),
    ],
)
def test_wrong_requests_trigger_nothing(
    line: Rig, method: str, path: str, body: object, status: int
) -> None:
    found, told = ask(line, method, path, body)
    assert found == status
    assert "error" in told
    assert line.station.status().triggers == 0


def test_another_site_cannot_trigger(line: Rig) -> None:
    for headers in ({"Origin": "http://evil.example"}, {"Host": "evil.example"}):
        assert ask(line, "POST", "/trigger", {}, headers)[0] == 403
    assert line.station.status().triggers == 0


def test_with_a_token_nobody_else_gets_in(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    values = {"trigger": "http", "http": "0", "http_token_file": tmp_path / "token"}
    with Rig(BrightnessSession(), values) as line:
        for method, path in (("GET", "/result"), ("GET", "/state"), ("POST", "/trigger")):
            assert ask(line, method, path)[0] == 403
            assert ask(line, method, path, headers={"Authorization": "Bearer wrong"})[0] == 403
        right = {"Authorization": f"Bearer {TOKEN}"}
        assert ask(line, "POST", "/trigger?wait=1", {}, right)[0] == 200


def test_without_the_right_to_trigger() -> None:
    with Rig(BrightnessSession(), {"http": "0"}) as line:
        status, told = ask(line, "POST", "/trigger", {})
    assert (status, told) == (
        409,
        {"error": "a trigger over HTTP is refused; start with --trigger http"},
    )


def test_options_check_themselves() -> None:
    with pytest.raises(EdgesegError, match="http='x': expected PORT or HOST:PORT"):
        HttpOptions(http="x")
    with pytest.raises(EdgesegError, match="http_token_file=t: add http=PORT"):
        HttpOptions(http_token_file=Path("t"))
    with pytest.raises(EdgesegError, match="everyone on the network could watch"):
        Rig(BrightnessSession(), {"trigger": "http", "http": "0.0.0.0:0"})
