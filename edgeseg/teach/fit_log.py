"""A fit that is under way, written down before it begins: one that is killed is in the history too.

fitting.json    what was fitted before it; locked while it goes on, by which a killed one is known
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from edgeseg.base.errors import EdgesegError, words_of
from edgeseg.base.messages import Message
from edgeseg.base.utc import utc_time
from edgeseg.modelfile.versions import Intent
from edgeseg.teach.project import Project
from edgeseg.teach.report import read_report
from edgeseg.teach.versions import Versions

_FILE = "fitting.json"


class FitLog:
    """The fits of a project that have begun and not ended."""

    def __init__(self, project: Project, versions: Versions) -> None:
        self._project, self._versions = project, versions
        busy = Message("fit_elsewhere")
        self._intent = Intent(project.folder / _FILE, busy=busy)
        # Its users are told of errors.
        with suppress(EdgesegError, OSError), self._intent.find_left() as noted:
            if noted is not None:
                self._write_line(noted)
                self._intent.withdraw()

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """While a fit goes on; its good end is for others to tell, any other is told here."""
        with self._intent.hold({"begun": utc_time(), "before": self._fitted()}):
            try:
                yield
            except BaseException as error:
                with suppress(OSError):  # of a full disk, of which the error tells
                    self._project.log("fit_failed", why=words_of(error))
                raise
            finally:
                self._intent.withdraw()

    def _write_line(self, noted: dict[str, Any]) -> None:
        """The line of a fit whose process is gone."""
        begun = noted.get("begun")
        if self._fitted() == noted.get("before"):
            self._project.log("fit_failed", why=Message("work_gone"), begun=begun)
        else:
            images = read_report(self._project.fit).images
            self._project.log("fit", begun=begun, images=images, **(self._versions.facts() or {}))

    def _fitted(self) -> list[Any] | None:
        """The fit of now; its rate may be chosen anew."""
        facts = self._versions.facts()
        return None if facts is None else [facts["version"], facts["when"]]
