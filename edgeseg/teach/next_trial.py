"""The next version, tried before it is installed: planted defects, and the golden pictures."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Literal

import numpy as np

from edgeseg.base.files import temporary_folder
from edgeseg.base.messages import Message
from edgeseg.decision.judgement import is_alarming
from edgeseg.decision.lost_defects import Loss
from edgeseg.runtime.recipes.recipe import read_recipe
from edgeseg.teach.golden_set import prove_beside, withdrawn
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

    Returns the golden pictures that the new version gets wrong, and all problems in words.
    """
    job.at("run_checking", Message("run_checking"))
    recipe = read_recipe(project.recipe)
    without = withdrawn(project, recipe)
    with temporary_folder(folder, name="golden") as place:
        record = prove_beside(recipe, folder / "model.onnx", place, without=without)
    if record.passed:
        return (), ()
    wrong = (picture for picture in record.pictures if not picture.passed)
    found = tuple(
        WrongGolden(
            name=PurePosixPath(picture.file).name,
            kind="good" if picture.label == "good" else "bad",
            ours=(project.folder / picture.file).is_file(),
        )
        for picture in wrong
    )
    return found, record.problems
