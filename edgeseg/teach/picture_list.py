"""The collected pictures as a page asks for them, again and again: a part of the list at a time.

Nothing is decoded or hashed for an answer, and a list that has not changed is not made again.
"""

import secrets
import threading
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import PurePosixPath
from typing import Any

from edgeseg.base.errors import EdgesegError, UsageError
from edgeseg.base.messages import Message
from edgeseg.base.utc import utc_time
from edgeseg.teach.folder_list import FileEntry, FolderList, FolderListing, entry_of
from edgeseg.teach.likeness import flags_of
from edgeseg.teach.look_cache import Image, LookCache, SeenPicture
from edgeseg.teach.part_count import CountedParts, PartCount, count_parts
from edgeseg.teach.project import KINDS, Kind, Project
from edgeseg.teach.report import FILE, FitReport, read_report
from edgeseg.vision.images import is_image_file

PAGE, MOST = 60, 200  # pictures of one answer
_KEPT = 16  # answers: as many as people look at together

Facts = dict[str, Any]


class PictureList:
    """Lists the pictures of a project; may be called from any thread."""

    def __init__(self, project: Project) -> None:
        self._project, self._lock = project, threading.Lock()
        self._folders = {
            kind: FolderList(project.pictures(kind), is_ours=is_picture) for kind in KINDS
        }
        self._looks = LookCache(project.pictures("good"), roi=self._roi)
        self._parts = PartCount()
        self._report: tuple[FileEntry | None, FitReport | None] = (None, None)
        self._pages: dict[tuple[Kind, str, int, int], Facts] = {}
        self._session = secrets.token_hex(4)  # counters of another process mean something else

    def count(self, kind: Kind) -> int:
        """Count the pictures of a kind."""
        return len(self._of(kind).entries)

    def names(self, kind: Kind) -> list[str]:
        """List all names of a kind, in their order."""
        return list(self.times(kind))

    def times(self, kind: Kind) -> dict[str, float]:
        """Return when each picture of a kind was written, by its name."""
        return {entry.name: entry.mtime_ns / 1e9 for entry in self._of(kind).entries}

    def parts(self) -> CountedParts | None:
        """Return the different parts of the good pictures; None while they are being counted."""
        listed, roi, looked = self._of("good"), self._roi(), self._looks.version
        seen = self._looks.get(listed.entries)
        if self._looks.busy:
            return None
        copies = {name: picture.copy for name, picture in seen.items()}
        return self._parts.get((listed.revision, looked, roi), copies)

    def report(self) -> FitReport | None:
        """Return the report of the last fit; None if there is none that can be read."""
        return self._read_report()[1]

    def page(self, kind: Kind, *, offset: int = 0, most: int = PAGE, revision: str = "") -> Facts:
        """List a page, newest first: {"revision", "total", "offset", "items"}, or no change.

        Good pictures have flags once they were looked at; the revision changes then.
        """
        listed, fitted = self._of(kind), self._read_report()[0]
        looked = f"{self._looks.version}.{self._parts.version}"
        now = f"{self._session}{listed.revision}.{looked}.{hash(fitted):x}"
        if revision == now:
            return {"revision": now, "unchanged": True}
        offset, most = max(0, offset), min(max(1, most), MOST)
        with self._lock:
            key = (kind, now, offset, most)
            if key not in self._pages:
                page = self._make_page(kind, listed, offset=offset, most=most)
                self._pages = dict([*self._pages.items(), (key, page)][-_KEPT:])
            return {"revision": now, **self._pages[key]}

    def item(self, kind: Kind, name: str) -> Facts:
        """Return the item of one picture."""
        listed = self._of(kind)
        found = [entry for entry in listed.entries if entry.name == name]
        if not found:
            raise UsageError(Message("picture_missing", name=name, folder=f"{kind}/"))
        return _facts(found[0], self._flags(kind, listed, wanted=(name,)), {})

    def every(self, kind: Kind) -> list[Facts]:
        """List all items by name, each with its flags: for a shell, which can wait."""
        entries = self._of(kind).entries
        seen = self._looks.wait(entries) if kind == "good" else {}
        parts = count_parts({name: picture.copy for name, picture in seen.items()})
        flags = _flags(seen, parts, wanted=None)
        scores = _scores(self.report())
        return [_facts(entry, flags, scores) for entry in entries]

    def keep(self, kind: Kind, name: str, picture_hwc: Image) -> None:
        """Look at a picture that was just written."""
        if kind == "good":
            path = self._project.pictures(kind) / name
            with suppress(OSError):
                self._looks.keep(entry_of(name, path.stat()), picture_hwc)

    def settle(self) -> None:
        """Wait until all pictures that were listed are looked at, and their parts counted."""
        self._looks.settle()
        self.parts()
        self._parts.settle()

    def _make_page(self, kind: Kind, listed: FolderListing, *, offset: int, most: int) -> Facts:
        newest = sorted(listed.entries, key=lambda each: (each.mtime_ns, each.name), reverse=True)
        shown = newest[offset : offset + most]
        flags = self._flags(kind, listed, wanted={entry.name for entry in shown})
        scores = _scores(self._report[1])
        items = [_facts(entry, flags, scores) for entry in shown]
        return {"total": len(newest), "offset": offset, "items": items}

    def _flags(
        self, kind: Kind, listed: FolderListing, *, wanted: Collection[str]
    ) -> dict[str, list[Message]]:
        if kind != "good":
            return {}
        return _flags(self._looks.get(listed.entries), self._parts.last, wanted=wanted)

    def _roi(self) -> str:
        """Return where the next fit looks; parts that are followed lie anywhere."""
        region = self._project.settings().region
        return "" if region.locate else region.roi

    def _of(self, kind: Kind) -> FolderListing:
        self._project.pictures(kind)  # refuses what is no kind
        return self._folders[kind].listing()

    def _read_report(self) -> tuple[FileEntry | None, FitReport | None]:
        """Read the report of the last fit when it has changed."""
        path = self._project.fit / FILE
        try:
            entry = entry_of(path.name, path.stat())
        except OSError:
            return None, None
        with self._lock:
            if self._report[0] != entry:
                self._report = entry, None
                with suppress(EdgesegError):
                    self._report = entry, read_report(path.parent)
            return self._report


def is_picture(name: str) -> bool:
    """Tell whether a file name is that of a picture."""
    return is_image_file(PurePosixPath(name))


def _flags(
    seen: Mapping[str, SeenPicture],
    parts: CountedParts | None,
    *,
    wanted: Collection[str] | None,
) -> dict[str, list[Message]]:
    """Flag pictures that show a part again, or that are unlike the others."""
    flags = flags_of({name: picture.look for name, picture in seen.items()}, wanted=wanted)
    for name, said in flags.items():
        twin = None if parts is None else parts.twin(name)
        if twin in seen:  # and was not removed since the count
            said.insert(0, Message("flag_duplicate", name=twin))
    return flags


def _scores(report: FitReport | None) -> dict[str, float]:
    return {} if report is None else {item.name: item.score for item in report.good}


def _facts(
    entry: FileEntry, flags: Mapping[str, list[Message]], scores: Mapping[str, float]
) -> Facts:
    return {
        "name": entry.name,
        "when": utc_time(entry.mtime_ns / 1e9),
        "flags": flags.get(entry.name, []),
        "score": scores.get(entry.name),
    }
