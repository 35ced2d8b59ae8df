"""Sinks by their entries: what the options ask for is made, connected and closed again."""

import json
import threading
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from edgeseg.base.options import FILE
from edgeseg.base.typed_options import typed
from edgeseg.cli.stream_command import stream
from edgeseg.modelfile.metadata import ModelMetadata
from edgeseg.runtime.drift.sink import DriftChange, DriftSink
from edgeseg.runtime.events.records import FrameResult, SourceEvent
from edgeseg.runtime.scoring.meters import Faults
from edgeseg.runtime.scoring.pipeline import Pipeline, PipelineConfig
from edgeseg.runtime.settings.sink_kinds import (
    SINKS,
    DriftOptions,
    PageOptions,
    SinkKind,
    SinkOptions,
    SnapshotOptions,
    StreamRun,
    VideoOptions,
    attach_sinks,
)
from edgeseg.runtime.sinks.hash_chain import parts_of
from edgeseg.runtime.sinks.log_options import CounterOptions, EventOptions
from edgeseg.runtime.web.page_sink import PageSink
from tests.doubles.fakes import BrightnessSession, clip
from tests.support.brightness_model import brightness_metadata, write_brightness_model
from tests.support.commands import succeed
from tests.support.scored_frames import make_drift_state, make_result

WITH_GRID = replace(brightness_metadata(), outputs=("map", "score", "grid"))


@dataclass(frozen=True, kw_only=True)
class TallyOptions:
    tally: Path | None = typed(None, "Number of frames.", kind=FILE)


class Tally:
    """A sink that somebody might add: it counts frames."""

    name = "tally"

    def __init__(self, path: Path) -> None:
        self._path, self._count = path, 0

    def on_frame(self, result: FrameResult) -> None:
        self._count += 1

    def on_source(self, event: SourceEvent) -> None:
        pass

    def close(self) -> None:
        self._path.write_text(str(self._count))


def make_tally(run: StreamRun, options: TallyOptions) -> Tally | None:
    return Tally(options.tally) if options.tally is not None else None


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "part.onnx"
    write_brightness_model(path, metadata=brightness_metadata())
    return path


def run_command(model: Path, *arguments: object) -> Result:
    source = "synthetic:fps=0,frames=5,height=64,width=96"
    options = ("--model", model, "--backend", "cpu", "--threads", 1, "--source", source)
    return CliRunner().invoke(
        stream, [str(argument) for argument in (*options, *arguments)], catch_exceptions=False
    )


def test_a_new_sink_is_one_entry(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = SinkKind(record=TallyOptions, make=make_tally)
    monkeypatch.setitem(SINKS, "tally", kind)
    assert "--tally FILE" in CliRunner().invoke(stream, ["--help"]).output
    count = tmp_path / "count.txt"
    assert run_command(model).exit_code == 0
    assert not count.exists()
    assert run_command(model, "--tally", count).exit_code == 0
    assert count.read_text() == "5"


class Started:
    """The sinks of a run that does not begin, and what was noted."""

    def __init__(self, *records: object, metadata: ModelMetadata = WITH_GRID) -> None:
        self.notes: list[str] = []
        pipeline = Pipeline(
            BrightnessSession(metadata),
            [clip()],
            config=PipelineConfig(queue_size=8, stall_timeout_s=5.0),
            faults=Faults(self.notes.append),
            stop=threading.Event(),
            note=self.notes.append,
        )
        self.run = StreamRun(
            pipeline=pipeline,
            options=SinkOptions(records),
            specs=[clip()],
            note=self.notes.append,
        )
        attach_sinks(self.run)

    @property
    def names(self) -> list[str]:
        return [sink.name for sink in self.run.sinks]

    def close(self) -> None:
        self.run.pipeline.close_sinks()


def test_sinks_are_made_in_the_order_of_their_entries(tmp_path: Path) -> None:
    nothing = Started(DriftOptions(drift=False))
    assert nothing.run.sinks == []
    drift_alone = Started()
    assert drift_alone.names == ["drift"]
    everything = Started(
        PageOptions(serve=0),
        SnapshotOptions(snapshots=tmp_path / "alarms"),
        EventOptions(events=str(tmp_path / "events.jsonl")),
        VideoOptions(recordings=tmp_path / "recordings"),
        CounterOptions(counters=tmp_path / "counters.json"),
    )
    everything.close()
    assert everything.names == ["events", "counters", "drift", "snapshots", "video", "page"]
    assert set(everything.names) == set(SINKS)


def test_a_recorder_is_there_for_the_page_or_for_a_file(tmp_path: Path) -> None:
    for record in (PageOptions(serve=0), VideoOptions(save=tmp_path / "a.mp4")):
        started = Started(record, DriftOptions(drift=False))
        started.close()
        assert "video" in started.names
    assert Started(VideoOptions(recordings=tmp_path)).names == ["drift"]


def test_drift_is_noted_logged_and_shown_on_the_page(tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    started = Started(EventOptions(events=str(log)), PageOptions(serve=0))
    drift, page = started.run.sink(DriftSink), started.run.sink(PageSink)
    assert drift is not None
    assert page is not None
    moved = replace(
        make_drift_state(np.ones((4, 6), np.float32)), level="warn", message="the light has changed"
    )
    started.run.events.publish(DriftChange(result=make_result(), state=moved))
    started.close()
    assert "camera 0: the light has changed" in started.notes
    events = [json.loads(line)["event"] for line in log.read_text().splitlines()]
    assert events == ["run_start", "drift_warning"]
    assert [event["event"] for event in page.events(after=0)] == ["drift_warning"]


def test_a_model_that_cannot_be_watched_for_drift_says_why() -> None:
    started = Started(metadata=replace(WITH_GRID, outputs=("map", "score")))
    assert started.names == []
    assert started.notes == [
        "drift watch off: it needs a model with the output `grid`, and no tiles"
    ]
    flat = replace(WITH_GRID.drift, frame_std=0.0)
    started = Started(metadata=replace(WITH_GRID, drift=flat))
    assert started.names == []
    (note,) = started.notes
    assert note.startswith("drift watch off: drift baseline with frame_mean")


def test_a_mistake_in_one_sink_closes_those_before_it(model: Path, tmp_path: Path) -> None:
    before = set(threading.enumerate())
    outputs = ("--events", tmp_path / "e.jsonl", "--snapshots", tmp_path, "--save", "a.gif")
    done = run_command(model, *outputs)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "Error: --save a.gif: expected a file ending in" in done.stderr
    assert set(threading.enumerate()) == before


def test_a_chained_log_in_parts_is_whole_over_two_runs(model: Path, tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    for _ in range(2):
        done = run_command(
            model, "--events", log, "--events-chain", "--events-max-mb", 0.003, "--events-keep", 99
        )
        assert done.exit_code == 0, done.stderr
    parts = parts_of(log)
    assert len(parts) > 3
    kinds = [json.loads(line)["event"] for part in parts for line in part.open()]
    run = ["run_start", "source_open", *["frame"] * 5, "source_end", "run_end"]
    assert sorted(kinds) == sorted(2 * run)
    told = succeed("verify-log", log)
    assert told.stdout == f"{len(kinds)} lines in {len(parts)} files: as they were written\n"
    assert told.stderr == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--events-chain",), "--events-chain: is for a file; add --events FILE"),
        (
            ("--events", "-", "--events-max-mb", 2),
            "--events-max-mb 2.0: is for a file; add --events FILE",
        ),
        (("--events", "e", "--events-days", 0), "--events-days 0.0: expected more than 0"),
        (
            ("--events", "e", "--events-keep", 2),
            "--events-keep 2: nothing is rotated; add --events-max-mb or --events-days",
        ),
        (("--shifts", "06:00"), "--shifts 06:00: are for counters; add --counters FILE"),
        (
            ("--counters", "c.json", "--shifts", "6"),
            "--shifts '6': expected times such as 06:00,14:00,22:00",
        ),
    ],
)
def test_mistakes_about_log_and_counters(
    model: Path, options: tuple[object, ...], message: str
) -> None:
    done = run_command(model, *options)
    assert (done.exit_code, done.stderr) == (2, f"Error: {message}\n")


def test_counters_are_kept_over_two_runs(model: Path, tmp_path: Path) -> None:
    for _ in range(2):
        done = run_command(model, "--counters", tmp_path / "counters.json", "--shifts", "06:00")
        assert done.exit_code == 0, done.stderr
    counts = json.loads((tmp_path / "counters.json").read_text())
    assert counts["total"]["all"]["parts"] == 10
    assert counts["total"]["recipes"] == {"": counts["total"]["all"]}
