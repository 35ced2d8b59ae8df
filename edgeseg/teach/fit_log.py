"""A fit that is under way, written down before it begins: one that is killed is in the history too.

fitting.json    what was fitted before it; locked while it goes on, by which a killed one is known
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from edgeseg.contract.plain import Malformed, named_values
from edgeseg.errors import EdgesegError, UsageError
from edgeseg.files import locked
from edgeseg.teach.project import Project, utc_now
from edgeseg.teach.report import read_report
from edgeseg.teach.versions import Versions

_FILE = "fitting.json"
_LARGEST = 65_536  # bytes
_KILLED = "its process was killed; what was there before stays"


class FitLog:
    """The fits of a project that have begun and not ended."""

    def __init__(self, project: Project, versions: Versions) -> None:
        self._project, self._versions = project, versions
        self._path = project.folder / _FILE
        with suppress(EdgesegError, OSError):  # another has it, or whoever uses it is told
            self._settle()

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """While a fit goes on; its good end is for others to tell, any other is told here."""
        held = self._begin()
        try:
            yield
        except BaseException as error:
            with suppress(OSError):  # of a full disk, of which the error tells
                self._project.log("fit_failed", why=str(error) or type(error).__name__)
            raise
        finally:
            self._path.unlink(missing_ok=True)
            os.close(held)

    def _begin(self) -> int:
        with locked(self._project.folder):
            held = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(held)
                raise UsageError("another program fits this project; wait for it") from None
            except OSError:
                pass  # there are file systems without locks
            os.ftruncate(held, 0)
            os.write(held, json.dumps({"begun": utc_now(), "before": self._fitted()}).encode())
            os.fsync(held)
        return held

    def _settle(self) -> None:
        """Write the line of a fit whose process is gone."""
        with locked(self._project.folder):
            if not self._path.is_file():
                return
            held = os.open(self._path, os.O_RDWR)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._write_line(_told(held))
                self._path.unlink(missing_ok=True)
            finally:
                os.close(held)

    def _write_line(self, told: dict[str, Any]) -> None:
        begun = told.get("begun")
        if self._fitted() == told.get("before"):
            self._project.log("fit_failed", why=_KILLED, begun=begun)
        else:
            images = read_report(self._project.fit).images
            self._project.log("fit", begun=begun, images=images, **(self._versions.facts() or {}))

    def _fitted(self) -> list[Any] | None:
        """The fit of now; its rate may be chosen anew."""
        facts = self._versions.facts()
        return None if facts is None else [facts["version"], facts["when"]]


def _told(held: int) -> dict[str, Any]:
    try:
        return named_values(os.pread(held, _LARGEST, 0))
    except Malformed:
        return {}
