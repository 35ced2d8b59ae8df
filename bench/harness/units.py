"""Long measurements in units: each result is a file, so a killed run goes on where it was."""

import hashlib
import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgeseg import __version__
from edgeseg.base.errors import UsageError
from edgeseg.base.files import write_json, write_text
from edgeseg.base.progress import Note
from edgeseg.bench.harness.machine import commit

Result = dict[str, Any]

FAILED = "failed"  # the key under which a unit says how it failed; such units run again
_IGNORED = "units/\nmodels/\nfeatures/\nstaged/\nexamples*.png\nreport.html\n"


@dataclass(frozen=True, kw_only=True)
class Unit:
    """One piece of work: its name, all that decides its result, and how to do it."""

    name: str
    settings: Result
    run: Callable[[], Result]
    weight: float = 1.0  # how long it takes relative to the others; for the time left

    @property
    def digest(self) -> str:
        """Hash of name, settings and version: a result belongs to one digest."""
        values = {"name": self.name, "settings": self.settings, "version": __version__}
        text = json.dumps(values, sort_keys=True, allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()


class Store:
    """Results of units in a folder; a changed setting is another unit and finds nothing."""

    def __init__(self, folder: Path, *, fresh: bool = False) -> None:
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"{folder}: a file, expected a folder for results")
        self.folder = folder
        self._units = folder / "units"
        self._units.mkdir(parents=True, exist_ok=True)
        # What may hold pictures of someone else's data, or is large, stays out of a repository.
        write_text(folder / ".gitignore", _IGNORED)
        if fresh:
            for path in self._units.glob("*.json"):
                path.unlink()

    def get(self, unit: Unit) -> Result | None:
        """Read the record of a finished unit; None if there is none."""
        try:
            record = json.loads(self._path(unit).read_text(encoding="utf-8"))
        except (OSError, json.JSONDecodeError):
            return None
        valid = isinstance(record, dict) and record.get("digest") == unit.digest
        return record if valid and FAILED not in record["result"] else None

    def put(self, unit: Unit, result: Result, *, seconds: float) -> Result:
        """Keep a result in one step: a kill leaves a whole file or none."""
        record = {
            "name": unit.name,
            "digest": unit.digest,
            "settings": unit.settings,
            "result": result,
            "seconds": round(seconds, 3),
            "commit": commit(),
        }
        write_json(self._path(unit), record)
        return record

    def _path(self, unit: Unit) -> Path:
        slug = re.sub(r"[^A-Za-z0-9_.-]+", "-", unit.name).strip("-")
        return self._units / f"{slug}-{unit.digest[:10]}.json"


@dataclass(frozen=True, kw_only=True)
class UnitResults:
    """Results by the name of their unit, and the commits they were made with."""

    results: dict[str, Result]
    commits: tuple[str, ...]
    seconds: float  # of all units, whether made now or before


def run_units(units: Sequence[Unit], store: Store, *, note: Note) -> UnitResults:
    """Run the units that have no result yet, and print one line each with the time left."""
    _check_names(units)
    records = {unit.name: store.get(unit) for unit in units}
    todo = [unit for unit in units if records[unit.name] is None]
    if len(todo) < len(units):
        note(f"{len(units) - len(todo)} of {len(units)} results are there already")
    left, spent_weight, spent_s = sum(unit.weight for unit in todo), 0.0, 0.0
    for number, unit in enumerate(todo, start=1):
        started = time.perf_counter()
        result = unit.run()
        seconds = time.perf_counter() - started
        records[unit.name] = store.put(unit, result, seconds=seconds)
        left, spent_weight, spent_s = (
            left - unit.weight,
            spent_weight + unit.weight,
            spent_s + seconds,
        )
        remaining = duration_text(spent_s / spent_weight * left)
        outcome = f"failed: {result[FAILED]}" if FAILED in result else f"{seconds:.1f} s"
        note(f"[{number} of {len(todo)}] {unit.name}: {outcome}; about {remaining} left")
    finished = [record for record in records.values() if record is not None]
    return UnitResults(
        results={str(record["name"]): record["result"] for record in finished},
        commits=tuple(sorted({str(record["commit"]) for record in finished})),
        seconds=sum(float(record["seconds"]) for record in finished),
    )


def duration_text(seconds: float) -> str:
    """Write seconds as s, min or h."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 100 else f"{minutes / 60:.1f} h"


def _check_names(units: Sequence[Unit]) -> None:
    names = [unit.name for unit in units]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(f"units of work {twice}: named twice, expected each name once")
