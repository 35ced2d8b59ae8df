"""Show a running stream to browsers and Prometheus: the sink behind the page.

results --> the operator's screen and its rejects (operator_screen, rejects)
results, events --> history of limited length for engineers (page_history, live_view)
routes: the page, its numbers, pictures and buttons <-- all of these, the run, the station
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Setting
from edgeseg.modelfile.metadata import ModelMetadata
from edgeseg.runtime.drift.sink import DriftSink, drift_picture
from edgeseg.runtime.drift.watch import DriftState
from edgeseg.runtime.events.records import (
    FrameResult,
    LoggedEvent,
    ModelChange,
    PipelineSnapshot,
    SourceEvent,
    SourceState,
    StateView,
)
from edgeseg.runtime.sinks.counters import Counters
from edgeseg.runtime.sinks.event_log import frame_event, source_event
from edgeseg.runtime.sinks.video import Recorder
from edgeseg.runtime.station.records import StationStatus
from edgeseg.runtime.station.station import Station
from edgeseg.runtime.web.access import Access
from edgeseg.runtime.web.live_view import LiveView
from edgeseg.runtime.web.operator_screen import OperatorScreen
from edgeseg.runtime.web.page_files import document
from edgeseg.runtime.web.page_history import BUCKET_S, EventHistory, ScoreHistory
from edgeseg.runtime.web.prometheus import Exporter
from edgeseg.runtime.web.rejects import RejectHistory
from edgeseg.runtime.web.routes import (
    Answer,
    LivePictures,
    Refused,
    Request,
    Route,
    for_page,
    health_answer,
    html_answer,
    jpeg_answer,
    json_answer,
    page_answer,
)
from edgeseg.runtime.web.screen_routes import KEY, screen_routes
from edgeseg.runtime.web.site_server import SiteServer
from edgeseg.vision.images import encode_jpeg

_SNAPSHOT_S = 0.25
SCRIPTS = ("figures.js", "live.js")


@dataclass(frozen=True, kw_only=True)
class RecordingRequest:
    """The body of /recording."""

    active: bool


@dataclass(frozen=True, kw_only=True)
class RecipeRequest:
    """The body of /recipe."""

    recipe: str


@dataclass(frozen=True, kw_only=True)
class CheckRequest:
    """The body of /check."""

    check: bool


class PageSink:
    """A sink that serves the page from construction until close.

    `counters` count the parts of the shift. `view` gives the numbers of the run. `drift` gives the
    drift states, `recorder` makes the recording button work, `station` answers and takes what a PLC
    may; these three may be absent.
    `recipes` are the names to change to. `on_error` counts errors of its threads.
    """

    name = "page"

    def __init__(
        self,
        *,
        metadata: ModelMetadata,
        view: StateView,
        counters: Counters,
        on_error: Callable[[str, str], None],
        host: str,
        port: int,
        stale_after_s: float,
        token: str | None = None,
        title: str = "",
        drift: DriftSink | None = None,
        recorder: Recorder | None = None,
        station: Station | None = None,
        recipes: tuple[str, ...] = (),
    ) -> None:
        self._metadata, self._view, self._title = metadata, view, title
        self._drift, self._recorder = drift, recorder
        self._station, self._recipes = station, recipes
        self._stale_after_s = stale_after_s
        self._snapshot: tuple[float, PipelineSnapshot | None] = (0.0, None)
        self._html = document(__package__, "live", SCRIPTS)
        self._live = LiveView(on_error=on_error)
        self._screen = OperatorScreen(counters=counters, on_error=on_error)
        self._rejects = RejectHistory(on_error=on_error)
        self._events = EventHistory()
        self._scores: dict[int, ScoreHistory] = {}
        self._exporter = Exporter(
            snapshot=view.snapshot,
            drift=self._drift_states,
            viewers=lambda: self._live.viewers,
            recording=lambda: recorder is not None and recorder.active,
            station=self._status,
        )
        self._server = SiteServer(
            self._routes(),
            access=Access(host=host, token=token),
            port=port,
            on_error=on_error,
            refusal=lambda sentence: for_page({"error": sentence}),
        )
        self._live.start()
        self._rejects.start()
        self._server.start()

    @property
    def url(self) -> str:
        """The address for a browser, without the token."""
        return self._server.url

    def change_model(self, change: ModelChange) -> None:
        """Show another model's figures from the next frame on."""
        self._metadata = change.metadata

    def on_frame(self, result: FrameResult) -> None:
        """Keep the score and offer the frame to viewers; takes some microseconds."""
        scores = self._scores.get(result.source_index)
        if scores is None:
            scores = self._scores[result.source_index] = ScoreHistory()
        scores.add(result)
        self._live.offer(result)
        self._screen.on_frame(result)
        if result.rejected:
            self._rejects.offer(result)
        if result.alarm_started:
            self._events.add({**frame_event(result), "event": "alarm"})

    def on_source(self, event: SourceEvent) -> None:
        """List a change of a source's state."""
        self._events.add(source_event(event))

    def on_event(self, event: LoggedEvent) -> None:
        """List any other event, such as a drift warning."""
        self._events.add(event.facts())

    def close(self) -> None:
        """Stop serving; the streams of viewers end."""
        self._server.closing = True
        self._live.close()
        self._rejects.close()
        self._server.stop()

    def _routes(self) -> tuple[Route, ...]:
        """List the routes of the page."""
        reads: dict[str, Callable[[Request], Answer | LivePictures]] = {
            "/": lambda request: html_answer(self._html),
            "/state": self._answer_state,
            "/events": lambda request: json_answer(self.events(after=request.whole("after"))),
            "/metrics": self._answer_metrics,
            r"/stream\.mjpg": self._answer_stream,
            rf"/rejects/({KEY})\.jpg": self._answer_reject,
            r"/drift/(\d{1,9})\.jpg": self._answer_drift,
        }
        actions = {
            "/recording": self._record,
            "/recipe": self._load_recipe,
            "/check": self._check_now,
        }
        return (
            # Open without the token: it says little.
            Route(
                method="GET",
                path="/healthz",
                public=True,
                answer=lambda request: health_answer(*self.health()),
            ),
            *screen_routes(lambda: self._screen, self._rejects, halt=self._halt),
            *(Route(method="GET", path=path, answer=answer) for path, answer in reads.items()),
            *(Route(method="POST", path=path, answer=answer) for path, answer in actions.items()),
        )

    def _answer_state(self, request: Request) -> Answer:
        source, after = request.whole("source"), request.whole("after")
        return page_answer(self.state(source_index=source, after=after))

    def _answer_metrics(self, request: Request) -> Answer:
        return Answer(content_type=self._exporter.content_type, body=self._exporter.text())

    def _answer_stream(self, request: Request) -> LivePictures:
        if request.whole("source") >= len(self._recent_snapshot().sources):
            raise Refused(HTTPStatus.NOT_FOUND, "no such source")
        return LivePictures(self._live.watch(request.whole("source")))

    def _answer_reject(self, request: Request) -> Answer:
        return jpeg_answer(self._rejects.picture(request.caught[0]))

    def _answer_drift(self, request: Request) -> Answer:
        source = int(request.caught[0])
        newest, state = self._live.newest(source), self._drift_states().get(source)
        if newest is None or state is None:
            return jpeg_answer(None)
        return jpeg_answer(encode_jpeg(drift_picture(newest.frame_hwc, state), quality=85))

    def _record(self, request: Request) -> Answer:
        active = request.values(RecordingRequest, '{"active": true or false}').active
        if self._recorder is not None and active != self._recorder.active:
            (self._recorder.start if active else self._recorder.stop)()
        return json_answer({"active": self._recorder is not None and self._recorder.active})

    def _load_recipe(self, request: Request) -> Answer:
        name = request.values(RecipeRequest, '{"recipe": "NAME"}').recipe
        if self._station is None or not self._recipes:
            raise UsageError(
                "this stream runs one model; start it with ", Setting("recipes", "FOLDER")
            )
        return json_answer({"accepted": self._station.load_job(name)})

    def _check_now(self, request: Request) -> Answer:
        request.values(CheckRequest, '{"check": true}')
        if self._station is None:
            raise UsageError("this stream has no station to check")
        return json_answer({"accepted": self._station.check_now()})

    def state(self, *, source_index: int, after: int) -> dict[str, object]:
        """Return live numbers for the page, and the scores of one source from a bucket on."""
        now = self._recent_snapshot()
        scores, status = self._scores.get(source_index), self._status()
        return {
            "title": self._title or self._metadata.name,
            "model": now.model,
            "backend": now.runs_on,
            "precision": self._metadata.precision,
            "accuracy": list(self._metadata.accuracy),
            "threshold": now.threshold_score,
            "uptime_s": round(now.uptime_s, 1),
            "age_s": _age_s(now.last_scored_monotonic_s),
            "stale_after_s": None if now.on_demand else self._stale_after_s,
            "fps_in": round(now.fps_in, 1),
            "fps_out": round(now.fps_out, 1),
            "sources": [self._source(i, source) for i, source in enumerate(now.sources)],
            "stages": {name: vars(summary) for name, summary in now.stages.items()},
            "errors": dict(now.errors),
            "recording": None if self._recorder is None else self._recorder.active,
            "recipes": self._recipe_choice(status),
            "station": None if status is None else status.facts(),
            "viewers": self._live.viewers,
            "bucket_s": BUCKET_S,
            "now_s": round(time.time(), 3),
            "scores": scores.since(after) if scores else [],
        }

    def screen(self, *, source_index: int = 0) -> dict[str, object]:
        """Tell what the operator's screen shows of a source, and why nothing is inspected."""
        return {**self._screen.facts(source_index), "halt": self._halt()}

    def events(self, *, after: int) -> list[dict[str, object]]:
        """Return events with a higher number."""
        return self._events.since(after)

    def health(self) -> tuple[bool, str]:
        """Return whether a frame was scored within the last `stale_after_s` seconds, and why not.

        Where frames are scored on demand, return whether the cameras are connected.
        """
        now = self._view.snapshot()
        if now.on_demand:
            return self._ready(now)
        age_s = _age_s(now.last_scored_monotonic_s)
        since = now.uptime_s if age_s is None else age_s  # a start is given the same time
        if since > self._stale_after_s:
            return False, f"no frame scored for {since:.1f} s, limit {self._stale_after_s:g} s"
        return True, "starting" if age_s is None else f"ok, last frame scored {age_s:.1f} s ago"

    def _ready(self, now: PipelineSnapshot) -> tuple[bool, str]:
        lost = [source.name for source in now.sources if not (source.connected or source.ended)]
        if lost and now.uptime_s > self._stale_after_s:
            return False, f"lost: {', '.join(lost)}"
        return True, "starting" if lost else "ok, waits for triggers"

    def _recipe_choice(self, status: StationStatus | None) -> dict[str, object] | None:
        if status is None or not self._recipes:
            return None
        return {"names": self._recipes, "current": status.job.name, "loading": status.job_loading}

    def _status(self) -> StationStatus | None:
        return None if self._station is None else self._station.status()

    def _recent_snapshot(self) -> PipelineSnapshot:
        """Return a snapshot that all viewers share for a moment; each one delays scoring."""
        taken_s, snapshot = self._snapshot
        if snapshot is None or time.monotonic() - taken_s > _SNAPSHOT_S:
            snapshot = self._view.snapshot()
            self._snapshot = (time.monotonic(), snapshot)
        return snapshot

    def _drift_states(self) -> Mapping[int, DriftState]:
        return dict(self._drift.states) if self._drift is not None else {}

    def _source(self, index: int, source: SourceState) -> dict[str, object]:
        drift = self._drift_states().get(index)
        return {
            **vars(source),
            "dropped": dict(source.dropped),
            "verdicts": dict(source.verdicts),
            "drift": drift.facts() if drift is not None else None,
        }

    def _halt(self) -> dict[str, object] | None:
        """Return why the station has no approved model; then no part may be shown as good."""
        status = self._status()
        if status is None or not status.unapproved:
            return None
        return {"why": status.error.name.lower(), "reason": status.reason}


def _age_s(last_monotonic_s: float | None) -> float | None:
    if last_monotonic_s is None:
        return None
    return round(max(0.0, time.monotonic() - last_monotonic_s), 3)
