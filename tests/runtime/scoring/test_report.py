"""The report's table and the status line."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from edgeseg.base.errors import RuntimeFailure
from edgeseg.modelfile.metadata import ModelMetadata
from edgeseg.runtime.events.records import STAGES, PipelineSnapshot, SourceState, StageSummary
from edgeseg.runtime.scoring.meters import Histogram
from edgeseg.runtime.scoring.report import build_report, report_text, status_line, write_report
from tests.support.brightness_model import brightness_metadata


def summary(milliseconds: int) -> StageSummary:
    histogram = Histogram()
    histogram.record(milliseconds * 1_000_000)
    return histogram.summary()


def source(name: str, *, scored: int, connected: bool = True, **dropped: int) -> SourceState:
    return SourceState(
        name=name,
        live=True,
        connected=connected,
        ended=False,
        frames_in=scored + sum(dropped.values()),
        scored=scored,
        dropped=dropped,
        verdicts={"good": scored - 1, "invalid": 1},
        reconnects=0,
        alarm=not connected,
    )


SNAPSHOT = PipelineSnapshot(
    model="brightness",
    backend="numpy",
    threshold_score=2.0,
    uptime_s=10.0,
    fps_in=31.0,
    fps_out=29.5,
    sources=(
        source("a", scored=100, replaced=5),
        source("b", scored=50, connected=False, replaced=2, stalled=1),
    ),
    stages={stage: summary(index + 1) for index, stage in enumerate((*STAGES, "sinks"))},
    errors={"events": 3},
)


def test_latency_and_accuracy_stand_in_one_table() -> None:
    report = build_report(SNAPSHOT, brightness_metadata(), drift={1: {"level": "warn"}})
    assert report["frames"] == {
        "in": 158,
        "scored": 150,
        "dropped": {"replaced": 7, "stalled": 1},
        "fps_in": 15.8,
        "fps_out": 15.0,
    }
    assert [entry["drift"] for entry in report["sources"]] == [None, {"level": "warn"}]
    json.dumps(report, allow_nan=False)
    lines = report_text(report).splitlines()
    assert lines[0] == "brightness (none, fp32, 48x32) on numpy, float32"
    assert lines[1].split() == ["latency,", "ms", "p50", "p95", "p99", "max"]
    assert lines[7].split() == ["end", "to", "end", "6.00", "6.00", "6.00", "6.00"]
    assert lines[10].split()[-7:] == [
        "0.9500", "0.8500", "0.9800", "0.9900", "0.9000", "0.8000", "0.0500",
    ]  # fmt: skip
    assert len({len(line) for line in lines[1:9]}) == 1, "columns are aligned"
    assert len({len(line) for line in lines[9:11]}) == 1, "columns are aligned"
    assert lines[11] == "frames: 158 in = 150 scored + 8 dropped (replaced 7, stalled 1)"
    assert lines[13] == "errors: events 3"
    assert lines[14:] == [
        "verdicts of a: 99 good, 1 invalid",
        "verdicts of b: 49 good, 1 invalid",
        "verdicts: 148 good, 2 invalid",
    ]


@pytest.mark.parametrize(("spin", "words"), [(True, "spin"), (False, "no spin")])
def test_milliseconds_say_in_what_they_were_computed(spin: bool, words: str) -> None:
    snapshot = replace(SNAPSHOT, arithmetic="bfloat16", spin=spin)
    report = build_report(snapshot, brightness_metadata(), drift={})
    assert (report["backend"], report["arithmetic"], report["spin"]) == ("numpy", "bfloat16", spin)
    first = report_text(report).splitlines()[0]
    assert first == f"brightness (none, fp32, 48x32) on numpy, bfloat16, {words}"


def test_a_model_of_an_earlier_version_has_dashes_for_later_metrics() -> None:
    (row,) = brightness_metadata().accuracy
    later = {"pro_05", "recall", "false_alarm_rate"}
    earlier = {key: value for key, value in row.items() if key not in later}
    metadata = replace(brightness_metadata(), accuracy=(earlier,))
    metadata = ModelMetadata.from_json(metadata.to_json(), source="part.onnx")
    lines = report_text(build_report(SNAPSHOT, metadata, drift={})).splitlines()
    assert lines[10].split()[-7:] == ["0.9500", "-", "0.9800", "0.9900", "0.9000", "-", "-"]


def test_a_model_without_accuracy_says_so() -> None:
    metadata = replace(brightness_metadata(), accuracy=())
    report = build_report(SNAPSHOT, metadata, drift={}, failure=RuntimeFailure("gone"))
    assert "not stored with the model" in report_text(report)
    assert report["failure"] == "gone"


def test_report_files(tmp_path: Path) -> None:
    report = build_report(SNAPSHOT, brightness_metadata(), drift={})
    json_path, text_path = write_report(tmp_path / "new" / "latency.json", report)
    assert json.loads(json_path.read_text())["backend"] == "numpy"
    assert text_path.name == "latency.txt"
    with pytest.raises(RuntimeFailure, match=r"^report=.*the figures are on standard output"):
        write_report(json_path / "latency.json", report)


def test_the_status_line() -> None:
    assert status_line(SNAPSHOT) == (
        "10 s  in 31.0/s  out 29.5/s  dropped 8  end-to-end p50 6.0 p95 6.0 p99 6.0 ms  "
        "not good 2 of 1  LOST b  ALARM  errors: events 3"
    )
