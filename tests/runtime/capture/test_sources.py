"""What people may write after --source."""

from pathlib import Path

import pytest

from edgeseg.base.errors import RuntimeFailure, UsageError
from edgeseg.runtime.capture.image_files import image_paths
from edgeseg.runtime.capture.sources import (
    SOURCES,
    SourceKind,
    SourceSpec,
    open_capture,
    parse_source,
)
from edgeseg.runtime.capture.synthetic_camera import SyntheticOptions
from edgeseg.vision.images import IMAGE_SUFFIXES
from tests.doubles.fakes import Canned, grey


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.png", "a.JPG", ".hidden.png", "notes.txt", "clip.mp4", "odd!name.mp4"):
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
        ("-", "stdin", True, False),
        ("stdin:640x480", "stdin", True, False),
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
    for text, names in (
        (str(folder), ["a.JPG", "b.png"]),
        (f"{folder}/*.png", ["b.png"]),
        (str(folder / "b.png"), ["b.png"]),
        (str(folder / ".hidden.png"), [".hidden.png"]),
    ):
        assert parse_source(text).kind == "images"
        assert [path.name for path in image_paths(text)] == names


def test_every_suffix_of_a_dataset_is_one_of_a_source(tmp_path: Path) -> None:
    for suffix in IMAGE_SUFFIXES:
        (tmp_path / f"a{suffix}").touch()
    assert {path.suffix for path in image_paths(str(tmp_path))} == IMAGE_SUFFIXES
    assert {path.suffix for path in image_paths(f"{tmp_path}/*")} == IMAGE_SUFFIXES


def test_a_folder_of_that_name_is_not_in_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("synthetic", "0"):
        (tmp_path / name).mkdir()
    assert parse_source("synthetic").kind == "synthetic"
    assert parse_source("0").kind == "device"


def test_a_pipeline_longer_than_any_file_name() -> None:
    assert parse_source(f"{'videotestsrc ! ' * 100}appsink").kind == "gstreamer"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nowhere.mp4", "source='nowhere.mp4': no such file; expected a camera index (0)"),
        ("", "source='': no such file"),
        ("no/*.png", "source='no/*.png': no images there; expected files ending in .bmp"),
        ("rtps://a:hunter2*@b/", "source='rtps://***@b/': no images there"),
        ("gopher://a:hunter2@b/", "source='gopher://***@b/': no such file"),
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
    text = "synthetic:fps=10,defects=0.5,frames=7,seed=3,height=64,width=96"
    assert SyntheticOptions.parse(text) == SyntheticOptions(
        fps=10, defects=0.5, frames=7, seed=3, height=64, width=96
    )


def test_neither_name_nor_repr_holds_the_password() -> None:
    spec: SourceSpec = parse_source("rtsp://admin:hunter2@cam/1")
    assert spec.text == "rtsp://admin:hunter2@cam/1"
    assert spec.name == "rtsp://***@cam/1"
    assert "hunter2" not in repr(spec)


def test_a_new_kind_is_one_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    toy = SourceKind(
        expects="toy:LEVEL for one grey frame",
        recognise=lambda text: text.startswith("toy:"),
        live=lambda text, realtime: False,
        open=lambda text, opening: Canned([grey(int(text[4:]))]) if text != "toy:0" else None,
        why_not=lambda text: "too dark",
    )
    with pytest.raises(UsageError, match="no such file"):
        parse_source("toy:7")
    monkeypatch.setitem(SOURCES, "toy", toy)
    spec = parse_source("toy:7")
    assert (spec.kind, spec.name, spec.live, spec.reconnects) == ("toy", "toy:7", False, False)
    grab = open_capture(spec, wait=lambda seconds: False, timeout_s=1.0).read()
    assert grab is not None
    assert grab.image_hwc is not None
    assert grab.image_hwc.max() == 7
    with pytest.raises(RuntimeFailure, match="toy:0: too dark"):
        open_capture(parse_source("toy:0"), wait=lambda seconds: False, timeout_s=1.0)
    with pytest.raises(UsageError, match="images or toy:LEVEL for one grey frame"):
        parse_source("nowhere")
