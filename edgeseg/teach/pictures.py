"""The pictures of a project: plain files that are added, taken out and put back."""

import hashlib
import re
import threading
import time
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import UsageError
from edgeseg.base.files import copy_file, write_json
from edgeseg.base.messages import Message, Setting
from edgeseg.base.plain import Malformed, parse_object
from edgeseg.teach.picture_list import PictureList
from edgeseg.teach.project import KINDS, Kind, Project, check_picture_name
from edgeseg.teach.thumbnails import ThumbnailCache
from edgeseg.vision.images import decode_image, images_in, read_image, write_image
from edgeseg.vision.picture_size import MAX_PIXELS

_ORIGINS = "origins.json"  # in removed/: where each came from
_MOST_UNDONE = 100


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of a project's pictures."""

    pictures: int = 2000  # of one kind
    bytes: int = 64_000_000  # of a file that is sent
    pixels: int = 50_000_000  # by its header, before it is decoded

    def __post_init__(self) -> None:
        # A picture that is taken is read again by fits and golden checks, which take so many.
        if not 0 < self.pixels <= MAX_PIXELS:
            raise UsageError(
                Setting("max_pixels", self.pixels), f": expected from 1 to {MAX_PIXELS}"
            )


class StaysOutError(UsageError):
    """Raised for a picture that was removed before."""


class Pictures:
    """Adds, removes and restores pictures; may be called from any thread."""

    def __init__(self, project: Project, *, limits: Limits | None = None) -> None:
        self._project, self._limits = project, limits or Limits()
        self._lock = threading.RLock()
        self.list = PictureList(project)
        self._thumbnails = ThumbnailCache()
        self._hashes: dict[tuple[str, int], str] = {}  # of removed ones, by the same
        self._done: list[tuple[str, Kind, Kind]] = []  # name, from, to: the last one is undone

    def count(self, kind: Kind) -> int:
        """Count the pictures of a kind."""
        return self.list.count(kind)

    def add(self, image_hwc: NDArray[np.uint8], *, kind: Kind, stem: str) -> str:
        """Store an RGB picture without loss; return its name."""
        with self._lock:
            self._check_room(kind)
            path = self._free(kind, stem)
            write_image(path, image_hwc)
            self.list.keep(kind, path.name, image_hwc)
        return path.name

    def take(self, name: str, body: bytes, *, kind: Kind, again: bool = True) -> str:
        """Store a picture that was sent, as PNG; one that is there already keeps its name.

        Without `again`, a picture that was removed before is refused by StaysOutError.
        """
        stem = _stem(name)
        self._check_room(kind)
        if len(body) > self._limits.bytes:
            most = self._limits.bytes
            raise UsageError(Message("picture_large", name=name, n=len(body), n_most=most))
        image_hwc = decode_image(body, name=name, max_pixels=self._limits.pixels)
        with self._lock:
            for path in self._same_stem(kind, stem):
                if np.array_equal(read_image(path), image_hwc):
                    return path.name
            if not again and (twin := self._names_of_removed(kind).get(_pixels_sha256(image_hwc))):
                raise StaysOutError(Message("picture_removed", name=name, twin=twin))
            return self.add(image_hwc, kind=kind, stem=stem)

    def jpeg(self, kind: Kind, name: str, *, width: int) -> bytes:
        """Encode a picture for people, no wider than `width`; 0 is its own width."""
        return self._thumbnails.jpeg(self._project.picture(kind, name), width=width)

    def remove(self, name: str) -> Kind:
        """Remove a good or bad picture; return the kind it was."""
        with self._lock:
            kind = self._kind_of(name, ("good", "bad"))
            self._move(name, kind, "removed")
            self._remember(name, kind, "removed")
        return kind

    def withdraw_golden(self, path: Path, *, kind: Kind) -> str:
        """Copy a golden picture to the removed ones, where `restore` has it; return its name."""
        with self._lock:
            target = self._free("removed", _stem(path.name), suffix=path.suffix)
            origins = {**self._origins(), target.name: kind}
            write_json(target.parent / _ORIGINS, origins)
            copy_file(path, target)
        return target.name

    def restore(self, name: str) -> Kind:
        """Restore a removed picture; return its kind."""
        with self._lock:
            self._project.picture("removed", name)
            kind = self._origins().get(name, "good")
            self._move(name, "removed", kind)
            self._remember(name, "removed", kind)
        return kind

    def undo(self) -> str:
        """Undo the last removal or restoring; return a sentence."""
        with self._lock:
            if not self._done:
                raise UsageError(Message("undo_nothing"))
            name, was, now = self._done.pop()
            self._move(name, now, was)
        return f"{name} is in {was}/ again"

    def free_name(self, stem: str, *, kind: Kind) -> str:
        """Find a free name for `move_in`."""
        with self._lock:
            self._check_room(kind)
            return self._free(kind, stem).name

    def move_in(self, path: Path, name: str, *, kind: Kind) -> None:
        """Move a picture of another folder of the project in, unless that was done."""
        with self._lock:
            if path.is_file():
                path.replace(self._project.pictures(kind) / check_picture_name(name))

    def _move(self, name: str, was: Kind, now: Kind) -> None:
        path = self._project.picture(was, name)
        origins = self._origins()
        if now == "removed":
            origins[name] = was
        else:
            origins.pop(name, None)
        write_json(self._project.pictures("removed") / _ORIGINS, origins)
        path.replace(self._project.pictures(now) / name)

    def _remember(self, name: str, was: Kind, now: Kind) -> None:
        self._done.append((name, was, now))
        del self._done[:-_MOST_UNDONE]

    def _origins(self) -> dict[str, Kind]:
        try:
            told = parse_object((self._project.pictures("removed") / _ORIGINS).read_bytes())
        except (OSError, Malformed):
            return {}
        return {name: "bad" if kind == "bad" else "good" for name, kind in told.items()}

    def _kind_of(self, name: str, kinds: tuple[Kind, ...]) -> Kind:
        check_picture_name(name)
        for kind in kinds:
            if (self._project.pictures(kind) / name).is_file():
                self._project.picture(kind, name)
                return kind
        folder = " or ".join(f"{kind}/" for kind in kinds)
        raise UsageError(Message("picture_missing", name=name, folder=folder))

    def _free(self, kind: Kind, stem: str, *, suffix: str = ".png") -> Path:
        """Find a name that no picture of any kind has, so that removed ones can come back."""
        folder = self._project.pictures(kind)
        folder.mkdir(parents=True, exist_ok=True)
        folders = [self._project.pictures(each) for each in KINDS]
        name, number = f"{stem}{suffix}", 2
        while any((each / name).exists() for each in folders):
            name, number = f"{stem}-{number}{suffix}", number + 1
        return folder / check_picture_name(name)

    def _same_stem(self, kind: Kind, stem: str) -> list[Path]:
        """List pictures of this name, with or without a number behind it."""
        ours = re.compile(rf"{re.escape(stem)}(-\d+)?\.png")
        folder = self._project.pictures(kind)
        return [folder / name for name in self.list.names(kind) if ours.fullmatch(name)]

    def _names_of_removed(self, kind: Kind) -> dict[str, str]:
        """Return the names of the pictures removed from a kind, by the hash of their pixels."""
        origins, found = self._origins(), {}
        for path in images_in(self._project.pictures("removed")):
            if origins.get(path.name, "good") == kind:
                key = (path.name, path.stat().st_mtime_ns)
                if key not in self._hashes:
                    self._hashes[key] = _pixels_sha256(read_image(path))
                found[self._hashes[key]] = path.name
        return found

    def _check_room(self, kind: Kind) -> None:
        if kind not in ("good", "bad"):
            raise UsageError(f"kind={kind!r}: expected good or bad")
        if self.count(kind) >= self._limits.pictures:
            word = Message("word_bad") if kind == "bad" else Message("word_good")
            raise UsageError(Message("pictures_full", kind=word, n=self._limits.pictures))


def _pixels_sha256(image_hwc: NDArray[np.uint8]) -> str:
    """Hash the pixels: equal for all files of the same picture."""
    digest = hashlib.sha256(str(image_hwc.shape).encode())
    digest.update(image_hwc.tobytes())
    return digest.hexdigest()


def stem_of_now() -> str:
    """Make a file name from the time of now, which sorts by time."""
    now_s = time.time()
    return time.strftime("%Y%m%d-%H%M%S", time.gmtime(now_s)) + f"-{int(1000 * (now_s % 1)):03d}"


def _stem(name: str) -> str:
    """Make a file name from a name that was sent: paths are refused, odd letters become dashes."""
    if not isinstance(name, str) or not name or name.startswith(".") or set(name) & set("/\\\0"):
        raise UsageError(Message("picture_path", name=repr(str(name)[:100])))
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", PurePosixPath(name).stem).strip("-._")[:80]
    return stem or f"picture-{int(time.time())}"
