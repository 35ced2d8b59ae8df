"""The grammar of --source: a text becomes a checked description of where frames come from."""

import glob
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from edgeseg.errors import UsageError
from edgeseg.runtime.capture.frame_buffer import Policy
from edgeseg.runtime.capture.redact import redact, redact_url

Kind = Literal["device", "network", "gstreamer", "video", "images", "synthetic"]

IMAGE_SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp", ".pgm", ".ppm"}
VIDEO_SUFFIXES = {".mp4", ".avi", ".mkv", ".mov", ".webm", ".m4v", ".mpg", ".ts"}
SCHEMES = ("rtsp", "rtsps", "http", "https", "rtmp", "udp", "tcp", "srt")
GRAMMAR = (
    "a camera index (0), /dev/video0, rtsp:// or http://, a video file, a folder or glob of "
    "images, a GStreamer pipeline ('... ! appsink') or synthetic:fps=30,defects=0.1"
)


@dataclass(frozen=True, kw_only=True)
class SyntheticOptions:
    """What stands behind `synthetic:`."""

    fps: float = 30.0  # 0: as fast as they can be drawn, and every one is scored
    defects: float = 0.1  # share of defective frames
    frames: int = 0  # 0: endless
    seed: int = 0
    height: int = 256
    width: int = 256

    def __post_init__(self) -> None:
        if not 0 <= self.defects <= 1:
            raise UsageError(f"synthetic: defects={self.defects}, expected a share between 0 and 1")
        for name in ("fps", "frames", "seed"):
            if getattr(self, name) < 0:
                raise UsageError(f"synthetic: {name}={getattr(self, name)}, expected 0 or more")
        if min(self.height, self.width) < 32:
            raise UsageError(
                f"synthetic: {self.width}x{self.height} pixels, expected at least 32x32"
            )


@dataclass(frozen=True, kw_only=True)
class SourceSpec:
    """One parsed --source."""

    kind: Kind
    text: str = field(repr=False)  # as given, credentials included: never printed
    name: str  # fit for logs
    live: bool  # frames come at their own pace and go stale
    reconnects: bool = False  # a live source that can be lost and come back
    paths: tuple[Path, ...] = ()  # images only
    synthetic: SyntheticOptions | None = None

    def policy(self, asked: Policy | None) -> Policy:
        """What was asked for; otherwise the newest frame of live sources and every other frame."""
        return asked or ("latest" if self.live else "every")


def parse_source(text: str, *, realtime: bool = False) -> SourceSpec:
    """Understand a --source; `realtime` plays video files at their own rate, like a camera."""
    text = text.strip()
    scheme = text.partition("://")[0].lower() if "://" in text else ""
    if text.isdigit() or text.startswith("/dev/"):
        return SourceSpec(kind="device", text=text, name=text, live=True, reconnects=True)
    if text == "synthetic" or text.startswith("synthetic:"):
        options = _parse_synthetic(text)
        return SourceSpec(
            kind="synthetic", text=text, name=text, live=options.fps > 0, synthetic=options
        )
    if scheme in SCHEMES:  # before the search for '!', which a password may hold
        return _network(text)
    path = Path(text).expanduser()
    if text and path.exists():
        return _local(path, text, realtime=realtime)
    if "!" in text:
        # A pipeline that reads a file ends; reconnecting would score its frames again.
        live = "filesrc" not in text
        return SourceSpec(
            kind="gstreamer", text=text, name=redact(text), live=live, reconnects=live
        )
    if any(letter in text for letter in "*?["):
        found = sorted(Path(name) for name in glob.glob(str(path), recursive=True))  # noqa: PTH207
        return _images(text, [item for item in found if item.is_file()])
    raise UsageError(f"--source {redact_url(text)!r}: no such file; expected {GRAMMAR}")


def _network(text: str) -> SourceSpec:
    suffix = Path(urlsplit(text).path).suffix.lower()
    live = not (text.lower().startswith("http") and suffix in VIDEO_SUFFIXES)
    return SourceSpec(kind="network", text=text, name=redact_url(text), live=live, reconnects=live)


def _local(path: Path, text: str, *, realtime: bool) -> SourceSpec:
    if path.is_dir():
        return _images(text, sorted(item for item in path.iterdir() if _is_image(item)))
    if _is_image(path):
        return _images(text, [path])
    return SourceSpec(kind="video", text=str(path), name=text, live=realtime)


def _images(text: str, paths: list[Path]) -> SourceSpec:
    paths = [path for path in paths if _is_image(path)]
    if not paths:
        raise UsageError(
            f"--source {text!r}: no images there; expected files ending in "
            f"{', '.join(sorted(IMAGE_SUFFIXES))}"
        )
    return SourceSpec(kind="images", text=text, name=text, live=False, paths=tuple(paths))


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in IMAGE_SUFFIXES


def _parse_synthetic(text: str) -> SyntheticOptions:
    known = {item.name: item.type for item in fields(SyntheticOptions)}
    values: dict[str, float] = {}
    for part in filter(None, text.partition(":")[2].split(",")):
        key, _, value = part.partition("=")
        if key not in known:
            raise UsageError(f"--source {text!r}: unknown {key!r}, expected {', '.join(known)}")
        try:
            values[key] = float(value) if key in ("fps", "defects") else int(value)
        except ValueError:
            raise UsageError(f"--source {text!r}: {key}={value!r} is not a number") from None
    return SyntheticOptions(**values)  # type: ignore[arg-type]  # integers where int is declared
