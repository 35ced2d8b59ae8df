"""A project that runs, fitted on good parts alone, and parts with faint stripes that pass."""

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.runtime.events.records import FrameResult
from edgeseg.teach.fit_job import fit
from edgeseg.teach.project import Project
from edgeseg.teach.versions import Versions
from edgeseg.vision.images import write_image
from tests.support import KEPT
from tests.support.scored_frames import make_result
from tests.support.small_models import frames
from tests.support.striped_parts import defective
from tests.support.teach_engine import LISTENER

SIZE_HW = (64, 64)


def fitted_project(
    folder: Path, *, source: str = "", graph: Path = KEPT / "backbone.onnx"
) -> Project:
    """A project that runs, fitted on good parts alone, through a graph of 0.2.0 or another."""
    project = Project.open_or_create(folder)
    for number, frame in enumerate(frames(24, size_hw=SIZE_HW)):
        write_image(project.pictures("good") / f"g{number:02d}.png", frame)
    settings = replace(project.settings(), graph=str(graph), source=source)
    project.store(replace(settings, rate=0.1, may_lose=0.5))
    project.fit.mkdir()
    fit(project, project.fit, LISTENER)
    Versions(project).install()
    return project


def striped(number: int) -> NDArray[np.uint8]:
    """A part with faint stripes."""
    return defective("grey", number, size_hw=SIZE_HW)[0]


def outline_of(number: int) -> tuple[tuple[float, float], ...]:
    """A box around its stripes."""
    x, y, w, h = map(float, cv2.boundingRect(defective("grey", number, size_hw=SIZE_HW)[1]))
    return (x, y), (x + w, y), (x + w, y + h), (x, y + h)


def passed(number: int, *, score: float = 5.0) -> FrameResult:
    """A striped part that the station has judged good; the id tells its number."""
    result = make_result(score=score, frame_hwc=striped(number), frame_index=number, wall_s=1.0)
    return replace(result, part_id=f"SN {number}")
