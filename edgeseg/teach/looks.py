"""How the good pictures look, each decoded once, by a thread that gives way to the station.

Whoever lists pictures takes what is known by now; a picture that is kept is looked at on its way.
"""

import threading
from collections.abc import Sequence
from pathlib import Path

from edgeseg.base.errors import EdgesegError
from edgeseg.runtime.drift.appearance import Look, look_at
from edgeseg.teach.folder_list import Entry
from edgeseg.teach.work import give_way_here
from edgeseg.vision.images import read_image


class Looks:
    """Of the files of one folder; may be called from any thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._known: dict[Entry, Look | None] = {}  # None: it cannot be read
        self._waiting: list[Entry] = []
        self._thread: threading.Thread | None = None
        self.version = 0  # rises with all that becomes known

    def keep(self, entry: Entry, look: Look | None) -> None:
        """What somebody knows already."""
        with self._lock:
            self._known[entry] = look
            self.version += 1

    def known(self, entries: Sequence[Entry]) -> dict[str, Look]:
        """Of these files, by name, as far as they were looked at; the others are from now on."""
        with self._lock:
            here = {entry: self._known[entry] for entry in entries if entry in self._known}
            self._known = dict(here)  # files that are gone are forgotten
            self._waiting = [entry for entry in entries if entry not in here]
            if self._waiting and self._thread is None:
                self._thread = threading.Thread(target=self._run, name="looks", daemon=True)
                self._thread.start()
        return {entry.name: look for entry, look in here.items() if look is not None}

    def wait(self, entries: Sequence[Entry]) -> dict[str, Look]:
        """Of all of these, however long it takes: for a shell."""
        for entry in entries:
            if entry not in self._known:
                self.keep(entry, self._look(entry))
        return self.known(entries)

    def settle(self) -> None:
        """Wait for what was begun."""
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

    def _look(self, entry: Entry) -> Look | None:
        try:
            return look_at(read_image(self._folder / entry.name))
        except EdgesegError:
            return None
