"""Appearance of the good pictures, each decoded once, by a thread of low priority.

A list of pictures shows what is known by now; a new picture is looked at when it is stored.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import EdgesegError
from edgeseg.runtime.drift.appearance import Look, look_at
from edgeseg.teach.folder_list import FileEntry
from edgeseg.teach.giving_way import give_way_here
from edgeseg.teach.part_count import PartCopy
from edgeseg.vision.geometry import Roi
from edgeseg.vision.images import read_image

Image = NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True)
class SeenPicture:
    """What is known of a picture that was decoded."""

    look: Look
    copy: PartCopy
    roi: str  # where the copy is from; empty: the whole picture

    @classmethod
    def of(cls, picture_hwc: Image, *, roi: str) -> "SeenPicture":
        """Look at a picture."""
        inside = Roi.parse(roi) if roi else None
        fits = inside is not None and inside.fits((picture_hwc.shape[0], picture_hwc.shape[1]))
        part_hwc = inside.crop(picture_hwc) if inside is not None and fits else picture_hwc
        return cls(look=look_at(picture_hwc), copy=PartCopy.of(part_hwc), roi=roi)


class LookCache:
    """The looks of the files of one folder; may be called from any thread.

    `roi` says where parts are told apart.
    """

    def __init__(self, folder: Path, *, roi: Callable[[], str]) -> None:
        self._folder, self._roi = folder, roi
        self._lock = threading.Lock()
        self._known: dict[FileEntry, SeenPicture | None] = {}  # None: it cannot be read
        self._waiting: list[FileEntry] = []
        self._thread: threading.Thread | None = None
        self.version = 0  # rises with all that becomes known

    def keep(self, entry: FileEntry, picture_hwc: Image) -> None:
        """Look at a picture that was just written."""
        self._store(entry, SeenPicture.of(picture_hwc, roi=self._roi()))

    def get(self, entries: Sequence[FileEntry]) -> dict[str, SeenPicture]:
        """Return what is known of these files by name, and begin to look at the others."""
        roi = self._roi()
        with self._lock:
            here = {entry: self._known[entry] for entry in entries if entry in self._known}
            self._known = dict(here)  # files that are gone are forgotten
            self._waiting = [entry for entry in entries if not _is_of(here, entry, roi)]
            if self._waiting and self._thread is None:
                self._thread = threading.Thread(target=self._run, name="looks", daemon=True)
                self._thread.start()
        return {entry.name: seen for entry, seen in here.items() if seen is not None}

    def wait(self, entries: Sequence[FileEntry]) -> dict[str, SeenPicture]:
        """Return what is seen on all these files, however long it takes: for a shell."""
        roi = self._roi()
        for entry in entries:
            if not _is_of(self._known, entry, roi):
                self._store(entry, self._look(entry))
        return self.get(entries)

    @property
    def busy(self) -> bool:
        """Whether files wait to be looked at."""
        return self._thread is not None

    def settle(self) -> None:
        """Wait until the thread has looked at all files."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def _store(self, entry: FileEntry, seen: SeenPicture | None) -> None:
        with self._lock:
            self._known[entry] = seen
            self.version += 1

    def _run(self) -> None:
        give_way_here()
        while True:
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return
                entry = self._waiting.pop(0)
            self._store(entry, self._look(entry))

    def _look(self, entry: FileEntry) -> SeenPicture | None:
        try:
            return SeenPicture.of(read_image(self._folder / entry.name), roi=self._roi())
        except EdgesegError:
            return None


def _is_of(known: dict[FileEntry, SeenPicture | None], entry: FileEntry, roi: str) -> bool:
    """Tell whether a file was looked at with this region; one that cannot be read was."""
    seen = known.get(entry)
    return entry in known if seen is None else seen.roi == roi
