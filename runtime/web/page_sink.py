"""The page of a running stream: a sink that shows what it sees to browsers and Prometheus.

results, events --> what is remembered, bounded (page_history, live_view)
routes: the page, its numbers, pictures and buttons <-- remembered, the run, the station
"""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from importlib.resources import files

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Setting
from edgeseg.base.plain import finite
from edgeseg.decision.judgement import words_of
from edgeseg.modelfile.metadata import ModelMetadata
from edgeseg.runtime.drift.sink import DriftSink, drift_picture
from edgeseg.runtime.drift.watch import DriftState
from edgeseg.runtime.events.codes import NO_INSPECTION
from edgeseg.runtime.events.records import (
    FrameResult,
    LoggedEvent,
    ModelChange,
    PipelineSnapshot,
    SourceEvent,
    SourceState,
    StateView,
)
from edgeseg.runtime.sinks.event_log import frame_event, source_event
from edgeseg.runtime.sinks.video import Recorder
from edgeseg.runtime.station.records import StationWords
from edgeseg.runtime.station.station import Station
from edgeseg.runtime.web.access import Access
from edgeseg.runtime.web.live_view import LiveView
from edgeseg.runtime.web.page_history import BUCKET_S, AlarmHistory, EventHistory, ScoreHistory
from edgeseg.runtime.web.prometheus import Exporter
from edgeseg.runtime.web.routes import (
    Answer,
    Asked,
    LivePictures,
    Refused,
    Route,
    health_answer,
    html_answer,
    jpeg_answer,
    json_answer,
)
from edgeseg.runtime.web.site_server import SiteServer
from edgeseg.vision.images import encode_jpeg

_SNAPSHOT_S = 0.25


@dataclass(frozen=True, kw_only=True)
class RecordingWish:
    """What /recording takes."""

    active: bool


@dataclass(frozen=True, kw_only=True)
class RecipeWish:
    """What /recipe takes."""

    recipe: str


@dataclass(frozen=True, kw_only=True)
class CheckWish:
    """What /check takes."""

    check: bool


class PageSink:
    """Serves the page from construction until close.

    `view` gives the numbers of the run, `drift` the drift states, `recorder` makes the recording
    button work, `station` tells and takes what a PLC may; these three may be absent. `recipes` can
    be changed to. `on_error` counts what goes wrong in its threads.
    """

    name = "page"

    def __init__(
        self,
        *,
        metadata: ModelMetadata,
        view: StateView,
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
        self._html = files(__package__).joinpath("page.html").read_bytes()
        self._live = LiveView(on_error=on_error)
        self._alarms = AlarmHistory(on_error=on_error)
        self._events = EventHistory()
        self._scores: dict[int, ScoreHistory] = {}
        self._exporter = Exporter(
            snapshot=view.snapshot,
            drift=self._drift_states,
            viewers=lambda: self._live.viewers,
            recording=lambda: recorder is not None and recorder.active,
            station=self._words,
        )
        self._server = SiteServer(
            self._routes(), access=Access(host=host, token=token), port=port, on_error=on_error
        )
        self._live.start()
        self._alarms.start()
        self._server.start()

    @property
    def url(self) -> str:
        """Where to point a browser; the token is not part of it."""
        return self._server.url

    def change_model(self, change: ModelChange) -> None:
        """Show another model's figures from now on."""
        self._metadata = change.metadata

    def on_frame(self, result: FrameResult) -> None:
        """Remember the score and offer the frame to viewers: some microseconds."""
        scores = self._scores.get(result.source_index)
        if scores is None:
            scores = self._scores[result.source_index] = ScoreHistory()
        scores.add(result)
        self._live.offer(result)
        if result.alarm_started:
            self._alarms.offer(result)
            self._events.add({**frame_event(result), "event": "alarm"})

    def on_source(self, event: SourceEvent) -> None:
        """List a change of a source's state."""
        self._events.add(source_event(event))

    def on_event(self, event: LoggedEvent) -> None:
        """List any other event, such as a drift warning."""
        self._events.add(event.facts())

    def close(self) -> None:
        """Stop serving; viewers are told by the end of their streams."""
        self._server.closing = True
        self._live.close()
        self._alarms.close()
        self._server.stop()

    def _routes(self) -> tuple[Route, ...]:
        """All that can be asked of the page."""
        reads: dict[str, Callable[[Asked], Answer | LivePictures]] = {
            "/": lambda asked: html_answer(self._html),
            "/state": self._answer_state,
            "/events": lambda asked: json_answer(self.events(after=asked.whole("after"))),
            "/metrics": self._answer_metrics,
            r"/stream\.mjpg": self._answer_stream,
            r"/alarms/(\d{1,9})\.jpg": self._answer_alarm,
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
                answer=lambda asked: health_answer(*self.health()),
            ),
            *(Route(method="GET", path=path, answer=answer) for path, answer in reads.items()),
            *(Route(method="POST", path=path, answer=answer) for path, answer in actions.items()),
        )

    def _answer_state(self, asked: Asked) -> Answer:
        source, after = asked.whole("source"), asked.whole("after")
        return json_answer(self.state(source_index=source, after=after))

    def _answer_metrics(self, asked: Asked) -> Answer:
        return Answer(content_type=self._exporter.content_type, body=self._exporter.text())

    def _answer_stream(self, asked: Asked) -> LivePictures:
        if asked.whole("source") >= len(self._recent_snapshot().sources):
            raise Refused(HTTPStatus.NOT_FOUND, "no such source")
        return LivePictures(self._live.watch(asked.whole("source")))

    def _answer_alarm(self, asked: Asked) -> Answer:
        return jpeg_answer(self._alarms.picture(int(asked.caught[0])))

    def _answer_drift(self, asked: Asked) -> Answer:
        source = int(asked.caught[0])
        newest, state = self._live.newest(source), self._drift_states().get(source)
        if newest is None or state is None:
            return jpeg_answer(None)
        return jpeg_answer(encode_jpeg(drift_picture(newest.frame_hwc, state), quality=85))

    def _record(self, asked: Asked) -> Answer:
        active = asked.values(RecordingWish, '{"active": true or false}').active
        if self._recorder is not None and active != self._recorder.active:
            (self._recorder.start if active else self._recorder.stop)()
        return json_answer({"active": self._recorder is not None and self._recorder.active})

    def _load_recipe(self, asked: Asked) -> Answer:
        name = asked.values(RecipeWish, '{"recipe": "NAME"}').recipe
        if self._station is None or not self._recipes:
            raise UsageError(
                "this stream runs one model; start it with ", Setting("recipes", "FOLDER")
            )
        return json_answer({"accepted": self._station.load_job(name)})

    def _check_now(self, asked: Asked) -> Answer:
        asked.values(CheckWish, '{"check": true}')
        if self._station is None:
            raise UsageError("this stream has no station to check")
        return json_answer({"accepted": self._station.check_now()})

    def state(self, *, source_index: int, after: int) -> dict[str, object]:
        """Live numbers for the page; scores of one source from a bucket on."""
        now = self._recent_snapshot()
        scores, words = self._scores.get(source_index), self._words()
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
            "recipes": self._recipe_choice(words),
            "station": None if words is None else words.facts(),
            "unapproved": words is not None and words.unapproved,
            "alarms": self._alarms.summaries(),
            "viewers": self._live.viewers,
            "bucket_s": BUCKET_S,
            "now_s": round(time.time(), 3),
            "scores": scores.since(after) if scores else [],
        }

    def events(self, *, after: int) -> list[dict[str, object]]:
        """Events with a higher number."""
        return self._events.since(after)

    def health(self) -> tuple[bool, str]:
        """Whether a frame was scored within the last `stale_after_s` seconds.

        Where frames are scored on demand, whether the cameras are there to be asked.
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

    def _recipe_choice(self, words: StationWords | None) -> dict[str, object] | None:
        if words is None or not self._recipes:
            return None
        return {"names": self._recipes, "current": words.job.name, "loading": words.job_loading}

    def _words(self) -> StationWords | None:
        return None if self._station is None else self._station.words()

    def _recent_snapshot(self) -> PipelineSnapshot:
        """One snapshot serves all viewers for a moment: making it holds up scoring a little."""
        taken_s, snapshot = self._snapshot
        if snapshot is None or time.monotonic() - taken_s > _SNAPSHOT_S:
            snapshot = self._view.snapshot()
            self._snapshot = (time.monotonic(), snapshot)
        return snapshot

    def _drift_states(self) -> Mapping[int, DriftState]:
        return dict(self._drift.states) if self._drift is not None else {}

    def _source(self, index: int, source: SourceState) -> dict[str, object]:
        newest, drift = self._live.newest(index), self._drift_states().get(index)
        score = newest.prediction.score if newest is not None else math.nan
        return {
            **vars(source),
            "dropped": dict(source.dropped),
            "verdicts": dict(source.verdicts),
            "score": finite(score),
            "verdict": self._verdict(newest),
            "p_value": newest.p_value if newest is not None else None,
            "oddness": words_of(newest.p_value) if newest is not None else None,
            "reason": newest.reason if newest is not None else "",
            "regions": newest.region_count if newest is not None else 0,
            "severity": newest.severity if newest is not None else None,
            "drift": drift.facts() if drift is not None else None,
        }

    def _verdict(self, newest: FrameResult | None) -> str | None:
        """Of the newest frame, unless the station has stopped since."""
        words = self._words()
        if words is not None and words.unapproved:
            return NO_INSPECTION
        return None if newest is None else newest.verdict


def _age_s(last_monotonic_s: float | None) -> float | None:
    if last_monotonic_s is None:
        return None
    return round(max(0.0, time.monotonic() - last_monotonic_s), 3)
