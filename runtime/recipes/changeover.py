"""Change from one recipe to another, by number or name, while frames and triggers come.

request -> JOB_LOADING: new triggers are refused with it   old ones still get their verdicts
model warm or opened, golden check if the recipe says so, all beside the running inspection
no trigger waits -> swap between two frames -> job loaded: triggers are for the new recipe
a check on request runs between two frames, on the session that inspects
a recipe that needs its master part at the start waits for such a check to pass
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from edgeseg.base.errors import EdgesegError, RuntimeFailure
from edgeseg.base.messages import Sentence
from edgeseg.base.progress import Note
from edgeseg.runtime.backends.base import Session
from edgeseg.runtime.events.codes import Check
from edgeseg.runtime.events.records import SCHEMA, LoggedEvent, ModelChange
from edgeseg.runtime.recipes.approval import golden_files
from edgeseg.runtime.recipes.check_record import CheckRecord, write_record
from edgeseg.runtime.recipes.golden_check import Image, RecipeJudge, check_golden, failure_record
from edgeseg.runtime.recipes.recipe import Recipe
from edgeseg.runtime.recipes.store import RecipeStore
from edgeseg.runtime.recipes.versions import keep_version
from edgeseg.runtime.recipes.warm_sessions import WarmModel, WarmSessions
from edgeseg.runtime.scoring.pipeline import ModelSwap, Pipeline
from edgeseg.runtime.station.records import Job, StationResult
from edgeseg.runtime.station.station import Station

_SWAP_S = 60.0  # for the frame that is being scored, and the check of a model that is in use
_CAMERA_S = 60.0  # for a camera that has never delivered: it is switched on with the line
_MASTER_S = 10.0  # for the frames of a master part
MASTER_WANTED = "put the master part under the camera and wait, or request a check"
_CHECK_S = 600.0  # for a check on request, of however many pictures


@dataclass(frozen=True, kw_only=True)
class RecipeEvent(LoggedEvent):
    """An event of a recipe, for the event log and the page."""

    kind: str
    recipe: str
    number: int
    details: Mapping[str, object]
    wall_s: float = field(default_factory=time.time)
    monotonic_s: float = field(default_factory=time.monotonic)

    def facts(self) -> dict[str, object]:
        """Return its line of the event log."""
        return {
            "schema": SCHEMA,
            "event": self.kind,
            "wall_s": round(self.wall_s, 6),
            "monotonic_s": round(self.monotonic_s, 6),
            "recipe": self.recipe,
            "number": self.number,
            **self.details,
        }


@dataclass(frozen=True, kw_only=True)
class LineContext:
    """The run in which recipes change."""

    pipeline: Pipeline
    station: Station
    note: Note
    jobs: dict[str, Job] = field(default_factory=dict)  # of recipes that have run

    def publish_model(self, recipe: Recipe, session: Session) -> None:
        """Publish a change of model before its first frame, from the scoring thread."""
        key = f"{recipe.name} {session.model_sha256}"
        self.pipeline.events.publish(ModelChange(metadata=session.metadata, key=key))

    def publish_event(self, kind: str, recipe: Recipe, facts: Mapping[str, object]) -> None:
        """Publish an event for the log and the page."""
        number = recipe.settings.number
        event = RecipeEvent(kind=kind, recipe=recipe.name, number=number, details=facts)
        self.pipeline.events.publish(event)


@dataclass(frozen=True, kw_only=True)
class ActiveRecipe:
    """The recipe that inspects now, and its model."""

    recipe: Recipe
    model: WarmModel


class StuckError(RuntimeFailure):
    """The scoring loop did not reach its next frame in time."""


class Changeover:
    """A loader of recipes for a station; `load` is its JobLoader."""

    def __init__(
        self, store: RecipeStore, warm: WarmSessions, running: ActiveRecipe, around: LineContext
    ) -> None:
        self._store, self._warm, self._around = store, warm, around
        self.running = running
        self.swapping = threading.Lock()  # whoever changes the model holds it
        self._lock = threading.Lock()
        self._wanted: Recipe | None = None
        self._checking = False
        self._failed: set[str] = set()  # recipes that have to pass a check before they inspect
        self._asked, self._answered, self._end = (threading.Event() for _ in range(3))
        around.station.events.subscribe(
            StationResult, lambda result: self._answered.set(), name="changeover"
        )
        around.station.attach_jobs(self.load)
        around.station.attach_check(self.check)
        self._thread = threading.Thread(target=self._run, name="changeover", daemon=True)

    def begin(self) -> CheckRecord | None:
        """Check before the first frame, if the recipe says so, and announce the recipe."""
        recipe = self.running.recipe
        keep_version(recipe)
        session = self.running.model.session
        self._around.publish_model(recipe, session)
        record = self._check(recipe, session)
        if record is None or record.passed:
            self._warm.remember(recipe)
        with self._lock:
            self._admit(recipe, record)
        self._thread.start()
        return record

    def load(self, key: int | str) -> bool:
        """Request a recipe; return False if there is none of that name or number."""
        try:
            recipe = self._store.find(key)
        except EdgesegError as error:
            self._around.note(Sentence(f"recipe {key}: ", error))
            return False
        if recipe is None:
            return False
        with self._lock:
            self._wanted = recipe
            self._around.station.hold_for_job()
        self._around.pipeline.tap.release()  # no frames for the recipe before
        self._asked.set()
        return True

    def check(self) -> bool:
        """Start the golden check of the active recipe; return False if it cannot be checked now."""
        with self._lock:
            if self._wanted is not None or not any(golden_files(self.running.recipe)):
                return False
            self._checking = True
            self._around.station.begin_check()
        self._asked.set()
        return True

    def close(self) -> None:
        """End the thread; sessions are closed by their owner."""
        self._end.set()
        self._asked.set()
        self._answered.set()
        if self._thread.ident is not None:
            self._thread.join(_SWAP_S)

    def _run(self) -> None:
        while not self._end.is_set():
            self._asked.wait()
            self._asked.clear()
            with self._lock:
                checking, recipe = self._checking, self._wanted
            if checking and not self._end.is_set():
                self._check_now()
            if recipe is None or self._end.is_set():
                continue
            try:
                self._change_to(recipe)
            except EdgesegError as error:
                self._fail(recipe, Sentence(error))
            except Exception as error:  # a surprise of a library must not end all changeovers
                self._fail(recipe, f"{type(error).__name__}")

    def _check_now(self) -> None:
        """Check between two frames, in the scoring thread: a session serves one thread."""
        with self.swapping:
            running, pipeline = self.running, self._around.pipeline
            session, recipe = running.model.session, running.recipe
            live = self._live_master(recipe)

            def check() -> CheckRecord:
                judge = RecipeJudge(recipe, session, between=pipeline.tick)
                if isinstance(live, EdgesegError):
                    raise live
                return check_golden(judge, live=live)

            def prove() -> None:
                record = self._run_check(recipe, check)
                with self._lock:
                    self._checking = False
                    self._announce(recipe, record)

            change = ModelSwap(session=session, scorer=pipeline.scorer, then=prove)
            if not pipeline.change(change, timeout_s=_CHECK_S):
                self._around.note(f"golden check: not done within {_CHECK_S:g} s")

    def _change_to(self, found: Recipe) -> None:
        begun_s = time.monotonic()
        with self.swapping:
            loaded = self._warm.take(found)
            recipe, model, was_warm = loaded.recipe, loaded.model, loaded.was_warm
            same = model is self.running.model  # in use: its check waits for the swap
            try:
                record = None if same else self._check(recipe, model.session)
                waited_s = self._wait_for_answers()
                if record is None or record.passed:
                    self._warm.remember(recipe)
                    arrive = partial(self._arrive, found, recipe, record, same=same)
                    self.swap(recipe, model, then=arrive)
                else:
                    self._announce(recipe, record)
                    raise RuntimeFailure(f"golden check failed: {record.summary}")
            except StuckError:
                raise  # the scoring thread may use it yet: it stays open
            except Exception:
                self._warm.drop(model)
                raise
            seconds = time.monotonic() - begun_s
            if not was_warm:
                keep_version(recipe)
        how = "warm" if was_warm else "cold"
        self._around.note(f"recipe {recipe.name}: loaded in {1e3 * seconds:.0f} ms ({how})")
        facts = {"seconds": round(seconds, 4), "waited": round(waited_s, 4), "warm": was_warm}
        self._around.publish_event("changeover", recipe, facts)

    def swap(self, recipe: Recipe, model: WarmModel, *, then: Callable[[], None]) -> None:
        """Inspect with a model from the next frame on; the caller holds `swapping`."""
        around, session = self._around, model.session
        scorer = around.pipeline.new_scorer(session, recipe.scorer_config())
        self._job(recipe)

        def arrive() -> None:
            self.running = ActiveRecipe(recipe=recipe, model=model)
            around.publish_model(recipe, session)
            then()

        change = ModelSwap(session=session, scorer=scorer, then=arrive)
        if not around.pipeline.change(change, timeout_s=_SWAP_S):
            raise StuckError(f"the frame before it was not scored within {_SWAP_S:g} s")
        self._warm.keep(recipe.name, model)

    def _arrive(
        self, found: Recipe, recipe: Recipe, record: CheckRecord | None, *, same: bool
    ) -> None:
        """Finish a changeover in the scoring thread, with the new model in place."""
        if same:
            record = self._check(recipe, self.running.model.session)
        with self._lock:
            if self._wanted is not found:
                return  # another was asked for meanwhile: stay held until that one is there
            self._wanted = None
            self._admit(recipe, record)

    def _admit(self, recipe: Recipe, record: CheckRecord | None) -> None:
        """Open the station for a recipe, or ask for its master part; the caller holds the lock."""
        station, passed = self._around.station, record is None or record.passed
        if recipe.settings.golden.master_at_start and passed:
            self._tell(recipe, record)
            self._around.note(f"recipe {recipe.name}: {MASTER_WANTED}")
            self._checking = True
            station.set_check(Check.RUNNING, MASTER_WANTED)
            self._asked.set()
        else:
            self._announce(recipe, record)
        station.set_job(self._job(recipe))

    def _fail(self, recipe: Recipe, reason: str) -> None:
        self._around.note(Sentence(f"recipe {recipe.name}: not loaded, ", reason))
        self._around.publish_event("changeover_failed", recipe, {"reason": reason})
        with self._lock:
            if self._wanted is recipe:
                self._wanted = None
                self._around.station.fail_job(f"recipe {recipe.name}: {reason}")

    def _wait_for_answers(self) -> float:
        """Wait until triggers for the recipe before have their results, or their time-out."""
        station, begun_s = self._around.station, time.monotonic()
        while station.busy and not self._end.is_set():
            self._answered.wait(0.05)
            self._answered.clear()
        return time.monotonic() - begun_s

    def _check(self, recipe: Recipe, session: Session) -> CheckRecord | None:
        """Check at a start or changeover, if the recipe says so or its last check failed."""
        if recipe.settings.golden.at_start or recipe.name in self._failed:
            return self._run_check(recipe, lambda: check_golden(RecipeJudge(recipe, session)))
        return None

    def _live_master(self, recipe: Recipe) -> Sequence[Image] | EdgesegError:
        """Return frames of the master part from the camera, or the error."""
        golden, pipeline = recipe.settings.golden, self._around.pipeline
        if not golden.needs_master:
            return ()
        reader = pipeline.readers[0]
        if not self._camera_came():
            return RuntimeFailure(f"master part: no camera within {_CAMERA_S:g} s")
        fired = reader.spec.trigger == "software"
        try:
            frames = pipeline.tap.next_frames(
                golden.master_frames,
                timeout_s=_MASTER_S,
                ask=reader.fire if fired else lambda: None,
            )
        except EdgesegError as error:
            return error
        if len(frames) == golden.master_frames:
            return frames
        return RuntimeFailure(
            f"master part: {len(frames)} of {golden.master_frames} frames within {_MASTER_S:g} s"
        )

    def _camera_came(self) -> bool:
        """Wait for the first sign of the camera, unless another recipe is requested meanwhile."""
        reader, deadline_s = self._around.pipeline.readers[0], time.monotonic() + _CAMERA_S
        while reader.never_open and self._wanted is None and time.monotonic() < deadline_s:
            if reader.ended or self._end.wait(0.02):
                break
        return not reader.never_open

    def _run_check(self, recipe: Recipe, check: Callable[[], CheckRecord]) -> CheckRecord:
        """Run a check and store its record; an error is a failed check, and never raised."""
        try:
            record = check()
        except EdgesegError as error:
            record = failure_record(recipe, error)
        except Exception as error:
            surprise = RuntimeFailure(f"the check ended with {type(error).__name__}")
            record = failure_record(recipe, surprise)
        try:
            write_record(recipe, record)
        except OSError as error:  # a full disk does not make the model another
            self._around.note(f"golden check of {recipe.name}: not kept ({error.strerror})")
        (self._failed.discard if record.passed else self._failed.add)(recipe.name)
        return record

    def _announce(self, recipe: Recipe, record: CheckRecord | None) -> None:
        """Report a check to the PLC, the log and the page."""
        if record is None:
            self._around.station.set_check(Check.NONE)
        elif record.passed:
            self._around.station.set_check(Check.PASSED)
        else:
            self._around.station.set_check(Check.FAILED, record.summary)
        self._tell(recipe, record)

    def _tell(self, recipe: Recipe, record: CheckRecord | None) -> None:
        if record is None:
            return
        word = "passed" if record.passed else "FAILED"
        self._around.note(f"golden check of {recipe.name} {word}: {record.summary}")
        facts = {"passed": record.passed, "problems": list(record.problems)}
        self._around.publish_event("golden_check", recipe, facts)

    def _job(self, recipe: Recipe) -> Job:
        job = Job(number=recipe.settings.number, name=recipe.name)
        self._around.jobs[recipe.name] = job
        return job
