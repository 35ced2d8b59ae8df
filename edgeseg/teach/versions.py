"""The fits of a project and the recipe that runs: taken in, chosen, installed, rolled back.

fit/         the last fit or learning that ended well; fit.before/ the one before it
recipes/NAME made of fit/, with golden pictures that every later model must get right
"""

import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgeseg.base.errors import EdgesegError, RuntimeFailure, UsageError
from edgeseg.base.files import file_sha256, temporary_folder
from edgeseg.base.leftovers import remove, sweep
from edgeseg.base.messages import Message
from edgeseg.base.progress import Note, ignore
from edgeseg.base.utc import utc_time
from edgeseg.decision.operating_point import by_rate
from edgeseg.modelfile.header import store_thresholds
from edgeseg.modelfile.metadata import ModelMetadata
from edgeseg.modelfile.signature import admit
from edgeseg.modelfile.versions import Change, replacing, settle
from edgeseg.runtime.backends.model_file import file_metadata, store_choice
from edgeseg.runtime.backends.session_options import DEFAULTS
from edgeseg.runtime.recipes.approval import read_approval, write_approval
from edgeseg.runtime.recipes.check_record import write_record
from edgeseg.runtime.recipes.install import roll_back
from edgeseg.runtime.recipes.open_judge import check_recipe
from edgeseg.runtime.recipes.recipe import FILE as RECIPE
from edgeseg.runtime.recipes.recipe import GoldenBounds, Recipe, Settings, read_recipe
from edgeseg.runtime.recipes.store import RecipeStore, make_recipe
from edgeseg.runtime.recipes.versions import keep_version, stage_model, version_before
from edgeseg.runtime.recipes.warm_sessions import FileStates, file_states
from edgeseg.teach.golden_set import (
    choose_golden,
    golden_is_there,
    stage_chosen,
    stage_proven,
    withdrawn,
)
from edgeseg.teach.judging import per_thousand
from edgeseg.teach.project import Project
from edgeseg.teach.report import read_report


def short_name(model: Path) -> str:
    """Short name of a version, for people."""
    return file_sha256(model)[:12]


def full_name(model: Path) -> str:
    """Unique name of a model at its thresholds."""
    return f"{file_sha256(model)}:{file_metadata(model).threshold!r}"


class Versions:
    """The fit of a project and the recipe that runs."""

    def __init__(
        self, project: Project, *, note: Note = ignore, trust: Sequence[Path] = ()
    ) -> None:
        self._project, self._note, self._trust = project, note, trust
        self._before = project.folder / "fit.before"
        self._told: tuple[tuple[FileStates, ...], dict[str, Any] | None] | None = None
        self._changing = threading.RLock()  # two people may decide at the same time
        with suppress(EdgesegError, OSError):  # of damaged files: whoever uses them is told
            settle(project.folder)
            settle(project.recipe)
            sweep(project.recipe / "versions")

    @property
    def model(self) -> Path:
        """Path of the graph of the last fit."""
        return self._project.fit / "model.onnx"

    def metadata(self) -> ModelMetadata | None:
        """Read the metadata of the last fit; None if there is none."""
        return file_metadata(self.model) if self.model.is_file() else None

    def facts(self) -> dict[str, Any] | None:
        """Facts of the last fit for `state`; files are read again when they have changed."""
        models = (self.model, self._project.recipe / self.model.name)
        with suppress(OSError):  # it is being replaced: what was known stands until it is there
            key = tuple(file_states(model) for model in models)
            if self._told is None or self._told[0] != key:
                self._told = (key, self._read_facts())
        return None if self._told is None else self._told[1]

    def _read_facts(self) -> dict[str, Any] | None:
        with suppress(EdgesegError):
            metadata = self.metadata()
            if metadata is not None:
                chosen = metadata.threshold
                return {
                    "version": short_name(self.model),
                    "rate_per_thousand": per_thousand(chosen),
                    "threshold": chosen.score,
                    "when": read_report(self._project.fit).when,
                    "installed": self.is_installed(),
                    "before": self._name_before(),
                }
        return None

    def _name_before(self) -> str | None:
        """Return the short name of the version that `rollback` would restore, if there is one."""
        with suppress(EdgesegError):
            return short_name(self.earlier())
        return None

    def take_in(self, folder: Path) -> None:
        """Make a finished folder the fit; the fit before stays beside it."""
        with self._changing, replacing(self._project.folder) as change:
            change.copy(self._project.fit.name, folder, keep_as=self._before.name)

    def check_rate(self, rate_per_thousand: float) -> ModelMetadata:
        """Refuse a rate that cannot be chosen; return the metadata of the fit."""
        metadata = self.metadata()
        if metadata is None:
            raise UsageError(Message("fit_before_rate"))
        if not 0 < rate_per_thousand < 1000:
            raise UsageError(Message("rate_wrong", n=rate_per_thousand))
        return metadata

    def choose(self, rate_per_thousand: float) -> None:
        """Store another false-alarm rate in the graph and the artefact of the fit."""
        with self._changing:
            metadata = self.check_rate(rate_per_thousand)
            chosen_point = read_report(self._project.fit).point(rate_per_thousand)
            chosen = by_rate(metadata.threshold, chosen_point)
            rule, when = chosen.rule, utc_time()
            images, rate = chosen_point.images, chosen.requested_rate
            artefact = self._project.fit / "part.edgeseg"
            store_thresholds(artefact, chosen, rule=rule, rate=rate, images=images, when=when)
            store_choice(self.model, chosen, rule=rule, rate=rate, images=images, when=when)

    def is_installed(self) -> bool:
        """Tell whether the recipe runs the last fit at its last rate."""
        return self.runs(self.model)

    def running(self) -> Path | None:
        """Path of the model in the recipe; None if there is none."""
        recipe = self._recipe()
        return None if recipe is None or not recipe.model.is_file() else recipe.model

    def runs(self, model: Path) -> bool:
        """Tell whether the recipe has this model, at this threshold."""
        recipe = self._recipe()
        return recipe is not None and self._same(recipe.model, model)

    def install(self) -> None:
        """Put the fit into the recipe, with a golden set of its own; refused if one is wrong."""
        with self._changing:
            if self.metadata() is None:
                raise UsageError(Message("fit_before_run"))
            recipe = self._recipe()
            if recipe is not None and self._same(recipe.model, self.model):
                return
            if recipe is None:
                recipe = self._new_recipe()
            else:
                keep_version(recipe)
                with replacing(recipe.folder) as change:
                    self._stage_golden(change, recipe, self.model)
                    stage_model(change, recipe, self.model)
            keep_version(recipe)

    def install_learned(self, model: Path) -> None:
        """Put a learned model into the recipe, if it gets all golden pictures right."""
        with self._changing:
            recipe = self._recipe()
            if recipe is None:
                raise UsageError(Message("learn_no_run"))
            keep_version(recipe)
            with replacing(recipe.folder) as change:
                stage_proven(
                    change,
                    recipe,
                    model,
                    without=withdrawn(self._project, recipe),
                    tell=lambda record: write_record(recipe, record),
                )
                stage_model(change, recipe, model)
            keep_version(recipe)

    def check(self) -> str:
        """Run the golden check on this computer; return its summary, or raise."""
        recipe = read_recipe(self._project.recipe)
        record = check_recipe(recipe, DEFAULTS, note=ignore)
        write_record(recipe, record)
        if not record.passed:
            raise RuntimeFailure(Message("run_golden", why=record.summary))
        return record.summary

    def earlier(self) -> Path:
        """Path of the model that `rollback` would restore."""
        recipe = self._recipe()
        if recipe is None:
            raise UsageError(Message("back_nothing"))
        folder, version = version_before(recipe)
        return folder / version.model

    def rollback(self) -> None:
        """Restore the version before in the recipe, with golden pictures that it was approved on.

        Where those are gone, because another fit has chosen others, it is approved on new ones.
        """

        def stage(change: Change, model: Path) -> None:
            approved = replace(recipe, folder=change.staging)
            if not golden_is_there(recipe, read_approval(approved)):
                self._stage_golden(change, recipe, model)

        with self._changing:
            recipe = read_recipe(self._project.recipe)
            roll_back(recipe, trust=self._trust, stage=None if self._trust else stage)

    def follow(self, made: Path) -> None:
        """Make the fit what runs: a folder that was made for it, or the fit before."""
        with self._changing:
            running = self.running()
            if running is None or self.is_installed():
                return
            if self.runs(made / self.model.name):
                self.take_in(made)
                remove(made)
            elif self._is_before(running):
                self.take_in(self._before)

    def check_learnable(self) -> None:
        """Refuse to learn unless the recipe runs the fit, from which learning goes on."""
        if self._recipe() is None:
            raise UsageError(Message("learn_no_run"))
        admit(self._project.recipe, self._trust)
        if not self.is_installed():
            raise UsageError(Message("learn_other_fit"))

    def _recipe(self) -> Recipe | None:
        there = (self._project.recipe / RECIPE).is_file()
        return read_recipe(self._project.recipe) if there else None

    def _same(self, one: Path, other: Path) -> bool:
        """Tell whether two models are equal, in threshold and ignored regions too."""
        if not (one.is_file() and other.is_file()):
            return False
        if file_sha256(one) != file_sha256(other):
            return False
        ours, theirs = file_metadata(one), file_metadata(other)
        return ours.threshold == theirs.threshold and ours.ignored_here == theirs.ignored_here

    def _is_before(self, model: Path) -> bool:
        with suppress(EdgesegError):
            return self._same(model, self._before / "model.onnx")
        return False

    def _new_recipe(self) -> Recipe:
        folder = self._project.recipe
        number = RecipeStore(folder=folder.parent).free_number()
        # Where the model looks is fitted into it: the recipe needs no region of its own.
        settings = Settings(number=number, golden=GoldenBounds(at_start=True))
        with temporary_folder(folder.parent, name=folder.name) as place:
            recipe = make_recipe(place / folder.name, self.model, settings)
            approval = choose_golden(
                self._project, recipe, self.model, master_of=None, note=self._note
            )
            write_approval(recipe, approval)
            recipe.folder.rename(folder)
        return read_recipe(folder)

    def _stage_golden(self, change: Change, recipe: Recipe, model: Path) -> None:
        stage_chosen(change, self._project, recipe, model, note=self._note)
