"""The next version, tried before it is installed: planted defects, and the golden pictures."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Literal

import numpy as np

from edgeseg.base.files import file_sha256, temporary_folder
from edgeseg.base.messages import Message
from edgeseg.decision.judgement import is_alarming
from edgeseg.decision.lost_defects import Loss
from edgeseg.runtime.recipes.approval import golden_files, read_approval
from edgeseg.runtime.recipes.recipe import read_recipe
from edgeseg.teach.golden_set import is_picture_of, prove_beside, withdrawn
from edgeseg.teach.job_progress import JobProgress
from edgeseg.teach.known_defects import Survey, open_detector
from edgeseg.teach.project import Project
from edgeseg.teach.report import read_report, store_report
from edgeseg.vision.geometry import Polygon


@dataclass(frozen=True, kw_only=True)
class WrongGolden:
    """A golden picture that the next version would judge wrong."""

    name: str
    kind: Literal["good", "bad"]  # as it was approved
    ours: bool  # the project has it still, where it can be taken out
    approved: bool = True  # else somebody put it into the recipe since


def count_lost(
    project: Project, folder: Path, places: Sequence[Polygon], known: Survey, job: JobProgress
) -> Loss:
    """Count the planted defects that the new version loses, and store their scores.

    It ignores these places.
    """
    from edgeseg.teach.planted_copies import planted_copies  # the service plants none

    job.at("learn_planted", Message("learn_planted"))
    found, scores = [], []
    with (
        open_detector(project.fit / "model.onnx") as old,
        open_detector(folder / "model.onnx") as new,
    ):
        thresholds = old.threshold, new.threshold
        for copy_hwc in planted_copies(project, ignored=places):
            before, after = old.predict(copy_hwc), new.predict(copy_hwc)
            if np.isfinite(after.score):
                scores.append(after.score)
            if is_alarming(before.verdict):
                found.append(is_alarming(after.verdict))
    earlier = read_report(project.fit)
    loss = Loss(
        threshold_old=thresholds[0],
        threshold_new=thresholds[1],
        planted_found=len(found),
        planted_lost=found.count(False),
        known_found=len(known.guards),  # all of which it still finds
        earlier_share=earlier.lost,
        earlier_rise=earlier.rise,
        may_lose=project.settings().may_lose,
    )
    made = replace(read_report(folder), planted=tuple(scores))
    store_report(folder, replace(made, lost=loss.total_share, rise=min(loss.total_rise, 1e9)))
    return loss


def prove_next(
    project: Project, folder: Path, job: JobProgress
) -> tuple[tuple[WrongGolden, ...], tuple[str, ...]]:
    """Do the golden check that decides when it is installed.

    Returns the golden pictures that stand against it, and all problems in words.
    """
    job.at("run_checking", Message("run_checking"))
    recipe = read_recipe(project.recipe)
    without = withdrawn(project, recipe)
    with temporary_folder(folder, name="golden") as place:
        record = prove_beside(recipe, folder / "model.onnx", place, without=without)
    if record.passed:
        return (), ()
    approved = {picture.file for picture in read_approval(recipe).pictures}
    wrong = {picture.file for picture in record.pictures if not picture.passed}
    found = (
        _wrong_golden(project, file, path, approved=file in approved)
        for file, path in golden_files(recipe)
        if file not in without and (file in wrong or file not in approved)
    )
    return tuple(found), record.problems


def _wrong_golden(project: Project, file: str, path: Path, *, approved: bool) -> WrongGolden:
    return WrongGolden(
        name=PurePosixPath(file).name,
        kind="good" if file.startswith("good/") else "bad",
        ours=is_picture_of(project, file, file_sha256(path)),
        approved=approved,
    )
