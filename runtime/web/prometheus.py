"""Export the numbers of a run to Prometheus, at the moment of each request."""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from edgeseg.base.errors import RuntimeFailure
from edgeseg.base.extras import install_command
from edgeseg.runtime.drift.watch import DRIFT_KINDS, DriftState
from edgeseg.runtime.events.records import PipelineSnapshot
from edgeseg.runtime.station.records import StationStatus


class Exporter:
    """A collector that turns snapshots of the run into the text of /metrics."""

    def __init__(
        self,
        *,
        snapshot: Callable[[], PipelineSnapshot],
        drift: Callable[[], Mapping[int, DriftState]],
        viewers: Callable[[], int],
        recording: Callable[[], bool],
        station: Callable[[], StationStatus | None],
    ) -> None:
        try:
            import prometheus_client
            from prometheus_client import core
        except ImportError:
            raise RuntimeFailure(
                "the page needs the package prometheus-client, which is not installed; "
                f"try: {install_command('prometheus_client')}"
            ) from None
        self._snapshot, self._drift = snapshot, drift
        self._viewers, self._recording = viewers, recording
        self._station = station
        self._core = core
        # A registry of our own: the default one is global to the process.
        registry = prometheus_client.CollectorRegistry(auto_describe=False)
        registry.register(self)
        self.content_type: str = prometheus_client.CONTENT_TYPE_LATEST
        self._generate: Any = prometheus_client.generate_latest
        self._registry = registry

    def text(self) -> bytes:
        """Return the body of /metrics."""
        return bytes(self._generate(self._registry))

    def collect(self) -> Iterator[Any]:
        """Yield all metrics; prometheus_client calls this."""
        state = self._snapshot()
        yield self._gauge(
            "info", "What runs; always 1.", {"model": state.model, "backend": state.backend}, 1
        )
        yield self._gauge("uptime_seconds", "Since the start of the run.", {}, state.uptime_s)
        yield self._gauge("threshold_score", "Scores above are defects.", {}, state.threshold_score)
        yield self._gauge("fps_in", "Frames captured per second.", {}, state.fps_in)
        yield self._gauge("fps_scored", "Frames scored per second.", {}, state.fps_out)
        if state.last_scored_monotonic_s is not None:
            age = time.monotonic() - state.last_scored_monotonic_s
            yield self._gauge("last_frame_age_seconds", "Since the last verdict.", {}, age)
        yield self._gauge("page_viewers", "Live views open.", {}, self._viewers())
        yield self._gauge("recording", "1 while a video is written.", {}, float(self._recording()))
        triggered = float(state.on_demand)
        yield self._gauge("triggered", "1 where frames are scored on demand.", {}, triggered)
        yield from self._station_families()
        yield self._latency(state)
        yield self._errors(state)
        yield from self._sources(state)
        yield from self._drift_families(state)

    def _gauge(self, name: str, text: str, labels: dict[str, str], value: float) -> Any:
        family = self._core.GaugeMetricFamily(f"edgeseg_{name}", text, labels=list(labels))
        family.add_metric(list(labels.values()), value)
        return family

    def _station_families(self) -> Iterator[Any]:
        status = self._station()
        if status is None:
            return
        blocked = "1 while no approved model can judge: check failed, recipe unknown or loading."
        yield self._gauge("no_inspection", blocked, {}, float(status.unapproved))
        for name, text, count in (
            ("triggers", "Triggers; free running, every frame is one.", status.triggers),
            ("triggers_missed", "Triggers that came too early.", status.missed),
        ):
            family = self._core.CounterMetricFamily(f"edgeseg_{name}", text)
            family.add_metric([], count)
            yield family

    def _latency(self, state: PipelineSnapshot) -> Any:
        family = self._core.GaugeMetricFamily(
            "edgeseg_stage_seconds",
            "Latency of a stage since the start of the run; quantile 1 is the maximum.",
            labels=["stage", "quantile"],
        )
        for stage, summary in state.stages.items():
            if summary.count:
                values = (summary.p50, summary.p95, summary.p99, summary.max)
                for quantile, value_ms in zip(("0.5", "0.95", "0.99", "1"), values, strict=True):
                    family.add_metric([stage, quantile], value_ms / 1000)
        return family

    def _errors(self, state: PipelineSnapshot) -> Any:
        family = self._core.CounterMetricFamily(
            "edgeseg_errors", "Errors that did not stop the run.", labels=["cause"]
        )
        for cause, count in state.errors.items():
            family.add_metric([cause], count)
        return family

    def _sources(self, state: PipelineSnapshot) -> Iterator[Any]:
        def counter(name: str, text: str, *labels: str) -> Any:
            return self._core.CounterMetricFamily(
                f"edgeseg_{name}", text, labels=["source", "index", *labels]
            )

        frames = counter("frames_in", "Frames captured.")
        scored = counter("frames_scored", "Frames with a verdict.")
        dropped = counter("frames_dropped", "Frames never scored, by cause.", "cause")
        verdicts = counter("verdicts", "Verdicts.", "verdict")
        reconnects = counter("reconnects", "Times a lost source came back.")
        connected = self._core.GaugeMetricFamily(
            "edgeseg_source_connected", "1 while the source delivers.", labels=["source", "index"]
        )
        alarm = self._core.GaugeMetricFamily(
            "edgeseg_alarm", "1 during an alarm.", labels=["source", "index"]
        )
        for index, source in enumerate(state.sources):
            labels = [source.name, str(index)]
            frames.add_metric(labels, source.frames_in)
            scored.add_metric(labels, source.scored)
            reconnects.add_metric(labels, source.reconnects)
            connected.add_metric(labels, float(source.connected))
            alarm.add_metric(labels, float(source.alarm))
            for cause, count in source.dropped.items():
                dropped.add_metric([*labels, cause], count)
            for verdict, count in source.verdicts.items():
                verdicts.add_metric([*labels, verdict], count)
        yield from (frames, scored, dropped, verdicts, reconnects, connected, alarm)

    def _drift_families(self, state: PipelineSnapshot) -> Iterator[Any]:
        """Yield the drift metrics; where drift is not known, only `drift_known`, which is 0."""
        measures: dict[str, tuple[str, Callable[[DriftState], float]]] = {
            "drift_known": ("1 once enough was seen to tell.", lambda s: float(s.known)),
            "drift_warning": ("1 while drift is suspected.", lambda s: float(s.level == "warn")),
            "drift_ratio": ("Mean of d^2 over that of good images.", lambda s: s.ratio),
            "drift_median_ratio": ("The same for the median cell.", lambda s: s.median_ratio),
            "drift_moved_share": ("Part of the cells that have risen.", lambda s: s.moved_share),
        }
        states = self._drift()
        for name, (text, measure) in measures.items():
            family = self._core.GaugeMetricFamily(
                f"edgeseg_{name}", text, labels=["source", "index"]
            )
            for index, source in enumerate(state.sources):
                if index in states and (name == "drift_known" or states[index].known):
                    family.add_metric([source.name, str(index)], measure(states[index]))
            yield family
        kinds = self._core.GaugeMetricFamily(
            "edgeseg_drift_kind", "1 for what has changed.", labels=["source", "index", "kind"]
        )
        for index, source in enumerate(state.sources):
            for kind in DRIFT_KINDS if index in states and states[index].known else ():
                labels = [source.name, str(index), kind]
                kinds.add_metric(labels, float(states[index].kind == kind))
        yield kinds
