"""What people may write after --source."""

from pathlib import Path

import pytest

from edgeseg.errors import UsageError
from edgeseg.runtime.capture.source_spec import SourceSpec, SyntheticOptions, parse_source


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.png", "a.JPG", "notes.txt", "clip.mp4", "odd!name.mp4"):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "empty").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("text", "kind", "live", "reconnects"),
    [
        ("0", "device", True, True),
        ("/dev/video2", "device", True, True),
        ("rtsp://user:p!w@cam/1", "network", True, True),
        ("HTTP://cam/video.cgi?x=1", "network", True, True),
        ("https://host/clips/a.mp4", "network", False, False),
        ("v4l2src ! videoconvert ! appsink", "gstreamer", True, True),
        ("filesrc location=a.mp4 ! decodebin ! appsink", "gstreamer", False, False),
        ("synthetic:", "synthetic", True, False),
        ("synthetic:fps=0,frames=3", "synthetic", False, False),
    ],
)
def test_kinds(text: str, kind: str, live: bool, reconnects: bool) -> None:
    spec = parse_source(text)
    assert (spec.kind, spec.live, spec.reconnects) == (kind, live, reconnects)
    assert spec.policy(None) == ("latest" if live else "every")
    assert spec.policy("queue") == "queue"


def test_files_folders_and_globs(folder: Path) -> None:
    assert parse_source(str(folder / "clip.mp4")).kind == "video"
    assert not parse_source(str(folder / "clip.mp4")).live
    assert parse_source(str(folder / "clip.mp4"), realtime=True).live
    assert parse_source(str(folder / "odd!name.mp4")).kind == "video", "a file, not a pipeline"
    names = [path.name for path in parse_source(str(folder)).paths]
    assert names == ["a.JPG", "b.png"]
    assert [path.name for path in parse_source(f"{folder}/*.png").paths] == ["b.png"]
    assert [path.name for path in parse_source(str(folder / "b.png")).paths] == ["b.png"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nowhere.mp4", "--source 'nowhere.mp4': no such file; expected a camera index (0)"),
        ("", "--source '': no such file"),
        ("no/*.png", "--source 'no/*.png': no images there; expected files ending in .bmp"),
        ("gopher://a:hunter2@b/", "--source 'gopher://***@b/': no such file"),
        ("synthetic:fsp=3", "unknown 'fsp', expected fps, defects, frames, seed, height, width"),
        ("synthetic:fps=fast", "fps='fast' is not a number"),
        ("synthetic:frames=1.5", "frames='1.5' is not a number"),
        ("synthetic:defects=2", "synthetic: defects=2.0, expected a share between 0 and 1"),
        ("synthetic:fps=-1", "synthetic: fps=-1.0, expected 0 or more"),
        ("synthetic:width=8", "synthetic: 8x256 pixels, expected at least 32x32"),
    ],
)
def test_what_cannot_be_meant_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_source(text)
    assert message in str(error.value)
    assert "hunter2" not in str(error.value)


def test_an_empty_folder_is_refused(folder: Path) -> None:
    with pytest.raises(UsageError, match="no images there"):
        parse_source(str(folder / "empty"))


def test_options_of_the_scene() -> None:
    spec = parse_source("synthetic:fps=10,defects=0.5,frames=7,seed=3,height=64,width=96")
    assert spec.synthetic == SyntheticOptions(
        fps=10, defects=0.5, frames=7, seed=3, height=64, width=96
    )


def test_neither_name_nor_repr_holds_the_password() -> None:
    spec: SourceSpec = parse_source("rtsp://admin:hunter2@cam/1")
    assert spec.text == "rtsp://admin:hunter2@cam/1"
    assert spec.name == "rtsp://***@cam/1"
    assert "hunter2" not in repr(spec)
