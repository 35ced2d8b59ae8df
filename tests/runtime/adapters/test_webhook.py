"""Results to somebody else's server: signed, in order, tried again, given up and counted."""

import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from edgeseg.base.errors import EdgesegError
from edgeseg.runtime.adapters import webhook
from edgeseg.runtime.settings.adapter_kinds import WebhookOptions
from tests.doubles.fakes import BrightnessSession, Canned, grey, opens
from tests.doubles.rig import Rig


class Receiver:
    """Keeps what it is sent, and answers as it is told."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.answers: list[int] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = receiver.answers.pop(0) if receiver.answers else 200
                if status == 200:
                    receiver.bodies.append(body)
                    receiver.headers.append(dict(self.headers))
                self.send_response(status)
                self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/results"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setattr(webhook, "_FIRST_PAUSE_S", 0.01)
    made = Receiver()
    yield made
    made.close()


def run(url: str, images: int, **values: object) -> Rig:
    """As many parts as there are images, then the end."""
    opener = opens(Canned([grey(10)] * images))
    options = {"trigger": "hardware", "webhook": url, **values}
    with Rig(BrightnessSession(), options, live=False, opener=opener) as line:
        line.wait(lambda: len(line.results) == images, "results")
    return line


def test_every_result_arrives_in_order_and_signed(receiver: Receiver, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("hunter2\n")
    line = run(receiver.url, 5, webhook_secret_file=tmp_path / "key")
    results = [json.loads(body) for body in receiver.bodies]
    assert [result["trigger_id"] for result in results] == [1, 2, 3, 4, 5]
    assert {result["run_id"] for result in results} == {line.station.run_id}
    for body, headers in zip(receiver.bodies, receiver.headers, strict=True):
        signed = headers["X-Edgeseg-Timestamp"].encode() + b"." + body
        digest = hmac.new(b"hunter2", signed, hashlib.sha256).hexdigest()
        assert headers["X-Edgeseg-Signature"] == f"sha256={digest}"
    assert line.faults.totals() == {}


def test_a_receiver_that_stumbles_gets_it_again(receiver: Receiver) -> None:
    receiver.answers = [500, 503]
    line = run(receiver.url, 2)
    assert [json.loads(body)["trigger_id"] for body in receiver.bodies] == [1, 2]
    assert line.faults.totals() == {"webhook_retry": 2}
    assert "X-Edgeseg-Signature" not in receiver.headers[0]


@pytest.mark.parametrize(("answers", "tries"), [([500] * 4, 3), ([404], 0), ([302], None)])
def test_what_cannot_be_delivered_is_counted_and_the_next_one_sent(
    receiver: Receiver, answers: list[int], tries: int | None
) -> None:
    receiver.answers = answers * (4 if tries is None else 1)
    line = run(receiver.url, 2)
    assert [json.loads(body)["trigger_id"] for body in receiver.bodies] == [2]
    assert line.faults.totals()["webhook"] == 1
    assert line.faults.totals().get("webhook_retry", 0) == (3 if tries is None else tries)


def test_nobody_there_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "_FIRST_PAUSE_S", 0.001)
    line = run("http://127.0.0.1:1/x", 3)
    assert line.faults.totals() == {"webhook": 3, "webhook_retry": 9}


def test_options_check_themselves() -> None:
    with pytest.raises(EdgesegError, match="webhook: expected an address with http:// or https://"):
        WebhookOptions(webhook="file:///etc/passwd")
    with pytest.raises(EdgesegError, match="webhook_secret_file=k: add webhook=URL"):
        WebhookOptions(webhook_secret_file=Path("k"))
