"""The golden pictures of the recipe that runs: copies of a project's own, chosen when it was made.

Whoever takes a picture out of the project says that it is not what it was called. Its golden copy
still demands that verdict, so the next learning leaves it out. One that was put into the recipe by
hand is taken out by a copy of it among the removed pictures.
"""

from collections.abc import Callable, Container
from dataclasses import replace
from pathlib import Path

from edgeseg.base.errors import RuntimeFailure, UsageError
from edgeseg.base.files import copy_file, file_sha256
from edgeseg.base.messages import Message
from edgeseg.base.progress import Note, ignore
from edgeseg.decision.judgement import is_alarming
from edgeseg.modelfile.versions import Change
from edgeseg.runtime.backends.session_options import DEFAULTS
from edgeseg.runtime.recipes.approval import (
    LABELS,
    Approval,
    golden_files,
    master_files,
    read_approval,
    stage_approval,
    write_approval,
)
from edgeseg.runtime.recipes.check_record import CheckRecord
from edgeseg.runtime.recipes.golden_check import Image, RecipeJudge, approve, prove
from edgeseg.runtime.recipes.open_judge import open_judge
from edgeseg.runtime.recipes.recipe import Recipe, read_recipe
from edgeseg.teach.project import Project
from edgeseg.vision.images import images_in, read_image

GOLDEN_GOOD, GOLDEN_BAD = 8, 20  # pictures at most: a check takes seconds


def choose_golden(
    project: Project, draft: Recipe, model: Path, *, master_of: Recipe | None, note: Note
) -> Approval:
    """Copy pictures that a model gets right into a draft's golden set; approve its scores."""
    with open_judge(draft, DEFAULTS, note=ignore, model=model) as judge:
        for label in LABELS:
            (draft.golden / label).mkdir(parents=True, exist_ok=True)
        passed = _copy_right(project, judge, "good", most=GOLDEN_GOOD, note=note)
        _copy_right(project, judge, "bad", most=GOLDEN_BAD, note=note)
        if not passed:
            raise RuntimeFailure(Message("run_no_golden"))
        return approve(judge, master=[] if master_of is None else _master(master_of))


def stage_chosen(
    change: Change, project: Project, recipe: Recipe, model: Path, *, note: Note
) -> None:
    """Add a golden set that is chosen anew for a model to a change of a recipe."""
    draft = _stage_folders(change, recipe)
    stage_approval(change, choose_golden(project, draft, model, master_of=recipe, note=note))


def stage_proven(
    change: Change,
    recipe: Recipe,
    model: Path,
    *,
    without: Container[str],
    tell: Callable[[CheckRecord], object],
) -> None:
    """Add the golden set without some pictures to a change, if a model gets all others right."""
    draft = _stage_folders(change, recipe)
    _copy_golden(recipe, draft, without=without)
    with open_judge(draft, DEFAULTS, note=ignore, model=model) as judge:
        record = prove(judge)
        tell(record)
        if not record.passed:
            raise RuntimeFailure(Message("learn_golden_other", why=record.summary))
        stage_approval(change, approve(judge, master=_master(recipe)))


def prove_beside(
    recipe: Recipe, model: Path, folder: Path, *, without: Container[str]
) -> CheckRecord:
    """Do the check of `stage_proven` in another folder, and change nothing."""
    draft = replace(recipe, folder=folder)
    _copy_golden(recipe, draft, without=without)
    with open_judge(draft, DEFAULTS, note=ignore, model=model) as judge:
        return prove(judge)


def golden_is_there(recipe: Recipe, approval: Approval) -> bool:
    """Tell whether the golden pictures are those of an approval."""
    there = {name: file_sha256(path) for name, path in golden_files(recipe)}
    return there == {picture.file: picture.sha256 for picture in approval.pictures}


def withdrawn(project: Project, recipe: Recipe) -> frozenset[str]:
    """Return the golden pictures that people took out of the project since, as `good/001.png`."""
    removed: dict[int, list[Path]] = {}  # by size: few are as long as a golden one
    for path in images_in(project.pictures("removed")):
        removed.setdefault(path.stat().st_size, []).append(path)

    def is_out(file: str, golden: Path) -> bool:
        sha256, same = file_sha256(golden), removed.get(golden.stat().st_size, ())
        return not is_picture_of(project, file, sha256) and any(
            file_sha256(path) == sha256 for path in same
        )

    return frozenset(file for file, path in golden_files(recipe) if is_out(file, path))


def is_picture_of(project: Project, file: str, sha256: str) -> bool:
    """Tell whether the project itself has a golden picture, where it can be removed."""
    path = project.folder / file
    return path.is_file() and file_sha256(path) == sha256


def golden_picture(project: Project, file: str) -> Path:
    """Find a golden picture of the recipe by its name, such as `good/001.png`."""
    found = dict(golden_files(read_recipe(project.recipe))).get(file)
    if found is None:
        raise UsageError(Message("picture_missing", name=file, folder="golden/"))
    return found


def _stage_folders(change: Change, recipe: Recipe) -> Recipe:
    for label in LABELS:
        change.path(f"golden/{label}")
    return replace(recipe, folder=change.staging)


def _copy_golden(recipe: Recipe, draft: Recipe, *, without: Container[str]) -> None:
    """Copy the golden set and what was approved of it, but some pictures."""
    for label in LABELS:
        (draft.golden / label).mkdir(parents=True, exist_ok=True)
    for name, path in golden_files(recipe):
        if name not in without:
            copy_file(path, draft.golden / name)
    approval = read_approval(recipe)
    kept = tuple(picture for picture in approval.pictures if picture.file not in without)
    write_approval(draft, replace(approval, pictures=kept))


def _master(recipe: Recipe) -> list[Image]:
    return [read_image(path) for path in master_files(recipe)]


def _copy_right(project: Project, judge: RecipeJudge, label: str, *, most: int, note: Note) -> int:
    """Copy pictures from all over the folder whose verdict is right; return how many."""
    folder = project.pictures("good" if label == "good" else "bad")
    paths = images_in(folder)
    step = max(1, len(paths) // most)
    copied = 0
    for path in [*paths[::step], *(p for i, p in enumerate(paths) if i % step)]:
        if copied == most:
            break
        verdict = judge.score(read_image(path), name=path.name).verdict
        right = verdict == "good" if label == "good" else is_alarming(verdict)
        if not right:
            note(f"{label}/{path.name}: judged {verdict}, so it is no golden picture")
            continue
        copy_file(path, judge.recipe.golden / label / path.name)
        copied += 1
    return copied
