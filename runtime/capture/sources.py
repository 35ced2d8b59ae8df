"""Kinds of sources: how the text of --source is recognised, and how it is opened.

    text --parse_source--> SourceSpec --open_capture--> Capture, which a Reader reads

A new kind is a class with `read` and `close`, and one entry of SOURCES.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from edgeseg.base.errors import RuntimeFailure, UsageError
from edgeseg.base.files import home_path, is_there
from edgeseg.base.messages import Setting
from edgeseg.runtime.capture.aravis.settings import AravisOptions
from edgeseg.runtime.capture.captures import Capture, Trigger, Wait
from edgeseg.runtime.capture.frame_buffer import Policy
from edgeseg.runtime.capture.image_files import ImageFiles, image_paths
from edgeseg.runtime.capture.opencv_capture import (
    OpenCvCapture,
    is_index,
    open_device,
    open_network,
    open_video,
    why_no_device,
    why_no_network,
)
from edgeseg.runtime.capture.picture_address import PictureAddress, is_picture_address
from edgeseg.runtime.capture.redact import redact, redact_url
from edgeseg.runtime.capture.standard_input import StandardInput, parse_standard_input
from edgeseg.runtime.capture.synthetic_camera import SyntheticCamera, SyntheticOptions
from edgeseg.vision.images import has_image_suffix
from edgeseg.vision.picture_size import MAX_PIXELS

VIDEO_SUFFIXES = {".mp4", ".avi", ".mkv", ".mov", ".webm", ".m4v", ".mpg", ".ts"}
SCHEMES = ("rtsp", "rtsps", "http", "https", "rtmp", "udp", "tcp", "srt")


@dataclass(frozen=True, kw_only=True)
class SourceSpec:
    """One parsed --source."""

    kind: str  # a key of SOURCES
    text: str = field(repr=False)  # as given, credentials included: never printed
    name: str  # fit for logs
    live: bool  # frames come at their own pace and go stale
    reconnects: bool = False  # a live source that can be lost and come back
    max_pixels: int = MAX_PIXELS  # of a frame by its header, before it is decoded
    trigger: Trigger = "off"  # otherwise frames come when asked for, and silence is no loss
    delay_s: float = 0.0  # from exposure to arrival, that no clock of the source shows
    repeats: bool = False  # a picture that is the one before, byte for byte, is a new one

    def policy(self, asked: Policy | None) -> Policy:
        """Return the policy asked for, else the newest frame of live sources and all of others.

        A triggered frame shows somebody's part, so it waits its turn.
        """
        if self.trigger != "off":
            return asked or "queue"
        return asked or ("latest" if self.live else "every")


class Opening(NamedTuple):
    """Options with which the run opens a source."""

    live: bool
    wait: Wait
    timeout_s: float
    max_pixels: int = MAX_PIXELS


@dataclass(frozen=True, kw_only=True)
class SourceKind:
    """An entry of SOURCES."""

    expects: str  # how it is written, in the words of the error that misses it
    recognise: Callable[[str], bool]
    live: Callable[[str, bool], bool]  # by the text and whether videos play at their own rate
    reconnects: bool = False  # where it is live
    trigger: Callable[[str], Trigger] = lambda text: "off"
    check: Callable[[str], object] = str  # raises where the text cannot be meant
    shown: Callable[[str], str] = str  # the text without its secrets
    open: Callable[[str, Opening], Capture | None]  # None: it does not open
    why_not: Callable[[str], str] = lambda text: "cannot be opened"


def _scheme(text: str) -> str:
    return text.partition("://")[0].lower() if "://" in text else ""


def _file(text: str) -> Path | None:
    """Return the file or folder of that name, if there is one."""
    path = home_path(text)
    return path if text and is_there(path) else None  # a pipeline can be longer than any name


def _is_device(text: str) -> bool:
    """Whether the text names a camera, connected or not; /dev/shm holds files."""
    path = _file(text)
    is_file = path is not None and (path.is_file() or path.is_dir())
    return is_index(text) or (text.startswith("/dev/") and not is_file)


def _is_video(text: str) -> bool:
    path = _file(text)
    return path is not None and not path.is_dir() and not has_image_suffix(path)


def _stays_open(url: str) -> bool:
    """Whether a stream goes on; a video file on a web server ends."""
    try:
        suffix = Path(urlsplit(url).path).suffix.lower()
    except ValueError:  # a bracket in a password looks like an address of IPv6
        return True
    return not (url.lower().startswith("http") and suffix in VIDEO_SUFFIXES)


def _open_gstreamer(text: str, opening: Opening) -> Capture:
    from edgeseg.runtime.capture.gstreamer_process import open_gstreamer

    return open_gstreamer(text, live=opening.live, wait=opening.wait, timeout_s=opening.timeout_s)


def _open_aravis(text: str, opening: Opening) -> Capture:
    # Loads the system's library: only for those who have such a camera.
    from edgeseg.runtime.capture.aravis.camera import open_camera

    return open_camera(text, wait=opening.wait, timeout_s=opening.timeout_s)


# Recognised in this order: a text that speaks for itself before a look at the disk.
SOURCES = {
    "device": SourceKind(
        expects="a camera index (0), /dev/video0",
        recognise=_is_device,
        live=lambda text, realtime: True,
        reconnects=True,
        open=lambda text, opening: open_device(text),
        why_not=why_no_device,
    ),
    "picture": SourceKind(
        expects="http://camera/picture.jpg",
        recognise=is_picture_address,
        live=lambda text, realtime: True,
        reconnects=True,
        shown=redact_url,
        open=lambda text, opening: PictureAddress(
            text,
            timeout_s=opening.timeout_s,
            wait=opening.wait,
            max_pixels=opening.max_pixels,
        ),
        why_not=why_no_network,
    ),
    "network": SourceKind(
        expects="rtsp:// or http://",
        recognise=lambda text: _scheme(text) in SCHEMES,  # a password may hold a pipeline's '!'
        live=lambda text, realtime: _stays_open(text),
        reconnects=True,
        shown=redact_url,
        open=lambda text, opening: open_network(text, timeout_s=opening.timeout_s),
        why_not=why_no_network,
    ),
    "synthetic": SourceKind(
        expects="synthetic:fps=30,defects=0.1",
        recognise=lambda text: text.partition(":")[0] == "synthetic",
        live=lambda text, realtime: SyntheticOptions.parse(text).fps > 0,
        open=lambda text, opening: SyntheticCamera(SyntheticOptions.parse(text), wait=opening.wait),
    ),
    "aravis": SourceKind(
        expects="aravis:SERIAL for a GigE or USB3 Vision camera",
        recognise=lambda text: text.partition(":")[0] == "aravis",
        live=lambda text, realtime: True,
        reconnects=True,
        trigger=lambda text: AravisOptions.parse(text).trigger,
        check=AravisOptions.parse,
        open=_open_aravis,
    ),
    "stdin": SourceKind(
        expects="- for frames from another program",
        recognise=lambda text: text == "-" or text.partition(":")[0] == "stdin",
        live=lambda text, realtime: True,  # for all that is known, it is a camera
        check=parse_standard_input,
        shown=lambda text: "stdin" if text == "-" else text,
        open=lambda text, opening: StandardInput(
            text, wait=opening.wait, timeout_s=opening.timeout_s
        ),
    ),
    "video": SourceKind(
        expects="a video file",
        recognise=_is_video,
        live=lambda text, realtime: realtime,
        open=lambda text, opening: open_video(
            home_path(text), realtime=opening.live, wait=opening.wait
        ),
        why_not=lambda text: "not a video that OpenCV can decode",
    ),
    "gstreamer": SourceKind(
        expects="a GStreamer pipeline ('... ! appsink')",
        recognise=lambda text: "!" in text and _file(text) is None,
        # A pipeline that reads a file ends; reconnecting would score its frames again.
        live=lambda text, realtime: "filesrc" not in text,
        reconnects=True,
        shown=redact,
        open=_open_gstreamer,
    ),
    "images": SourceKind(
        expects="a folder or glob of images",
        recognise=lambda text: _file(text) is not None or any(mark in text for mark in "*?["),
        live=lambda text, realtime: False,
        check=image_paths,
        open=lambda text, opening: ImageFiles(image_paths(text), max_pixels=opening.max_pixels),
    ),
}


def parse_source(
    text: str,
    *,
    realtime: bool = False,
    max_pixels: int = MAX_PIXELS,
    delay_s: float = 0.0,
    repeats: bool = False,
) -> SourceSpec:
    """Parse a --source; `realtime` plays video files at their own rate, like a camera."""
    text = text.strip()
    for kind, source in SOURCES.items():
        if source.recognise(text):
            source.check(text)
            live = source.live(text, realtime)
            return SourceSpec(
                kind=kind,
                text=text,
                name=source.shown(text),
                live=live,
                reconnects=live and source.reconnects,
                trigger=source.trigger(text),
                max_pixels=max_pixels,
                delay_s=delay_s,
                repeats=repeats,
            )
    *most, last = (source.expects for source in SOURCES.values())
    raise UsageError(
        Setting("source", repr(redact_url(text))),
        f": no such file; expected {', '.join(most)} or {last}",
    )


def open_capture(spec: SourceSpec, *, wait: Wait, timeout_s: float) -> Capture:
    """Open a source, or raise RuntimeFailure with the reason."""
    source = SOURCES[spec.kind]
    opening = Opening(live=spec.live, wait=wait, timeout_s=timeout_s, max_pixels=spec.max_pixels)
    capture = source.open(spec.text, opening)
    if capture is None:
        raise RuntimeFailure(f"{spec.name}: {source.why_not(spec.text)}")
    if isinstance(capture, OpenCvCapture) and capture.pixels > spec.max_pixels:
        capture.close()
        raise RuntimeFailure(
            f"{spec.name}: frames of {capture.pixels} pixels, more than ",
            Setting("max_pixels", spec.max_pixels),
            "; if they are real, allow so many",
        )
    return capture
