"""Keep models loaded, so that the next changeover to one of them takes milliseconds.

    a recipe that was found --read again, all of it--> settings and model of one moment
    unchanged since the model was opened: warm; otherwise: opened from what was read

Where keys are trusted, everything in the folder is compared with its signature at every load, and
the compared bytes are the ones in use: settings, model, sidecar, golden set. The least recently
used models are closed first when all together exceed the memory limit.
"""

import os
from collections import OrderedDict
from dataclasses import dataclass, replace
from pathlib import Path

from edgeseg.base.errors import RuntimeFailure
from edgeseg.base.files import size_text
from edgeseg.base.progress import Note
from edgeseg.runtime.backends.base import Session, warm_up
from edgeseg.runtime.backends.choose import open_session
from edgeseg.runtime.backends.ran_versions import RanVersions
from edgeseg.runtime.backends.session_options import SessionOptions
from edgeseg.runtime.recipes.recipe import FILE, Recipe, read_recipe
from edgeseg.runtime.recipes.versions import model_files

FileStates = tuple[tuple[str, int, int, int, int], ...]


def file_states(model: Path, *more: Path) -> FileStates:
    """Return a value that changes when a model's files, or others, are replaced; reads none."""
    stats = [(path.name, path.stat()) for path in (*model_files(model), *more)]
    return tuple(
        (name, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
        for name, stat in stats
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class WarmModel:
    """An open model, and its memory."""

    session: Session
    files: FileStates  # of the model's files when they were opened
    decision_key: FileStates | str  # of all that decides: see `_decision_key`
    bytes: int


@dataclass(frozen=True, kw_only=True, eq=False)
class LoadedRecipe:
    """A recipe as it was read now, and its open model."""

    recipe: Recipe
    model: WarmModel
    was_warm: bool = False


class WarmSessions:
    """Open models by recipe.

    The caller of `take` owns the model until `keep` or `drop`. One thread at a time.
    """

    def __init__(self, options: SessionOptions, *, limit_mb: float, note: Note) -> None:
        self._options, self._limit_bytes, self._note = options, int(limit_mb * 1e6), note
        self._models: OrderedDict[str, WarmModel] = OrderedDict()  # the most recent last
        self._ran = RanVersions()

    @property
    def names(self) -> list[str]:
        """The recipes that are loaded, the most recently used last."""
        return list(self._models)

    @property
    def trusting(self) -> bool:
        """Whether only signed files are opened."""
        return bool(self._options.trust)

    def take(self, found: Recipe) -> LoadedRecipe:
        """Read a recipe again and return it with its model, warm or opened if anything changed."""
        recipe = self._read(found)
        model = self._models.get(recipe.name)
        if model is not None and model.decision_key == _decision_key(recipe):
            return LoadedRecipe(recipe=recipe, model=model, was_warm=True)
        return self._open(recipe)

    def keep(self, name: str, model: WarmModel) -> None:
        """Mark a model as in use, and close others while all need too much memory."""
        before = self._models.pop(name, None)
        self._models[name] = model
        if before is not None and before is not model:
            before.session.close()
        while len(self._models) > 1 and self._bytes() > self._limit_bytes:
            oldest, gone = self._models.popitem(last=False)
            gone.session.close()
            self._note(f"recipe {oldest}: no longer warm, {size_text(self._limit_bytes)} are full")

    def drop(self, model: WarmModel) -> None:
        """Close a model that was not put into use, unless it was warm before."""
        if model not in self._models.values():
            model.session.close()

    def close(self) -> None:
        """Close all models."""
        while self._models:
            self._models.popitem()[1].session.close()

    def _bytes(self) -> int:
        return sum(model.bytes for model in self._models.values())

    def open(self, found: Recipe) -> LoadedRecipe:
        """Read a recipe again and open its model in a new session, which the caller owns."""
        return self._open(self._read(found))

    def remember(self, recipe: Recipe) -> None:
        """Record that this version inspects: a lower one is refused from now on."""
        self._ran.remember(recipe.statement)

    def _read(self, found: Recipe) -> Recipe:
        """Read the folder as it is now; where keys are trusted, only what is signed."""
        recipe = read_recipe(found.folder, trust=self._options.trust)
        if recipe.settings.number != found.settings.number:
            raise RuntimeFailure(
                f"{recipe.folder}: its number is {recipe.settings.number} now and was "
                f"{found.settings.number} when it was asked for; ask again"
            )
        self._ran.check(recipe.statement)
        return recipe

    def _open(self, recipe: Recipe) -> LoadedRecipe:
        files, before = file_states(recipe.model), _resident_bytes()
        decision_key = _decision_key(recipe)
        session = open_session(
            recipe.model, replace(self._options, files=recipe.files), note=self._note
        )
        warm_up(session, batch=session.max_batch)
        on_disk = sum(path.stat().st_size for path in model_files(recipe.model))
        # A device's own memory is not seen from here: count at least what lies on the disk.
        cost = max(_resident_bytes() - before, on_disk)
        model = WarmModel(session=session, files=files, decision_key=decision_key, bytes=cost)
        return LoadedRecipe(recipe=recipe, model=model)


def _decision_key(recipe: Recipe) -> FileStates | str:
    """Return a value that changes with anything that decides.

    It is the hash of all signed files, or the state of the files. Unsigned golden pictures are
    compared with their approval whenever they are used.
    """
    if recipe.statement is not None:
        return recipe.statement.sha256()
    return file_states(recipe.model, recipe.folder / FILE)


def _resident_bytes() -> int:
    """Return the memory of this process, as Linux counts it; 0 where it does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
