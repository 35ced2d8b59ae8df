"""The collected pictures as a page asks for them, again and again: a part of the list at a time.

Nothing is decoded or hashed for an answer, and a list that has not changed is not made again.
"""

import secrets
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import PurePosixPath
from typing import Any

from edgeseg.base.errors import EdgesegError, UsageError
from edgeseg.base.messages import Message
from edgeseg.base.utc import utc_time
from edgeseg.runtime.drift.appearance import Look
from edgeseg.teach.folder_list import Entry, FolderList, Listed, entry_of
from edgeseg.teach.likeness import flags_of
from edgeseg.teach.looks import Looks
from edgeseg.teach.project import KINDS, Kind, Project
from edgeseg.teach.report import FILE, read_report
from edgeseg.vision.images import is_image_file

PAGE, MOST = 60, 200  # pictures of one answer
_KEPT = 16  # answers: as many as people look at together

Facts = dict[str, Any]


class PictureList:
    """May be called from any thread."""

    def __init__(self, project: Project) -> None:
        self._project, self._lock = project, threading.Lock()
        self._folders = {
            kind: FolderList(project.pictures(kind), is_ours=is_picture) for kind in KINDS
        }
        self._looks = Looks(project.pictures("good"))
        self._scores: tuple[Entry | None, dict[str, float]] = (None, {})
        self._pages: dict[tuple[Kind, str, int, int], Facts] = {}
        self._session = secrets.token_hex(4)  # counters of another process mean something else

    def count(self, kind: Kind) -> int:
        """How many there are."""
        return len(self._of(kind).entries)

    def names(self, kind: Kind) -> list[str]:
        """All names, in their order."""
        return [entry.name for entry in self._of(kind).entries]

    def page(self, kind: Kind, *, offset: int = 0, most: int = PAGE, revision: str = "") -> Facts:
        """The newest first: {"revision", "total", "offset", "items"}, or that nothing has changed.

        Of good pictures flags are told as far as they were looked at; the revision changes then.
        """
        listed, scores = self._of(kind), self._scored()
        now = f"{self._session}{listed.revision}.{self._looks.version}.{hash(scores[0]):x}"
        if revision == now:
            return {"revision": now, "unchanged": True}
        offset, most = max(0, offset), min(max(1, most), MOST)
        with self._lock:
            key = (kind, now, offset, most)
            if key not in self._pages:
                page = self._made(kind, listed, scores[1], offset=offset, most=most)
                self._pages = dict([*self._pages.items(), (key, page)][-_KEPT:])
            return {"revision": now, **self._pages[key]}

    def told(self, kind: Kind, name: str) -> Facts:
        """One of them."""
        listed = self._of(kind)
        found = [entry for entry in listed.entries if entry.name == name]
        if not found:
            raise UsageError(Message("picture_missing", name=name, folder=f"{kind}/"))
        flags = flags_of(self._known(kind, listed), wanted=(name,))
        return _facts(found[0], flags, {})

    def every(self, kind: Kind) -> list[Facts]:
        """All, in the order of their names, each looked at: for a shell, which can wait."""
        entries = self._of(kind).entries
        flags = flags_of(self._looks.wait(entries)) if kind == "good" else {}
        return [_facts(entry, flags, self._scored()[1]) for entry in entries]

    def keep(self, kind: Kind, name: str, look: Look) -> None:
        """A picture that was written just now, and how it looks."""
        if kind == "good":
            path = self._project.pictures(kind) / name
            with suppress(OSError):
                self._looks.keep(entry_of(name, path.stat()), look)

    def settle(self) -> None:
        """Wait until all pictures that were listed are looked at."""
        self._looks.settle()

    def _made(
        self, kind: Kind, listed: Listed, scores: Mapping[str, float], *, offset: int, most: int
    ) -> Facts:
        newest = sorted(listed.entries, key=lambda each: (each.mtime_ns, each.name), reverse=True)
        shown = newest[offset : offset + most]
        flags = flags_of(self._known(kind, listed), wanted={entry.name for entry in shown})
        items = [_facts(entry, flags, scores) for entry in shown]
        return {"total": len(newest), "offset": offset, "items": items}

    def _known(self, kind: Kind, listed: Listed) -> dict[str, Look]:
        return self._looks.known(listed.entries) if kind == "good" else {}

    def _of(self, kind: Kind) -> Listed:
        self._project.pictures(kind)  # refuses what is no kind
        return self._folders[kind].listed()

    def _scored(self) -> tuple[Entry | None, dict[str, float]]:
        """Scores of the last fit, read when its report has changed."""
        path = self._project.fit / FILE
        try:
            entry = entry_of(path.name, path.stat())
        except OSError:
            return None, {}
        with self._lock:
            if self._scores[0] != entry:
                scores: dict[str, float] = {}
                with suppress(EdgesegError):
                    scores = {item.name: item.score for item in read_report(path.parent).good}
                self._scores = entry, scores
            return self._scores


def is_picture(name: str) -> bool:
    """Whether a name promises a picture."""
    return is_image_file(PurePosixPath(name))


def _facts(entry: Entry, flags: Mapping[str, list[Message]], scores: Mapping[str, float]) -> Facts:
    return {
        "name": entry.name,
        "when": utc_time(entry.mtime_ns / 1e9),
        "flags": flags.get(entry.name, []),
        "score": scores.get(entry.name),
    }
