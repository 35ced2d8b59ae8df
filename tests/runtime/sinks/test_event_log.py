"""The event log: its lines, and disks that are full, slow or forbidden."""

import json
import math
import os
import threading
from pathlib import Path

import numpy as np
import pytest

from edgeseg.decision.prediction import Prediction
from edgeseg.runtime.events.records import FrameResult, Region, SourceEvent, StageTimes, Trace
from edgeseg.runtime.sinks import event_log as module
from edgeseg.runtime.sinks import line_file
from edgeseg.runtime.sinks.event_log import EventLog, frame_event
from tests.doubles.fakes import grey, wait


def result(index: int = 0, *, score: float = 3.0, alarm: bool = False) -> FrameResult:
    return FrameResult(
        source="rtsp://***@cam/1",
        source_index=0,
        frame_index=index,
        frame_name="",
        wall_s=1000.25,
        monotonic_s=5.5,
        frame_hwc=grey(1),
        roi_xy=(100, 10),
        prediction=Prediction(map_hw=np.zeros((4, 4), np.float32), score=score),
        threshold_score=2.0,
        threshold_pixel=2.0,
        verdict="defect" if math.isfinite(score) else "invalid",
        p_value=0.0125,
        good_parts=159,
        alarm=alarm,
        alarm_started=alarm,
        regions=(Region(box_xywh=(1, 2, 3, 4), area_px=9, peak=3.0),),
        region_count=1,
        times=StageTimes(1.0, 0.5, 0.1, 2.0, 0.2, 3.3),
        trace=Trace(
            model_sha256="ab" * 32,
            recipe="bottle",
            threshold=2.0,
            rate=0.01,
            method="made up",
            precision="fp32",
            backend="numpy",
        ),
        trigger_id=7,
        part_id="SN-1",
    )


class Errors(list[tuple[str, str]]):
    def count(self, name: str, message: str) -> None:
        self.append((name, message))


def write(path: object, count: int) -> Errors:
    errors = Errors()
    log = EventLog(str(path), only_alarms=False, sync="alarm", on_error=errors.count)
    for index in range(count):
        log.on_frame(result(index, alarm=index % 2 == 1))
    log.close()
    return errors


def events(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_line_says_everything(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    assert write(path, 1) == []
    (line,) = path.read_text().splitlines()
    assert json.loads(line) == {
        "schema": 1,
        "event": "frame",
        "source": "rtsp://***@cam/1",
        "source_index": 0,
        "frame": 0,
        "name": "",
        "wall_s": 1000.25,
        "monotonic_s": 5.5,
        "frame_id": None,
        "camera_ns": None,
        "score": 3.0,
        "threshold": 2.0,
        "verdict": "defect",
        "error": "none",
        "reason": "",
        "doubt": None,
        "p_value": 0.0125,
        "oddness": "one good part in 80 looks this odd",
        "alarm": False,
        "regions": [{"box": [101, 12, 3, 4], "area": 9, "severity": "minor", "peak": 3.0}],
        "region_count": 1,
        "severity": "minor",
        "latency_ms": {
            "capture_age": 1.0,
            "queue": 0.5,
            "pre": 0.1,
            "infer": 2.0,
            "post": 0.2,
            "end_to_end": 3.3,
        },
        "part_id": "SN-1",
        "trigger_id": 7,
        "pose": None,
        "recipe": "bottle",
        "model_sha256": "ab" * 32,
        "precision": "fp32",
        "backend": "numpy",
        "operating_point": {"threshold": 2.0, "rate": 0.01, "method": "made up"},
    }


def test_a_score_that_is_no_number_is_null() -> None:
    event = frame_event(result(score=math.nan))
    assert event["score"] is None
    assert event["verdict"] == "invalid"
    json.dumps(event, allow_nan=False)


def test_only_alarms_and_all_source_events(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    errors = Errors()
    log = EventLog(str(path), only_alarms=True, sync="alarm", on_error=errors.count)
    for index in range(4):
        log.on_frame(result(index, alarm=index % 2 == 1))
    log.on_source(
        SourceEvent(kind="source_lost", source="cam", source_index=0, wall_s=1.0, monotonic_s=2.0)
    )
    log.close()
    log.write_last({"event": "run_end"})
    assert [line.get("frame", line["event"]) for line in events(path)] == [
        1,
        3,
        "source_lost",
        "run_end",
    ]
    assert errors == []


def test_lines_are_appended_to_those_of_earlier_runs(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    write(path, 2)
    write(path, 3)
    assert len(path.read_text().splitlines()) == 5


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_costs_lines_each_counted_and_nothing_else() -> None:
    errors = write("/dev/full", 20)
    assert len(errors) == 20
    assert errors[0] == ("events", "/dev/full: No space left on device; lines are lost")


def test_a_path_that_cannot_be_written_costs_lines_only(tmp_path: Path) -> None:
    errors = write(tmp_path, 3)  # a folder
    assert len(errors) == 3
    assert errors[0] == ("events", f"{tmp_path}: Is a directory; lines are lost")


def test_writing_goes_on_when_there_is_room_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_RETRY_S", 0.0)
    path = tmp_path / "later" / "events.jsonl"
    errors = Errors()
    log = EventLog(str(path), only_alarms=False, sync="alarm", on_error=errors.count)
    log.on_frame(result(0))
    wait(lambda: bool(errors), "no error")
    path.parent.mkdir()
    log.on_frame(result(1))
    log.close()
    assert [event["frame"] for event in events(path)] == [1]


def test_a_line_cut_short_by_a_full_disk_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.write
    sizes = iter([None, 10, None])

    def short(descriptor: int, data: bytes) -> int:
        size = next(sizes)
        return real(descriptor, data if size is None else data[:size])

    monkeypatch.setattr(line_file.os, "write", short)
    path = tmp_path / "events.jsonl"
    errors = write(path, 3)
    assert [event["frame"] for event in events(path)] == [0, 2]
    assert len(errors) == 1


def test_a_disk_that_hangs_never_blocks_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hang = threading.Event()
    monkeypatch.setattr(module, "_MAX_LINES", 5)
    monkeypatch.setattr(line_file.os, "write", lambda descriptor, data: hang.wait() and len(data))
    errors = Errors()
    log = EventLog(
        str(tmp_path / "events.jsonl"), only_alarms=False, sync="alarm", on_error=errors.count
    )
    for index in range(20):
        log.on_frame(result(index))
    lost = [message for _, message in errors if "too slow" in message]
    assert len(lost) in (14, 15), "five wait, one may be with the writer"
    hang.set()
    log.close()


@pytest.mark.parametrize("torn", [b'{"schema":1,"event":"fra', b"\0" * 5000, b"17", b"\xff"])
def test_a_torn_last_line_is_cut_off_and_the_next_event_stands_alone(
    tmp_path: Path, torn: bytes
) -> None:
    path = tmp_path / "events.jsonl"
    write(path, 2)
    whole = path.read_bytes()
    path.write_bytes(whole + torn)
    assert write(path, 1) == []
    assert path.read_bytes().startswith(whole)
    kinds = [event["event"] for event in events(path)]
    assert kinds == ["frame", "frame", "log_mended", "frame"]
    assert events(path)[2]["cut_bytes"] == len(torn)


def test_a_last_event_without_its_newline_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    write(path, 2)
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    write(path, 1)
    assert [event["frame"] for event in events(path)] == [0, 1, 0]


def test_a_line_of_someone_else_that_is_longer_than_ours_is_ended(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"x" * (1 << 20))
    assert line_file.mend_end(path) == 0
    assert path.read_bytes() == b"x" * (1 << 20) + b"\n"
    path.write_bytes(b"")
    assert line_file.mend_end(path) == 0
    assert path.read_bytes() == b""


@pytest.mark.parametrize(
    ("sync", "expected"), [("never", (0, 0, 0)), ("alarm", (0, 1, 2)), ("every", (1, 2, 3))]
)
def test_what_a_power_cut_may_not_take_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sync: module.Sync, expected: tuple[int, ...]
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(
        line_file.os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_size)
    )
    path = tmp_path / "events.jsonl"
    path.touch()  # a new one's folder is synced as well
    errors = Errors()
    log = EventLog(str(path), only_alarms=False, sync=sync, on_error=errors.count)
    for index, alarm in enumerate((False, True)):
        log.on_frame(result(index, alarm=alarm))
        wait(lambda count=expected[index]: len(synced) == count, "not synced")
    log.close()
    log.write_last({"event": "run_end"})
    assert errors == []
    assert len(synced) == expected[-1]
    if synced:
        assert synced[-1] == path.stat().st_size, "the last one covers the whole file"


def test_a_pipe_that_nobody_reads_costs_lines_and_does_not_hang_the_end(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    errors = Errors()
    log = EventLog(str(path), only_alarms=False, sync="every", on_error=errors.count)
    log.on_frame(result(0))
    log.close()
    log.write_last({"event": "run_end"})
    assert errors == [("events", f"{path}: nobody reads the pipe; lines are lost")] * 2


def test_a_pipe_that_is_read_gets_every_line(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    assert write(path, 3) == []
    lines = os.read(reader, 1 << 16).splitlines()
    os.close(reader)
    assert [json.loads(line)["frame"] for line in lines] == [0, 1, 2]


def test_a_reader_that_stops_reading_does_not_hang_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_END_S", 0.1)
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    errors = Errors()
    log = EventLog(str(path), only_alarms=False, sync="every", on_error=errors.count)
    for index in range(400):  # more than a pipe holds
        log.on_frame(result(index))
    log.close()
    log.write_last({"event": "run_end"})
    assert errors == [("events", f"{path}: hangs; the end is not logged")]
    os.close(reader)  # the writer's thread ends
