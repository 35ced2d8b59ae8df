"""Another model for a recipe: proven on its golden pictures, approved, and put in its place."""

from pathlib import Path

from edgeseg.errors import RuntimeFailure
from edgeseg.progress import Note
from edgeseg.runtime.golden.check import approve, prove
from edgeseg.runtime.golden.expected import announced_golden, read_expected, write_expected
from edgeseg.runtime.golden.open_judge import Opening, opened_judge
from edgeseg.runtime.golden.record import write_record
from edgeseg.runtime.recipes.recipe import Recipe
from edgeseg.runtime.recipes.versions import keep_version, put_model


def install_model(recipe: Recipe, model: Path, opening: Opening, *, note: Note) -> None:
    """Let a model take the place of the recipe's, if it gets every golden picture right.

    The one before is kept as a version. A stream that runs the recipe proves the new one again and
    swaps it in between two frames.
    """
    read_expected(recipe)
    with opened_judge(recipe, opening, note=note, model=model) as judge:
        record = prove(judge)
        write_record(recipe, record)
        if not record.passed:
            raise RuntimeFailure(
                f"{model}: fails the golden pictures of {recipe.name}: {record.summary}"
            )
        expected = approve(judge)
    keep_version(recipe)
    with announced_golden(recipe) as draft:
        write_expected(draft, expected)
        put_model(recipe, model)
    keep_version(recipe)
