"""Annotated video: complete, in time, and harmless when it cannot be written."""

import os
import shutil
from collections import namedtuple
from pathlib import Path

import cv2
import numpy as np
import pytest

from edgeseg.base.errors import RuntimeFailure, UsageError
from edgeseg.decision.prediction import Prediction
from edgeseg.runtime.events.records import FrameResult, StageTimes
from edgeseg.runtime.sinks.video import Recorder, VideoFile
from tests.doubles.fakes import grey


def result(
    index: int, *, source: int = 0, seconds: float = 0.0, size_hw: tuple[int, int] = (97, 131)
) -> FrameResult:
    return FrameResult(
        source="cam",
        source_index=source,
        frame_index=index,
        frame_name="",
        wall_s=seconds,
        monotonic_s=seconds,
        frame_hwc=grey(100 + index % 100, size_hw)[:, :, ::-1],
        roi_xy=(0, 0),
        prediction=Prediction(map_hw=np.zeros((16, 16), np.float32), score=1.0),
        threshold_score=2.0,
        threshold_pixel=2.0,
        verdict="good",
        alarm=False,
        alarm_started=False,
        regions=(),
        region_count=0,
        times=StageTimes(0, 0, 0, 0, 0, 0),
    )


class Bench:
    def __init__(self, folder: Path, *, first: str | None = "a.mp4", live: bool = False) -> None:
        self.errors: list[str] = []
        self.recorder = Recorder(
            folder,
            first=folder / first if first else None,
            fps_of=lambda index: 10.0,
            live=live,
            on_error=lambda name, message: self.errors.append(f"{name}: {message}"),
        )


def frames_of(path: Path) -> int:
    video = cv2.VideoCapture(str(path))
    count = 0
    while video.read()[0]:
        count += 1
    return count


@pytest.mark.parametrize("name", ["a.mp4", "a.avi", "a.mkv"])
def test_every_frame_of_a_file_is_in_the_video(tmp_path: Path, name: str) -> None:
    bench = Bench(tmp_path, first=name)
    for index in range(30):
        bench.recorder.on_frame(result(index))
        assert not (tmp_path / name).exists(), "it appears when it is complete"
    bench.recorder.close()
    assert bench.errors == []
    assert frames_of(tmp_path / name) == 30
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_live_video_keeps_real_time(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.recorder._live = True
    moments = [0.0, 0.1, 0.11, 0.12, 1.0, 3600.0]  # a burst, a gap, a night without a camera
    for index, seconds in enumerate(moments):
        bench.recorder._queue.put(result(index, seconds=seconds))
    bench.recorder.close()
    # At 10 per second: 0.0, 0.1, the burst left out, 1.0 nine times, the night two seconds.
    assert frames_of(tmp_path / "a.mp4") == 1 + 1 + 9 + 20


def test_each_source_has_a_file_of_its_own(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for index in range(6):
        bench.recorder.on_frame(result(index, source=index % 2))
    bench.recorder.close()
    assert (frames_of(tmp_path / "a.mp4"), frames_of(tmp_path / "a-1.mp4")) == (3, 3)


def test_a_stream_that_changes_its_size_stays_one_video(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for index, size_hw in enumerate([(64, 64), (128, 128), (32, 32)]):
        bench.recorder.on_frame(result(index, size_hw=size_hw))
    bench.recorder.close()
    assert bench.errors == []
    assert frames_of(tmp_path / "a.mp4") == 3


def test_start_and_stop(tmp_path: Path) -> None:
    bench = Bench(tmp_path, first=None)
    assert not bench.recorder.active
    bench.recorder.on_frame(result(0))
    bench.recorder.start()
    assert bench.recorder.active
    for index in range(5):
        bench.recorder.on_frame(result(index))
    bench.recorder.stop()
    assert not bench.recorder.active
    bench.recorder.on_frame(result(9))
    bench.recorder.close()
    (path,) = tmp_path.iterdir()
    assert path.name.startswith("recording-")
    assert frames_of(path) == 5


def test_a_full_disk_ends_the_recording_and_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    bench = Bench(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(1, 1, 0))
    for index in range(60):
        bench.recorder.on_frame(result(index))
    bench.recorder.close()
    assert bench.errors[0].startswith("video: recording stops: ")
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")], "no leftovers"
    assert "the disk is full" in bench.errors[0]
    assert not bench.recorder.active
    with pytest.raises(RuntimeFailure, match="the disk is full, a video cannot be recorded"):
        bench.recorder.start()


@pytest.mark.parametrize("name", ["a.mp4", "a.avi", "a.mkv", "a.mov"])
@pytest.mark.parametrize("trouble", ["no room", "no encoder"])
def test_an_old_video_stays_where_nothing_could_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, trouble: str
) -> None:
    (tmp_path / name).write_bytes(b"of yesterday")
    usage = namedtuple("usage", "total used free")
    if trouble == "no room":
        monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(1, 1, 0))
    else:  # takes pictures and writes none, as OpenCV does on a full disk
        monkeypatch.setattr(cv2.VideoWriter, "fourcc", lambda *letters: -1)
    bench = Bench(tmp_path, first=name)
    bench.recorder.on_frame(result(0))
    bench.recorder.close()
    assert len(bench.errors) == 1
    assert (tmp_path / name).read_bytes() == b"of yesterday"
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_video_that_does_not_play_does_not_replace_another(tmp_path: Path) -> None:
    (tmp_path / "a.mp4").write_bytes(b"of yesterday")
    file = VideoFile(tmp_path / "a.mp4", fps=10.0, live=False)
    file.write(grey(7, (32, 32)), 0.0)
    file._writer.release()
    file._temporary.write_bytes(file._temporary.read_bytes()[:100])  # the rest did not fit
    with pytest.raises(RuntimeFailure, match=r"nothing could be written; is the disk full\?"):
        file.close()
    assert (tmp_path / "a.mp4").read_bytes() == b"of yesterday"


def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.mp4")
    with pytest.raises(UsageError, match=r"a\.mp4: is a pipe or a device, expected a name for a"):
        Bench(tmp_path)


def test_a_folder_that_cannot_be_made_is_counted(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    bench = Bench(tmp_path / "file")
    bench.recorder.on_frame(result(0))
    bench.recorder.close()
    assert bench.errors == ["video: recording stops: File exists"]


def test_an_unknown_container_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"expected a file ending in \.avi, \.mkv, \.mov, \.mp4"):
        Bench(tmp_path, first="a.gif")
