"""Appearance of the good pictures, each decoded once, by a thread of low priority.

A list of pictures shows what is known by now; a new picture is looked at when it is stored.
"""

import threading
from collections.abc import Sequence
from pathlib import Path

from edgeseg.base.errors import EdgesegError
from edgeseg.runtime.drift.appearance import Look, look_at
from edgeseg.teach.background_job import give_way_here
from edgeseg.teach.folder_list import FileEntry
from edgeseg.vision.images import read_image


class LookCache:
    """The looks of the files of one folder; may be called from any thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._known: dict[FileEntry, Look | None] = {}  # None: it cannot be read
        self._waiting: list[FileEntry] = []
        self._thread: threading.Thread | None = None
        self.version = 0  # rises with all that becomes known

    def keep(self, entry: FileEntry, look: Look | None) -> None:
        """Store the look of a file."""
        with self._lock:
            self._known[entry] = look
            self.version += 1

    def get(self, entries: Sequence[FileEntry]) -> dict[str, Look]:
        """Return the known looks of these files by name, and begin to look at the others."""
        with self._lock:
            here = {entry: self._known[entry] for entry in entries if entry in self._known}
            self._known = dict(here)  # files that are gone are forgotten
            self._waiting = [entry for entry in entries if entry not in here]
            if self._waiting and self._thread is None:
                self._thread = threading.Thread(target=self._run, name="looks", daemon=True)
                self._thread.start()
        return {entry.name: look for entry, look in here.items() if look is not None}

    def wait(self, entries: Sequence[FileEntry]) -> dict[str, Look]:
        """Return the looks of all these files, however long it takes: for a shell."""
        for entry in entries:
            if entry not in self._known:
                self.keep(entry, self._look(entry))
        return self.get(entries)

    def settle(self) -> None:
        """Wait until the thread has looked at all files."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        give_way_here()
        while True:
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return
                entry = self._waiting.pop(0)
            self.keep(entry, self._look(entry))

    def _look(self, entry: FileEntry) -> Look | None:
        try:
            return look_at(read_image(self._folder / entry.name))
        except EdgesegError:
            return None
