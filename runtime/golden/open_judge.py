"""A recipe's model, opened as the stream opens it, for checks and approvals."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgeseg.errors import EdgesegError, UsageError
from edgeseg.progress import Note
from edgeseg.runtime.backends.choose import AUTO, open_session
from edgeseg.runtime.backends.session_options import DEFAULTS, SessionOptions
from edgeseg.runtime.golden.check import Judge, check_golden, failed_record
from edgeseg.runtime.golden.expected import read_expected
from edgeseg.runtime.golden.record import CheckRecord
from edgeseg.runtime.recipes.recipe import Recipe


@dataclass(frozen=True, kw_only=True)
class Opening:
    """What runs a model."""

    backend: str = AUTO
    session: SessionOptions = DEFAULTS
    allow_random_weights: bool = False


@contextmanager
def opened_judge(
    recipe: Recipe, opening: Opening, *, note: Note, model: Path | None = None
) -> Iterator[Judge]:
    """The session and the settings of a recipe; another model may stand for its own."""
    own = replace(opening.session, files=recipe.files)
    with open_session(
        recipe.model if model is None else model,
        backend=opening.backend,
        options=own if model is None else opening.session,
        allow_random_weights=opening.allow_random_weights,
        note=note,
    ) as session:
        yield Judge(recipe, session)


def check_recipe(
    recipe: Recipe, opening: Opening, *, live: Sequence[NDArray[np.uint8]] = (), note: Note
) -> CheckRecord:
    """Check a recipe on this computer; a model that cannot be opened or run is a failed check."""
    read_expected(recipe)  # nothing approved is a mistake of the caller, not a failed check
    try:
        with opened_judge(recipe, opening, note=note) as judge:
            return check_golden(judge, live=live)
    except UsageError:
        raise
    except EdgesegError as error:
        return failed_record(recipe, error)
