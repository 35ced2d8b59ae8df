"""Triggers and results over HTTP, for programs.

POST /trigger {"part_id": "...", "request": "...", "sent": 1.7e9}   -> the id; ?wait=1: the result
GET /result, /result?id=7                               -> the last one, or that one
GET /state    POST /job {"job": 3}    POST /part {"part_id": "..."}
POST /check                                             -> 202; ?wait=1: passed or failed
"""

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, urlsplit

from edgeseg.contract.plain import parse_json
from edgeseg.runtime.adapters.seen_requests import MAX_REQUEST, RequestReused, SeenRequests
from edgeseg.runtime.station.age import moment_ns, read_sent
from edgeseg.runtime.station.codes import CheckAnswer
from edgeseg.runtime.station.records import StationResult, StationWords, TriggerEvent
from edgeseg.runtime.station.station import Station
from edgeseg.runtime.web.access import ACTION_HEADER, Access
from edgeseg.runtime.web.bounded_server import BoundedHandler, BoundedServer
from edgeseg.runtime.web.routes import MAX_BODY, Refused

KEPT = 4096  # results that may still be asked for
CHECK_S = 60.0  # that an answer waits for the end of a check
_LOOK_S = 0.02


class HttpService:
    """Serves from construction until close."""

    name = "http"

    def __init__(
        self,
        station: Station,
        *,
        host: str,
        port: int,
        token: str | None,
        may_trigger: bool,
        wait_s: float,
        on_error: Callable[[str, str], None],
    ) -> None:
        self.access = Access(host=host, token=token)
        self.station, self.may_trigger = station, may_trigger
        self._wait_s = wait_s
        self._requests = SeenRequests()
        self._results: OrderedDict[int, StationResult] = OrderedDict()
        self._changed = threading.Condition()
        station.subscribe(self._take)
        self._server = _Server(self, host=host, port=port, on_error=on_error)
        self._server.start()
        self.port = self._server.server_port

    def _take(self, result: StationResult) -> None:
        with self._changed:
            self._results[result.trigger.trigger_id] = result
            while len(self._results) > KEPT:
                self._results.popitem(last=False)
            self._changed.notify_all()

    def trigger(self, part_id: str, request: str, *, at_ns: int) -> int:
        """The id of the trigger; a request that came before is the same one."""

        def take() -> TriggerEvent:
            return self.station.trigger(
                origin=self.name, part_id=part_id, request=request, at_ns=at_ns
            )

        job = self.station.current_job
        return self._requests.once(request, take, part_id=part_id, job=job)[0]

    def result(self, trigger_id: int, *, wait: bool) -> StationResult | None:
        """The result of a trigger; None: not yet, or no longer."""
        deadline_s = time.monotonic() + (self._wait_s if wait else 0.0)
        with self._changed:
            while (found := self._results.get(trigger_id)) is None:
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:  # a trigger that has ended may not be delivered yet: wait for it
                    return None
                self._changed.wait(left_s)
            return found

    def check_now(self, *, wait: bool) -> StationWords | None:
        """Ask for the golden check; None: refused."""
        if not self.station.check_now():
            return None
        deadline_s = time.monotonic() + (CHECK_S if wait else 0.0)
        while (words := self.station.words()).check_answer == CheckAnswer.RUNNING:
            if time.monotonic() > deadline_s:
                break
            time.sleep(_LOOK_S)
        return words

    def last(self) -> StationResult | None:
        """The newest result."""
        with self._changed:
            return next(reversed(self._results.values()), None)

    def close(self) -> None:
        """Stop serving."""
        self._server.stop()


class _Server(BoundedServer):
    def __init__(
        self, service: HttpService, *, host: str, port: int, on_error: Callable[[str, str], None]
    ) -> None:
        self.service = service
        super().__init__(
            _Handler, name="http", setting="http", host=host, port=port, on_error=on_error
        )


class _Handler(BoundedHandler):
    """One connection."""

    server: _Server
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        """Answer a read."""
        service, url = self.server.service, urlsplit(self.path)
        if not service.access.may_read(self.headers):
            return self._refuse()
        if url.path == "/state":
            return self._json(HTTPStatus.OK, service.station.words().facts())
        if url.path != "/result":
            return self._error(HTTPStatus.NOT_FOUND, "expected /result or /state")
        wanted = parse_qs(url.query).get("id", [""])[0]
        if not wanted:
            return self._result(service.last())
        if not wanted.isdecimal() or len(wanted) > 10:
            return self._error(HTTPStatus.BAD_REQUEST, "id: expected the number of a trigger")
        return self._result(service.result(int(wanted), wait=False))

    def do_POST(self) -> None:
        """Answer an action."""
        service, url = self.server.service, urlsplit(self.path)
        try:
            body = self._body()
        except Refused as refusal:
            return self._error(refusal.status, str(refusal))
        if not service.access.may_act(self.headers):
            return self._refuse()
        try:
            values = parse_json(body or b"{}")
            if not isinstance(values, dict):
                raise TypeError
            if url.path == "/trigger":
                return self._trigger(service, values, wait="wait" in parse_qs(url.query))
            if url.path == "/job":
                return self._load(service, values["job"])
            if url.path == "/part":
                return self._announce(service, values["part_id"])
        except (ValueError, TypeError, KeyError):
            expected = (
                '{"part_id": "...", "request": "...", "sent": SECONDS}, or {"job": 3} for /job'
            )
            return self._error(HTTPStatus.BAD_REQUEST, f"expected {expected}")
        if url.path == "/check":
            return self._check(service, wait="wait" in parse_qs(url.query))
        return self._error(HTTPStatus.NOT_FOUND, "expected /trigger, /part, /job or /check")

    def _trigger(self, service: HttpService, values: dict[str, Any], *, wait: bool) -> None:
        part_id, request = values.get("part_id", ""), values.get("request", "")
        texts = isinstance(part_id, str) and isinstance(request, str)
        if not texts or len(request) > MAX_REQUEST:
            raise TypeError
        at_ns = moment_ns(self.came_ns, read_sent(values.get("sent")))
        if not service.may_trigger:
            sentence = "a trigger over HTTP is refused; start with --trigger http"
            return self._error(HTTPStatus.CONFLICT, sentence)
        try:
            trigger_id = service.trigger(part_id, request, at_ns=at_ns)
        except RequestReused as refusal:
            return self._error(HTTPStatus.CONFLICT, str(refusal))
        if wait:
            return self._result(service.result(trigger_id, wait=True))
        facts = {"run_id": service.station.run_id, "trigger_id": trigger_id}
        return self._json(HTTPStatus.ACCEPTED, facts)

    def _load(self, service: HttpService, job: object) -> None:
        if isinstance(job, bool) or not isinstance(job, int | str):
            raise TypeError
        accepted = service.station.load_job(job)
        status = HTTPStatus.ACCEPTED if accepted else HTTPStatus.NOT_FOUND
        return self._json(status, {"accepted": accepted})

    def _announce(self, service: HttpService, part_id: object) -> None:
        if not isinstance(part_id, str):
            raise TypeError
        if not service.station.announce(part_id):
            sentence = "a part id before its trigger is for --trigger hardware and part"
            return self._error(HTTPStatus.CONFLICT, sentence)
        return self._json(HTTPStatus.ACCEPTED, {"accepted": True})

    def _check(self, service: HttpService, *, wait: bool) -> None:
        words = service.check_now(wait=wait)
        if words is None:
            sentence = "nothing can be checked now: no golden pictures, or a recipe is being loaded"
            return self._error(HTTPStatus.CONFLICT, sentence)
        done = words.check_answer != CheckAnswer.RUNNING
        return self._json(HTTPStatus.OK if done else HTTPStatus.ACCEPTED, words.facts())

    def _result(self, result: StationResult | None) -> None:
        if result is None:
            return self._error(HTTPStatus.NOT_FOUND, "no such result, or not yet")
        return self._json(HTTPStatus.OK, result.facts())

    def _refuse(self) -> None:
        expected = f"expected the token (Authorization: Bearer) and, to act, {ACTION_HEADER}: 1"
        return self._error(HTTPStatus.FORBIDDEN, expected)

    def _body(self) -> bytes:
        if self.length is None or self.length > MAX_BODY:
            raise Refused(HTTPStatus.BAD_REQUEST, "expected a short body with its length")
        return self.take_body(self.length)

    def _error(self, status: HTTPStatus, sentence: str) -> None:
        self._json(status, {"error": sentence})

    def _json(self, status: HTTPStatus, value: object) -> None:
        body = json.dumps(value, allow_nan=False).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing: headers can hold the token."""
