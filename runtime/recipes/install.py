"""Install another model in a recipe: prove it on the golden pictures, approve it, replace the file.

An earlier model comes back with its own approval.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from edgeseg.base.errors import RuntimeFailure
from edgeseg.base.files import file_sha256
from edgeseg.base.progress import Note
from edgeseg.modelfile.file_reading import DISK
from edgeseg.modelfile.signature import Statement, read_signature, trusted_statement
from edgeseg.modelfile.versions import Change, replacing
from edgeseg.runtime.backends.kept_choice import commands_to_choose_again
from edgeseg.runtime.backends.model_file import file_metadata
from edgeseg.runtime.backends.ran_versions import RanVersions
from edgeseg.runtime.backends.session_options import SessionOptions
from edgeseg.runtime.recipes.approval import read_approval, stage_approval
from edgeseg.runtime.recipes.check_record import write_record
from edgeseg.runtime.recipes.golden_check import approve, prove
from edgeseg.runtime.recipes.open_judge import open_judge
from edgeseg.runtime.recipes.recipe import APPROVAL, Recipe
from edgeseg.runtime.recipes.versions import (
    ALONG,
    Version,
    keep_version,
    model_files,
    stage_model,
    version_before,
)


def install_model(recipe: Recipe, model: Path, options: SessionOptions, *, note: Note) -> None:
    """Install a model in a recipe, if it gets every golden picture right.

    The earlier one is kept as a version. A stream that runs the recipe proves the new one again and
    swaps it in between two frames.
    """
    read_approval(recipe)
    _note_choice(recipe, model, note)
    with open_judge(recipe, options, note=note, model=model) as judge:
        record = prove(judge)
        write_record(recipe, record)
        if not record.passed:
            raise RuntimeFailure(
                f"{model}: fails the golden pictures of {recipe.name}: {record.summary}"
            )
        approval = approve(judge)
    keep_version(recipe)
    with replacing(recipe.folder) as change:
        stage_approval(change, approval)
        stage_model(change, recipe, model)
    keep_version(replace(recipe, files=DISK))  # it is to be signed anew


def _note_choice(recipe: Recipe, model: Path, note: Note) -> None:
    """Note what was chosen for the recipe's model and is missing for the new one."""
    try:
        before = file_metadata(recipe.model)
    except RuntimeFailure:  # a damaged one is replaced for that
        return
    after = file_metadata(model)
    same = (before.threshold, before.ignored_here) == (after.threshold, after.ignored_here)
    if not before.history or same:
        return
    again = commands_to_choose_again(before, recipe.model, regions=None)
    note(
        f"{recipe.name}: threshold {before.threshold.score:.4f} and {len(before.ignored_here)} "
        f"ignored regions were chosen of the model before; the new one has "
        f"{after.threshold.score:.4f} and {len(after.ignored_here)}"
        + (f"; to choose as before: {again}" if again else "")
    )


def roll_back(
    recipe: Recipe,
    *,
    trust: Sequence[Path] = (),
    stage: Callable[[Change, Path], None] | None = None,
) -> Version:
    """Restore the version before the present one, with its approval and its signature.

    `stage` may add to the change what else the version needs; it is given the version's model.

    Where keys are trusted, only a version that one of them signed is restored: another would not
    run here. The rollback is recorded on this device, because a station refuses versions older than
    what it ran.
    """
    path, version = version_before(recipe)
    if trust:
        RanVersions().go_back(_check_signed(recipe, path, version, trust))
    else:
        with suppress(RuntimeFailure):  # the station will say so, if it asks for signatures
            signature = read_signature(path)
            if signature is not None:
                RanVersions().go_back(signature.statement)
    with replacing(recipe.folder) as change:
        for name in ALONG:
            kept = path / Path(name).name
            if kept.is_file():
                change.copy(name, kept)
        stage_model(change, recipe, path / version.model)
        if stage is not None:
            stage(change, path / version.model)
    return version


def _check_signed(recipe: Recipe, path: Path, version: Version, trust: Sequence[Path]) -> Statement:
    """Check a kept version, and what stays of its recipe, against its own signature."""
    if read_signature(path) is None:
        raise RuntimeFailure(
            f"{path}: not signed when it was kept, and only signed versions may come back here; "
            "install a model that is signed"
        )
    statement = trusted_statement(path, trust, name=recipe.name)
    kept = {each.name: each for each in model_files(path / version.model)}
    kept[APPROVAL] = path / Path(APPROVAL).name
    for name, digest in {**dict.fromkeys(kept), **statement.files}.items():
        file = kept.get(name, recipe.folder / name)
        if not file.is_file() or file_sha256(file) != digest:
            raise RuntimeFailure(
                f"{path}: its {name} is not what was signed then, and only signed versions may "
                "come back here; install a model that is signed"
            )
    return statement
