"""Count the parts of each shift and recipe, over restarts.

parts = good + defect + unsure + invalid + not_found + missed + no_inspection, at any moment
"""

import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from edgeseg.base.files import write_json
from edgeseg.base.plain import Malformed, parse_json, record
from edgeseg.runtime.events.codes import UNAPPROVED
from edgeseg.runtime.events.records import SCHEMA, FrameResult, LoggedEvent, SourceEvent
from edgeseg.runtime.sinks.shift_times import ShiftTimes
from edgeseg.runtime.station.records import StationResult

VERDICTS = ("good", "defect", "unsure", "invalid", "not_found", "missed", "no_inspection")
_SAVE_S = 1.0  # between savings: what a kill can cost
_YEAR_3000_S = 32_503_680_000.0  # calendars end somewhere
_SHIFTS = 100  # that are remembered


@dataclass(frozen=True, kw_only=True)
class Tally:
    """Counts of parts by verdict."""

    parts: int = 0
    good: int = 0
    defect: int = 0
    unsure: int = 0
    invalid: int = 0
    not_found: int = 0
    missed: int = 0  # passed without an inspection: missed trigger, time-out, lost camera
    no_inspection: int = 0  # came while no approved model could judge it

    def plus(self, verdict: str) -> "Tally":
        """Return the tally with one part more; an unknown verdict counts as invalid."""
        name = verdict if verdict in VERDICTS else "invalid"
        return replace(self, **{"parts": self.parts + 1, name: getattr(self, name) + 1})


@dataclass(frozen=True, kw_only=True)
class Period:
    """Counts since a moment, in total and by recipe."""

    begun_s: float
    all: Tally = field(default_factory=Tally)
    recipes: dict[str, Tally] = field(default_factory=dict)  # "" without a recipe

    def __post_init__(self) -> None:
        if not 0 <= self.begun_s < _YEAR_3000_S:
            raise ValueError(f"begun_s: {self.begun_s}, expected seconds since 1970")

    def plus(self, verdict: str, recipe: str) -> "Period":
        """Return the period with one part more."""
        of_recipe = self.recipes.get(recipe, Tally()).plus(verdict)
        return replace(self, all=self.all.plus(verdict), recipes=self.recipes | {recipe: of_recipe})


@dataclass(frozen=True, kw_only=True)
class Counts:
    """The counters file: this shift, all since the file was made, and earlier shifts."""

    shift: Period
    total: Period
    before: tuple[Period, ...] = ()
    schema: int = 1


@dataclass(frozen=True, kw_only=True)
class ShiftEnd(LoggedEvent):
    """An event: a shift has ended, with its counters."""

    ended: Period
    wall_s: float

    def facts(self) -> dict[str, object]:
        """Return its line of the event log."""
        return {
            "schema": SCHEMA,
            "event": "shift_end",
            "wall_s": round(self.wall_s, 6),
            "monotonic_s": round(time.monotonic(), 6),
            "begun_s": round(self.ended.begun_s, 6),
            "counts": asdict(self.ended.all),
            "recipes": {name: asdict(tally) for name, tally in self.ended.recipes.items()},
        }


class Counters:
    """Counters that any thread may update; its own thread saves them.

    It publishes a ShiftEnd. Parts are frames, unless `count_frames` is off and results are given.
    Without a path nothing is saved, and a start begins a shift.
    """

    name = "counters"

    def __init__(
        self,
        path: Path | None,
        *,
        times: ShiftTimes,
        on_error: Callable[[str, str], None],
        publish: Callable[["ShiftEnd"], None] = lambda event: None,
        count_frames: bool = True,
        clock_s: Callable[[], float] = time.time,
    ) -> None:
        self._path, self._times, self._on_error, self._publish = path, times, on_error, publish
        self._count_frames, self._clock_s = count_frames, clock_s
        self._lock = threading.Lock()
        self._changed, self._end = threading.Event(), threading.Event()
        now_s = clock_s()
        self._counts = self._read() or Counts(
            shift=Period(begun_s=now_s), total=Period(begun_s=now_s)
        )
        self._ends_s = times.next_after(self._counts.shift.begun_s)
        self._roll(now_s)
        self._save()
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        if path is not None:
            self._thread.start()

    @property
    def counts(self) -> Counts:
        """All counters of one moment."""
        self._roll(self._clock_s())
        with self._lock:
            return self._counts

    def begin_shift(self) -> None:
        """Begin a shift now: somebody has asked for it."""
        now_s = self._clock_s()
        self._roll(now_s)
        with self._lock:
            ended = self._begin(now_s)
        self._publish(ShiftEnd(ended=ended, wall_s=now_s))

    def count(self, verdict: str, recipe: str = "") -> None:
        """Count one part."""
        self._roll(self._clock_s())
        with self._lock:
            now = self._counts
            self._counts = replace(
                now, shift=now.shift.plus(verdict, recipe), total=now.total.plus(verdict, recipe)
            )
        self._changed.set()

    def on_result(self, result: StationResult) -> None:
        """Count the result of a trigger."""
        unapproved = result.error in UNAPPROVED
        missed = result.inspection is None and not unapproved
        self.count("missed" if missed else result.verdict, result.trigger.job.name)

    def on_frame(self, result: FrameResult) -> None:
        """Count a frame of a free-running camera as a part."""
        if self._count_frames:
            recipe = None if result.trace is None else result.trace.recipe
            self.count(result.verdict, recipe or "")

    def on_source(self, event: SourceEvent) -> None:
        """Do nothing: a source is no part."""

    def close(self) -> None:
        """Save for the last time, and end the thread."""
        self._end.set()
        self._changed.set()
        if self._path is not None:
            self._thread.join(5.0)

    def _roll(self, now_s: float) -> None:
        """Begin the shift of this moment, if another one is being counted."""
        with self._lock:
            if now_s < self._ends_s:
                return
            begun_s = self._times.last_before(now_s) or now_s
            ended = self._begin(begun_s)
        self._publish(ShiftEnd(ended=ended, wall_s=begun_s))

    def _begin(self, begun_s: float) -> Period:
        """Begin a shift and return the one that has ended; the caller holds the lock."""
        ended = self._counts.shift
        before = (ended, *self._counts.before)[:_SHIFTS]
        self._counts = replace(self._counts, shift=Period(begun_s=begun_s), before=before)
        self._ends_s = self._times.next_after(begun_s)
        self._changed.set()
        return ended

    def _run(self) -> None:
        while not self._end.is_set():
            self._changed.wait()
            self._changed.clear()
            self._save()
            self._end.wait(_SAVE_S)
        self._save()

    def _save(self) -> None:
        if self._path is None:
            return
        with self._lock:
            counts = self._counts
        try:
            write_json(self._path, asdict(counts))
        except OSError as error:
            self._on_error(self.name, f"{self._path}: {error.strerror}; counters are not saved")

    def _read(self) -> Counts | None:
        if self._path is None:
            return None
        try:
            return record(Counts, parse_json(self._path.read_bytes()))
        except FileNotFoundError:
            return None
        except (OSError, Malformed) as error:
            beside = self._path.with_name(f"{self._path.name}.damaged")
            self._on_error(
                self.name, f"{self._path}: {error}; counting from 0, what was there is in {beside}"
            )
            if self._path.is_file():
                self._path.replace(beside)
            return None
