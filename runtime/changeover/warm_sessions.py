"""Models that stay loaded: the next changeover to one of them takes milliseconds.

The least recently used go first when all together need more memory than they may.
"""

import os
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from edgeseg.files import size_text
from edgeseg.progress import Note
from edgeseg.runtime.backends.base import Session, warm_up
from edgeseg.runtime.backends.choose import open_session
from edgeseg.runtime.golden.expected import settle_golden
from edgeseg.runtime.golden.open_judge import Opening
from edgeseg.runtime.recipes.recipe import Recipe
from edgeseg.runtime.recipes.versions import model_files

Signature = tuple[tuple[str, int, int, int], ...]


def signature_of(model: Path) -> Signature:
    """Changes whenever a model's files are replaced; reads none of them."""
    stats = [(path.name, path.stat()) for path in model_files(model)]
    return tuple((name, stat.st_ino, stat.st_size, stat.st_mtime_ns) for name, stat in stats)


@dataclass(frozen=True, kw_only=True, eq=False)
class WarmModel:
    """An open model, and what it costs."""

    session: Session
    signature: Signature  # of the files when they were opened
    bytes: int


class WarmSessions:
    """Open models by recipe.

    What `take` gives belongs to the taker until `keep` or `drop`. One thread at a time.
    """

    def __init__(self, opening: Opening, *, limit_mb: float, note: Note) -> None:
        self._opening, self._limit_bytes, self._note = opening, int(limit_mb * 1e6), note
        self._models: OrderedDict[str, WarmModel] = OrderedDict()  # the most recent last

    @property
    def names(self) -> list[str]:
        """The recipes that are loaded, the most recently used last."""
        return list(self._models)

    @property
    def trusting(self) -> bool:
        """Whether only signed files are opened."""
        return bool(self._opening.session.trust)

    def take(self, recipe: Recipe) -> tuple[WarmModel, bool]:
        """The recipe's model, and whether it was warm; files that were replaced are opened anew."""
        model = self._models.get(recipe.name)
        if model is not None and model.signature == signature_of(recipe.model):
            return model, True
        return self.open(recipe), False

    def keep(self, name: str, model: WarmModel) -> None:
        """This one is in use from now on; others are closed while all need too much memory."""
        before = self._models.pop(name, None)
        self._models[name] = model
        if before is not None and before is not model:
            before.session.close()
        while len(self._models) > 1 and self._bytes() > self._limit_bytes:
            oldest, gone = self._models.popitem(last=False)
            gone.session.close()
            self._note(f"recipe {oldest}: no longer warm, {size_text(self._limit_bytes)} are full")

    def drop(self, model: WarmModel) -> None:
        """Close a model that was not taken into use, unless it was warm before."""
        if model not in self._models.values():
            model.session.close()

    def close(self) -> None:
        """Close all."""
        while self._models:
            self._models.popitem()[1].session.close()

    def _bytes(self) -> int:
        return sum(model.bytes for model in self._models.values())

    def open(self, recipe: Recipe) -> WarmModel:
        """Open the files that are there now; whoever asks keeps or closes them."""
        with suppress(OSError):  # what a killed run has announced would break a signature
            settle_golden(recipe)
        signature, before = signature_of(recipe.model), _resident_bytes()
        session = open_session(
            recipe.model,
            backend=self._opening.backend,
            options=self._opening.session,
            allow_random_weights=self._opening.allow_random_weights,
            note=self._note,
        )
        warm_up(session, batch=session.max_batch)
        on_disk = sum(path.stat().st_size for path in model_files(recipe.model))
        # A device's own memory is not seen from here: count at least what lies on the disk.
        cost = max(_resident_bytes() - before, on_disk)
        return WarmModel(session=session, signature=signature, bytes=cost)


def _resident_bytes() -> int:
    """Memory of this process, as Linux counts it; 0 where it does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
