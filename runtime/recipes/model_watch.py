"""Swap in a model file that was replaced on the disk, after a proof on the golden set.

changed, and at rest -> hash and metadata -> golden verdicts in this thread, beside the
inspection -> swap between two frames; a model that fails is refused, and the old model stays
"""

import threading
from dataclasses import dataclass

from edgeseg.base.errors import EdgesegError, RuntimeFailure
from edgeseg.base.messages import Sentence
from edgeseg.runtime.recipes.approval import Approval, read_approval, write_approval
from edgeseg.runtime.recipes.changeover import ActiveRecipe, Changeover, LineContext, StuckError
from edgeseg.runtime.recipes.check_record import write_record
from edgeseg.runtime.recipes.golden_check import RecipeJudge, approve, check_golden, prove
from edgeseg.runtime.recipes.recipe import Recipe
from edgeseg.runtime.recipes.versions import keep_version
from edgeseg.runtime.recipes.warm_sessions import FileStates, WarmModel, WarmSessions, file_states

EVERY_S = 1.0  # between looks at the files, and how long they must be at rest


@dataclass(frozen=True, kw_only=True)
class _ProvenModel:
    recipe: Recipe  # as it lies there now, with its model
    model: WarmModel
    before: Approval  # what is approved on the disk
    approval: Approval  # what is to be: new scores, unless these are approved already


class ModelWatch:
    """A watch on the files of the active recipe, in its own thread."""

    def __init__(self, changeover: Changeover, warm: WarmSessions, around: LineContext) -> None:
        self._changeover, self._warm, self._around = changeover, warm, around
        self._seen: FileStates | None = None
        self._tried: FileStates | None = None  # of the files that need no second look
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="model-watch", daemon=True)

    def start(self) -> None:
        """Start watching."""
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._end.set()
        if self._thread.ident is not None:
            self._thread.join(60.0)

    def _run(self) -> None:
        while not self._end.wait(EVERY_S):
            try:
                self.look()
            except Exception as error:  # a surprise of a library or a disk must not end the watch
                self._around.note(f"replaced model: {type(error).__name__}: {error}")

    def look(self) -> bool:
        """Check the files once; return True when a new model was swapped in."""
        running = self._changeover.running
        now = file_states(running.recipe.model)
        at_rest, self._seen = now == self._seen, now
        if now in (running.model.files, self._tried) or not (now and at_rest):
            return False
        self._tried = now  # whatever comes of it: a proof takes seconds of a station's time
        try:
            proven = self._prove(running.recipe)
        except EdgesegError as error:
            self._refuse(running.recipe, Sentence(error))
            return False
        return self._swap(running, proven)

    def _prove(self, found: Recipe) -> _ProvenModel:
        """Prove the whole recipe as it is now: a model is never judged by another's settings."""
        loaded = self._warm.open(found)
        recipe, model = loaded.recipe, loaded.model
        try:
            approval = read_approval(recipe)
            judge = RecipeJudge(recipe, model.session)
            known = approval.model_sha256 == model.session.model_sha256
            if self._warm.trusting and not known:
                raise RuntimeFailure(
                    "its scores are not approved, and approving them here would break the "
                    "signature; approve and sign it where the key is"
                )
            record = check_golden(judge) if known else prove(judge)
            write_record(recipe, record)
            if not record.passed:
                raise RuntimeFailure(f"golden pictures: {record.summary}")
            approved = approval if known else approve(judge)
            return _ProvenModel(recipe=recipe, model=model, before=approval, approval=approved)
        except Exception:
            model.session.close()
            raise

    def _swap(self, running: ActiveRecipe, proven: _ProvenModel) -> bool:
        recipe, model = proven.recipe, proven.model
        with self._changeover.swapping:
            if self._changeover.running is not running:
                model.session.close()  # another recipe was loaded meanwhile
                return False
            is_new = proven.approval != proven.before
            try:
                if is_new:  # before it inspects: the next start of a run that is killed needs it
                    write_approval(recipe, proven.approval)
                self._warm.remember(recipe)
                self._changeover.swap(recipe, model, then=lambda: None)
            except StuckError:
                self._tried = None
                raise  # it may be swapped in yet, or the next time
            except (EdgesegError, OSError) as error:
                model.session.close()
                self._refuse(recipe, Sentence(error))
                if is_new:
                    write_approval(recipe, proven.before)
                return False
            keep_version(recipe)
        sha256 = model.session.model_sha256
        self._around.note(f"recipe {recipe.name}: its new model {str(sha256)[:12]}... runs")
        self._around.publish_event("model_swapped", recipe, {"model_sha256": sha256})
        return True

    def _refuse(self, recipe: Recipe, reason: str) -> None:
        self._around.note(Sentence(f"recipe {recipe.name}: its new model is refused, ", reason))
        self._around.publish_event("model_refused", recipe, {"reason": reason})
