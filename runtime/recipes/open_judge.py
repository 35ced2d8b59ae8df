"""Open a recipe's model as the stream does, for checks and approvals."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import EdgesegError, UsageError
from edgeseg.base.progress import Note
from edgeseg.runtime.backends.choose import open_session
from edgeseg.runtime.backends.session_options import SessionOptions
from edgeseg.runtime.recipes.approval import read_approval
from edgeseg.runtime.recipes.check_record import CheckRecord
from edgeseg.runtime.recipes.golden_check import RecipeJudge, check_golden, failure_record
from edgeseg.runtime.recipes.recipe import Recipe


@contextmanager
def open_judge(
    recipe: Recipe, options: SessionOptions, *, note: Note, model: Path | None = None
) -> Iterator[RecipeJudge]:
    """Open the session and settings of a recipe; `model` replaces its own."""
    own = replace(options, files=recipe.files) if model is None else options
    with open_session(recipe.model if model is None else model, own, note=note) as session:
        yield RecipeJudge(recipe, session)


def check_recipe(
    recipe: Recipe, options: SessionOptions, *, live: Sequence[NDArray[np.uint8]] = (), note: Note
) -> CheckRecord:
    """Check a recipe on this computer; a model that cannot be opened or run fails the check."""
    read_approval(recipe)  # nothing approved is a mistake of the caller, not a failed check
    try:
        with open_judge(recipe, options, note=note) as judge:
            return check_golden(judge, live=live)
    except UsageError:
        raise
    except EdgesegError as error:
        return failure_record(recipe, error)
