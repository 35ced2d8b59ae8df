"""Snapshots: what is written, what is deleted, and what a bad disk costs."""

import errno
import json
import threading
from pathlib import Path

import cv2
import numpy as np
import pytest

from edgeseg.runtime.events.records import FrameResult
from edgeseg.runtime.sinks import snapshots
from edgeseg.runtime.sinks.snapshots import SnapshotSink, snapshot_stem
from tests.doubles.fakes import wait
from tests.support.scored_frames import make_result


class Errors:
    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, name: str, text: str) -> None:
        assert name == "snapshots"
        self.texts.append(text)


def _alarm(index: int, *, wall_s: float | None = None) -> FrameResult:
    rng = np.random.default_rng(index)
    frame = rng.integers(0, 256, (48, 64, 3), dtype=np.uint8)
    when = 1_700_000_000.0 + index if wall_s is None else wall_s
    return make_result(
        score=20.0, frame_hwc=frame, alarm_started=True, frame_index=index, wall_s=when
    )


def _sink(
    folder: Path, *, max_count: int = 1000, max_bytes: int = 10**9, on_error: Errors
) -> SnapshotSink:
    return SnapshotSink(folder, max_count=max_count, max_bytes=max_bytes, on_error=on_error)


def _put(sink: SnapshotSink, result: FrameResult) -> None:
    """Hand over one alarm and wait until it is written."""
    before = sink.written
    sink.on_frame(result)
    wait(lambda: sink.written > before, "not written")
    assert sink.written == before + 1


def _kept(folder: Path) -> list[int]:
    """Frame numbers of the snapshots that are whole."""
    kept = []
    for path in sorted(folder.glob("alarm-*.json")):
        assert path.with_suffix(".jpg").exists()
        assert path.with_suffix(".raw.png").exists()
        kept.append(json.loads(path.read_text())["frame"])
    return kept


def test_an_alarm_is_kept_as_picture_frame_and_facts(tmp_path: Path) -> None:
    errors = Errors()
    sink = _sink(tmp_path / "new" / "folder", on_error=errors)
    result = _alarm(7)
    sink.on_frame(make_result(score=5.0))
    sink.on_frame(make_result(score=20.0, alarm=True))  # the alarm goes on: no second snapshot
    sink.on_frame(result)
    sink.close()
    stem = "alarm-20231114T221327.000Z-s0-f7"
    assert snapshot_stem(result) == stem
    folder = tmp_path / "new" / "folder"
    assert sorted(path.name for path in folder.iterdir()) == [
        f"{stem}.jpg",
        f"{stem}.json",
        f"{stem}.raw.png",
    ]
    raw = cv2.cvtColor(cv2.imread(str(folder / f"{stem}.raw.png")), cv2.COLOR_BGR2RGB)
    np.testing.assert_array_equal(raw, result.frame_hwc)  # without loss, in the right order
    assert cv2.imread(str(folder / f"{stem}.jpg")).shape[1] == 64
    facts = json.loads((folder / f"{stem}.json").read_text())
    assert (facts["score"], facts["verdict"], facts["frame"]) == (20.0, "defect", 7)
    assert (sink.written, errors.texts) == (1, [])


def test_oldest_are_deleted_by_count(tmp_path: Path) -> None:
    sink = _sink(tmp_path, max_count=3, on_error=Errors())
    for index in range(8):
        _put(sink, _alarm(index))
    sink.close()
    assert _kept(tmp_path) == [5, 6, 7]
    assert len(list(tmp_path.iterdir())) == 9


def test_no_facts_tell_of_a_picture_that_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors, unlink = Errors(), Path.unlink
    sink = _sink(tmp_path, max_count=1, on_error=errors)
    _put(sink, _alarm(0))
    deleted: list[str] = []

    def watched(path: Path, missing_ok: bool = False) -> None:
        unlink(path, missing_ok=missing_ok)
        deleted.append(path.name)
        _kept(tmp_path)  # what a run that is killed here would leave

    monkeypatch.setattr(Path, "unlink", watched)
    _put(sink, _alarm(1))
    sink.close()
    assert len([name for name in deleted if "-f0." in name]) == 3
    assert errors.texts == []


def test_bytes_never_exceed_their_limit(tmp_path: Path) -> None:
    limit = 50_000  # four snapshots of noise
    errors = Errors()
    sink = _sink(tmp_path, max_bytes=limit, on_error=errors)
    for index in range(12):
        _put(sink, _alarm(index))
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= limit
    sink.close()
    kept = _kept(tmp_path)
    assert 2 <= len(kept) <= 6
    assert kept == list(range(12 - len(kept), 12))
    assert errors.texts == []


def test_one_that_is_larger_than_the_limit_is_counted(tmp_path: Path) -> None:
    errors = Errors()
    sink = _sink(tmp_path, max_bytes=1000, on_error=errors)
    sink.on_frame(_alarm(0))
    sink.close()
    assert list(tmp_path.iterdir()) == []
    assert len(errors.texts) == 1
    assert "the limit 1000; it is lost" in errors.texts[0]


def test_snapshots_of_earlier_runs_count_and_other_files_are_left_alone(tmp_path: Path) -> None:
    first = _sink(tmp_path, on_error=Errors())
    for index in range(3):
        _put(first, _alarm(index))
    first.close()
    strange = ["notes.txt", "alarm-mine.json", "alarm-20231114T221327.000Z-s0-f7.txt", "raw.png"]
    for name in strange:
        (tmp_path / name).write_text("kept")
    second = _sink(tmp_path, max_count=2, on_error=Errors())
    _put(second, _alarm(9))
    second.close()
    for name in strange:
        assert (tmp_path / name).read_text() == "kept"
        (tmp_path / name).unlink()
    assert _kept(tmp_path) == [2, 9]


def test_unwritable_folder_costs_snapshots_and_recovers(tmp_path: Path) -> None:
    errors = Errors()
    folder = tmp_path / "taken"
    folder.write_text("a file where the folder should be")
    sink = _sink(folder, on_error=errors)
    sink.on_frame(_alarm(0))
    wait(lambda: bool(errors.texts), "no error")
    assert "a snapshot is lost" in errors.texts[0]
    folder.unlink()
    _put(sink, _alarm(1))
    sink.close()
    assert _kept(folder) == [1]


def test_full_disk_leaves_no_halves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    errors = Errors()
    whole = Path.write_bytes

    def write_bytes(path: Path, data: bytes) -> int:
        if path.suffix == ".png":
            raise OSError(errno.ENOSPC, "No space left on device")
        return whole(path, data)

    monkeypatch.setattr(Path, "write_bytes", write_bytes)
    sink = _sink(tmp_path, on_error=errors)
    sink.on_frame(_alarm(0))
    sink.close()
    assert errors.texts == [f"{tmp_path}: No space left on device; a snapshot is lost"]
    assert list(tmp_path.iterdir()) == []


def test_scoring_never_waits_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    errors, blocked = Errors(), threading.Event()

    def hang(result: FrameResult) -> dict[str, bytes]:
        blocked.wait()
        return {".jpg": b"1", ".raw.png": b"2", ".json": b"3"}

    monkeypatch.setattr(snapshots, "_contents", hang)
    sink = _sink(tmp_path, on_error=errors)
    for index in range(20):  # returns although nothing is written
        sink.on_frame(_alarm(index))
    lost = len(errors.texts)
    assert 20 - snapshots._WAITING - 1 <= lost <= 20 - snapshots._WAITING
    assert set(errors.texts) == {"the disk is too slow; a snapshot is lost"}
    blocked.set()
    sink.close()
    assert sink.written == 20 - lost


def test_an_invalid_frame_is_kept_too(tmp_path: Path) -> None:
    sink = _sink(tmp_path, on_error=Errors())
    _put(sink, make_result(score=float("nan"), alarm_started=True))
    sink.close()
    (path,) = tmp_path.glob("*.json")
    assert json.loads(path.read_text())["score"] is None
