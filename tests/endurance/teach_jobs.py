"""A project that is taught again and one that learns: what a kill may not take from it."""

import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from tests.endurance.recipe_jobs import is_approved, recipe_facts

KEPT = "pictures.txt"  # beside a project: the hashes of all that it began with
_KINDS = ("good", "bad", "removed", "feedback")
_ALARM = "0000000000001-000000"


def make_projects(bench: Path, succeed: Callable[..., None], settings: tuple[str, ...]) -> None:
    """A project whose recipe runs, with one mark that may be learned."""
    weights, graph = bench / "small.pth", bench / "taught.onnx"
    _write_weights(weights)
    words = [str(weights) if word == "random" else word for word in settings]
    succeed("export-backbone", graph, *words)
    project = bench / "line"
    succeed("teach", project, "--good", bench / "plate/train/good", "--graph", graph, "-q")
    _mark(project, bench / "more")
    (bench / "later").mkdir()
    for picture in (bench / "more").iterdir():
        shutil.copy(picture, bench / "later" / f"later-{picture.name}")
    (bench / KEPT).write_text("\n".join(sorted(_pictures(project))), encoding="utf-8")


def model_that_runs(folder: Path) -> Path:
    """Of a project whose pictures are all there and whose recipe passes its golden check."""
    from edgeseg.base.progress import ignore
    from edgeseg.runtime.backends.session_options import DEFAULTS
    from edgeseg.runtime.recipes.open_judge import check_recipe
    from edgeseg.runtime.recipes.recipe import read_recipe
    from edgeseg.vision.images import images_in, read_image

    for kind in _KINDS:
        for path in images_in(folder / kind):
            read_image(path)
    kept = (folder.parent / KEPT).read_text(encoding="utf-8").splitlines()
    lost = set(kept) - _pictures(folder)
    if lost:
        raise ValueError(f"{len(lost)} pictures are lost")
    recipe_facts(folder / "recipes" / folder.name)
    recipe = read_recipe(folder / "recipes" / folder.name)
    record = check_recipe(recipe, DEFAULTS, note=ignore)
    if not record.passed:
        raise ValueError(f"golden check failed: {record.summary}")
    return recipe.model


def is_mended(folder: Path) -> None:
    """After the next run the approval is of the model, and what runs is the last fit."""
    from edgeseg.teach.project import Project
    from edgeseg.teach.versions import Versions

    is_approved(folder / "recipes" / folder.name)
    if not Versions(Project.open(folder)).is_installed():
        raise ValueError("what runs is not the last fit")
    # What the fit before was, and a preview of nothing to learn, depend on how often it ran.
    for name in ("fit.before", "next"):
        shutil.rmtree(folder / name, ignore_errors=True)


def _write_weights(target: Path) -> None:
    """Random ones in a file: a station refuses those that are called random."""
    import torch
    from torchvision.models import mobilenet_v3_small

    torch.manual_seed(0)
    torch.save(mobilenet_v3_small(weights=None).state_dict(), target)


def _mark(folder: Path, more: Path) -> None:
    """An alarm as a station keeps it, called good by a supervisor."""
    from edgeseg.base.files import write_json
    from edgeseg.teach.alarms import Alarm
    from edgeseg.teach.feedback import Feedback, new_mark
    from edgeseg.teach.project import Project

    project = Project.open(folder)
    project.alarms.mkdir()
    picture = project.alarms / f"{_ALARM}.png"
    shutil.copy(min(more.iterdir()), picture)
    alarm = Alarm(
        id=_ALARM, when="", score=None, p_value=None, verdict="defect", threshold=0.0,
        box=None, width=1, height=1,
    )  # fmt: skip
    write_json(picture.with_suffix(".json"), asdict(alarm))
    marks = Feedback(project.feedback)
    marks.mark(alarm, picture, new_mark("good", who="supervisor", name="Ada"))


def _pictures(folder: Path) -> set[str]:
    """Of all that people took or marked, wherever it lies now."""
    from edgeseg.base.files import file_sha256

    return {file_sha256(path) for kind in _KINDS for path in (folder / kind).glob("*.png")}
