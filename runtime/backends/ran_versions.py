"""Remember which version of each product ran here, so that an older one is not run by mistake.

    a signed statement --name--> STATE/ran/NAME.json: the highest version that inspected here
    a lower version: refused, unless `edgeseg recipe rollback` asked for exactly that one

The file is not beside the recipes: somebody who can replace recipes does not replace it with them.
It is written in one step, and only when a version is new here.
"""

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from urllib.parse import quote

from edgeseg.base.errors import RuntimeFailure
from edgeseg.base.files import home_path, lock_folder, write_json
from edgeseg.base.plain import Malformed, parse_json, read_bounded, record
from edgeseg.base.utc import utc_time
from edgeseg.modelfile.signature import Statement

STATE = "EDGESEG_STATE"
_KEPT = 200  # lines of history


@dataclass(frozen=True, kw_only=True)
class Step:
    """One entry of the history."""

    when: str  # UTC
    what: str  # "ran" or "gone back"
    version: int
    statement_sha256: str


@dataclass(frozen=True, kw_only=True)
class RanRecord:
    """The versions of one product that ran here."""

    name: str
    version: int  # the highest that ran
    gone_back_to: str | None = None  # hash of the one statement below it that may run
    history: tuple[Step, ...] = ()
    schema: int = 1


def state_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of a station's lasting state: EDGESEG_STATE, systemd's, or the user's."""
    for name in (STATE, "STATE_DIRECTORY"):
        if environment.get(name):
            return home_path(environment[name].split(":")[0])
    home = environment.get("XDG_STATE_HOME") or "~/.local/state"
    return home_path(home) / "edgeseg"


def remember_ran(statement: Statement) -> None:
    """Remember the version of a model that is about to inspect; refuse one that may not."""
    ran = RanVersions()
    ran.check(statement)
    ran.remember(statement)


class RanVersions:
    """All records of a station."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = (state_folder() if folder is None else folder) / "ran"

    def path(self, name: str) -> Path:
        """Return the path of a product's record."""
        return self._folder / f"{quote(name, safe='')}.json"

    def read(self, name: str) -> RanRecord | None:
        """Read the record of a product; None if it never ran here."""
        path = self.path(name)
        try:
            told = record(RanRecord, parse_json(read_bounded(path)))
        except FileNotFoundError:
            return None
        except (OSError, Malformed) as error:
            raise RuntimeFailure(
                f"{path}: cannot be read ({error}), so it is not known which version of {name} ran "
                "here; put it right, or remove it if no older one can come"
            ) from None
        if told.name != name:
            raise RuntimeFailure(f"{path}: of {told.name}, expected {name}; put it right")
        return told

    def check(self, statement: Statement | None) -> None:
        """Refuse a version below the one that ran; without a signed statement do nothing."""
        before = None if statement is None else self.read(statement.name)
        if statement is None or before is None or statement.version >= before.version:
            return
        if statement.sha256() != before.gone_back_to:
            raise RuntimeFailure(
                f"{statement.name}: version {statement.version} of {statement.when}, and version "
                f"{before.version} ran here ({self.path(statement.name)}); sign it as version "
                f"{before.version + 1}, or go back on purpose with `edgeseg recipe rollback`"
            )

    def remember(self, statement: Statement | None) -> None:
        """Record that this version inspects from now on; written only if that is new."""
        before = None if statement is None else self.read(statement.name)
        if statement is None:
            return
        if before is not None and statement.version < before.version:
            return  # gone back to on purpose: what ran stays what ran
        if before is None or statement.version > before.version or before.gone_back_to:
            self._write(statement, before, "ran")

    def go_back(self, statement: Statement) -> None:
        """Allow exactly this earlier version again, and record it in the history."""
        self._write(statement, self.read(statement.name), "gone back")

    def _write(self, statement: Statement, before: RanRecord | None, what: str) -> None:
        digest, back = statement.sha256(), what == "gone back"
        now = utc_time()
        step = Step(when=now, what=what, version=statement.version, statement_sha256=digest)
        known = before or RanRecord(name=statement.name, version=statement.version)
        after = replace(
            known,
            version=max(known.version, statement.version),
            gone_back_to=digest if back else None,
            history=(*known.history, step)[-_KEPT:],
        )
        path = self.path(statement.name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with lock_folder(path.parent):
                write_json(path, asdict(after))
        except OSError as error:
            raise RuntimeFailure(
                f"{path}: cannot be written ({error.strerror}), and without it an older version "
                f"could come back; let {STATE} name a folder that this user may write"
            ) from None
