"""Triggers and results over HTTP, for programs.

POST /trigger {"part_id": "...", "request": "...", "sent": 1.7e9}   -> the id; ?wait=1: the result
GET /result, /result?id=7                               -> the last one, or that one
GET /state    POST /job {"job": 3}    POST /part {"part_id": "..."}
POST /check                                             -> 202; ?wait=1: passed or failed
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from http import HTTPStatus

from edgeseg.base.plain import parse_json
from edgeseg.runtime.adapters.seen_requests import MAX_REQUEST, SeenRequests
from edgeseg.runtime.events.codes import CheckAnswer
from edgeseg.runtime.station.age import moment_ns, read_sent
from edgeseg.runtime.station.records import StationResult, StationStatus
from edgeseg.runtime.station.station import Station
from edgeseg.runtime.web.access import Access
from edgeseg.runtime.web.routes import Answer, Refused, Request, Route, json_answer
from edgeseg.runtime.web.site_server import SiteServer

KEPT = 4096  # results that may still be asked for
CHECK_S = 60.0  # that an answer waits for the end of a check
_LOOK_S = 0.02
_EXPECTED = '{"part_id": "...", "request": "...", "sent": SECONDS}, or {"job": 3} for /job'


class HttpService:
    """A service for programs, from construction until close."""

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
        self.station, self.may_trigger = station, may_trigger
        self._wait_s = wait_s
        self._requests = SeenRequests()
        self._results: OrderedDict[int, StationResult] = OrderedDict()
        self._changed = threading.Condition()
        station.events.subscribe(StationResult, self._take, name=self.name)
        self._server = SiteServer(
            routes_of(self),
            access=Access(host=host, token=token),
            port=port,
            on_error=on_error,
            name=self.name,
            setting=self.name,
            for_people=False,
        )
        self._server.start()
        self.port = self._server.server_port

    def _take(self, result: StationResult) -> None:
        with self._changed:
            self._results[result.trigger.trigger_id] = result
            while len(self._results) > KEPT:
                self._results.popitem(last=False)
            self._changed.notify_all()

    def trigger(self, part_id: str, request: str, *, at_ns: int) -> int:
        """Trigger the station and return the trigger's id; a repeated request gets the same id."""
        return self._requests.trigger(
            self.station, origin=self.name, part_id=part_id, request=request, at_ns=at_ns
        )[0]

    def result(self, trigger_id: int, *, wait: bool) -> StationResult | None:
        """Return the result of a trigger; None if there is none yet, or no longer."""
        deadline_s = time.monotonic() + (self._wait_s if wait else 0.0)
        with self._changed:
            while (found := self._results.get(trigger_id)) is None:
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:  # a trigger that has ended may not be delivered yet: wait for it
                    return None
                self._changed.wait(left_s)
            return found

    def check_now(self, *, wait: bool) -> StationStatus | None:
        """Start the golden check and return the status; None if the station refuses it."""
        if not self.station.check_now():
            return None
        deadline_s = time.monotonic() + (CHECK_S if wait else 0.0)
        while (status := self.station.status()).check_answer == CheckAnswer.RUNNING:
            if time.monotonic() > deadline_s:
                break
            time.sleep(_LOOK_S)
        return status

    def last(self) -> StationResult | None:
        """Return the newest result."""
        with self._changed:
            return next(reversed(self._results.values()), None)

    def close(self) -> None:
        """Stop serving."""
        self._server.stop()


def routes_of(service: HttpService) -> tuple[Route, ...]:
    """List the routes through which programs use a station."""
    station = service.station

    def result(request: Request) -> Answer:
        wanted = request.query.get("id", "")
        if not wanted:
            return _result_answer(service.last())
        if not wanted.isdecimal() or len(wanted) > 10:
            raise Refused(HTTPStatus.BAD_REQUEST, "id: expected the number of a trigger")
        return _result_answer(service.result(int(wanted), wait=False))

    def trigger(request: Request) -> Answer:
        values = _values(request)
        part_id, name = _text(values.get("part_id", "")), _text(values.get("request", ""))
        try:
            at_ns = moment_ns(request.came_ns, read_sent(values.get("sent")))
        except (ValueError, TypeError):
            raise _bad_request() from None
        if len(name) > MAX_REQUEST:
            raise _bad_request()
        if not service.may_trigger:
            sentence = "a trigger over HTTP is refused; start with --trigger http"
            raise Refused(HTTPStatus.CONFLICT, sentence)
        trigger_id = service.trigger(part_id, name, at_ns=at_ns)
        if "wait" in request.query:
            return _result_answer(service.result(trigger_id, wait=True))
        facts = {"run_id": station.run_id, "trigger_id": trigger_id}
        return json_answer(facts, status=HTTPStatus.ACCEPTED)

    def load(request: Request) -> Answer:
        job = _values(request).get("job")
        if isinstance(job, bool) or not isinstance(job, int | str):
            raise _bad_request()
        accepted = station.load_job(job)
        status = HTTPStatus.ACCEPTED if accepted else HTTPStatus.NOT_FOUND
        return json_answer({"accepted": accepted}, status=status)

    def announce(request: Request) -> Answer:
        if not station.announce(_text(_values(request).get("part_id"))):
            sentence = "a part id before its trigger is for --trigger hardware and part"
            raise Refused(HTTPStatus.CONFLICT, sentence)
        return json_answer({"accepted": True}, status=HTTPStatus.ACCEPTED)

    def check(request: Request) -> Answer:
        _values(request)
        status = service.check_now(wait="wait" in request.query)
        if status is None:
            sentence = "nothing can be checked now: no golden pictures, or a recipe is being loaded"
            raise Refused(HTTPStatus.CONFLICT, sentence)
        done = status.check_answer != CheckAnswer.RUNNING
        return json_answer(status.facts(), status=HTTPStatus.OK if done else HTTPStatus.ACCEPTED)

    actions = {"/trigger": trigger, "/part": announce, "/job": load, "/check": check}
    return (
        Route(method="GET", path="/result", answer=result),
        Route(method="GET", path="/state", answer=lambda _: json_answer(station.status().facts())),
        *(Route(method="POST", path=path, answer=answer) for path, answer in actions.items()),
    )


def _values(request: Request) -> dict[str, object]:
    """Parse the JSON object of the body; no body is an empty object, unknown keys are ignored."""
    try:
        values = parse_json(request.body or b"{}")
    except ValueError:
        raise _bad_request() from None
    if not isinstance(values, dict):
        raise _bad_request()
    return values


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise _bad_request()
    return value


def _bad_request() -> Refused:
    return Refused(HTTPStatus.BAD_REQUEST, f"expected {_EXPECTED}")


def _result_answer(result: StationResult | None) -> Answer:
    if result is None:
        raise Refused(HTTPStatus.NOT_FOUND, "no such result, or not yet")
    return json_answer(result.facts())
