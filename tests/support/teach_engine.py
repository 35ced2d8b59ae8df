"""Teaching with the brightness model: a picture's score is its brightest pixel, so all is known.

`CHILD` is the service's child process with this engine in place of the real one. A good picture
called slow.png lets it take as long as a test needs; one called broken.png makes it fail. Ranks
make its thresholds, which are then scores of pictures; `TAIL_CHILD` makes them as a fit does by
default, by the tail of all.
"""

import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from edgeseg.base.errors import EdgesegError
from edgeseg.data.datasets import open_dataset
from edgeseg.decision.calibration import Calibration, GoodImageScores, calibrate
from edgeseg.decision.planted_scores import PlantedScores
from edgeseg.decision.score_origin import Promise, ScoreOrigin
from edgeseg.decision.score_statistics import ScoreStatistics
from edgeseg.fitting.spaces import settle_geometry
from edgeseg.modelfile.container import seal_header
from edgeseg.modelfile.header import KEY, SCHEMA, calibration_facts, read_floats, read_header
from edgeseg.modelfile.seal import seal_file
from edgeseg.teach import background_job, engine
from edgeseg.teach.project import Project, ProjectSettings
from edgeseg.vision.ignored import polygon_mask
from edgeseg.vision.images import images_in, read_image, resize_image, write_image
from tests.support import REPO
from tests.support.brightness_model import brightness_metadata, write_brightness_model

if TYPE_CHECKING:
    import pytest

SIZE_HW = (32, 48)


def _child(promise: Promise) -> tuple[str, ...]:
    start = (
        f"import sys; sys.path.insert(0, {str(REPO)!r}); "
        f"from tests.support.teach_engine import main; sys.exit(main({promise!r}))"
    )
    return (sys.executable, "-c", start)


CHILD, TAIL_CHILD = _child("conformal"), _child("tail")
_used: list[Promise] = ["conformal"]


def part(brightest: int, *, seed: int = 0) -> NDArray[np.uint8]:
    """A picture of the model's own size whose score is known."""
    image = np.random.default_rng(seed).integers(20, 90, (*SIZE_HW, 1), np.uint8)
    image = np.repeat(image, 3, axis=2)
    image[8:16, 12:24] = brightest
    return image


def write_project(
    folder: Path, *, good: int = 40, bad: tuple[int, ...] = (), source: str = "", rate: float = 0.05
) -> Project:
    """Good pictures with scores 100, 101, 102 ..., and bad ones of given scores."""
    project = Project.open_or_create(folder)
    for index in range(good):
        write_image(project.pictures("good") / f"g{index:02d}.png", part(100 + index, seed=index))
    for score in bad:
        write_image(project.pictures("bad") / f"b{score}.png", part(score, seed=score))
    project.store(ProjectSettings(source=source, rate=rate))
    return project


def _kept(ignored: list) -> NDArray[np.bool_]:
    return ~polygon_mask(tuple(map(tuple, ignored)), SIZE_HW)


def _scores(paths: list[Path], ignored: list) -> GoodImageScores:
    kept = _kept(ignored)
    maps = [resize_image(read_image(path), SIZE_HW).mean(axis=2) * kept for path in paths]
    scores = np.array([each.max() for each in maps], np.float32)
    grid = np.zeros((4, 6), np.float32)
    return GoodImageScores(
        scores=scores,
        peaks=scores,
        frame_d2=scores,
        d2_mean=grid,
        d2_std=grid,
        images=tuple(map(str, paths)),
    )


def _artefact(
    good: GoodImageScores, *, rate: float, fitted: int, planted: bool, ignored: list
) -> SimpleNamespace:
    calibration = calibrate(
        good,
        false_alarm_rate=rate,
        promise=_used[-1],
        origin=ScoreOrigin(kind="cross"),
        expected_d2=1.0,
        measured_d2=1.0,
    )
    scores = np.array([110.0, 150.0, 180.0, 220.0], np.float32)
    defects = PlantedScores(scores=scores, areas=scores / 1e4, kinds=("blob",) * 4)
    return SimpleNamespace(
        calibration=replace(calibration, foreign_limit=None),
        planted=defects if planted else None,
        data={"name": "brightness", "fitted": fitted, "ignored": ignored},
    )


def _save(artefact: SimpleNamespace, out: Path) -> None:
    calibration: Calibration = artefact.calibration
    empty: dict[str, object] = {}
    header = {
        "schema": SCHEMA,
        "config": empty,
        "weights": empty,
        "calibration": calibration.header(),
        "data": artefact.data,
        "accuracy": [],
        "history": [],
        "versions": empty,
    }
    save_file(
        {"good.scores": calibration.good.scores, "good.peaks": calibration.good.peaks},
        out,
        {KEY: seal_header(header)},
    )
    seal_file(out)


def fit_model(images, *, graph, config, options, out, reference=None):
    """The threshold of the pictures' own scores."""
    # It refuses as the real one does.
    settle_geometry(config, open_dataset(images), reference=reference, note=options.note)
    paths = images_in(images)
    for path in options.progress(paths, length=len(paths), label="Fitting"):
        if path.stem == "slow":
            options.note("now slow")
            time.sleep(60)
        if path.stem == "broken":
            raise EdgesegError("broken.png: cannot be fitted on")
        if path.stem == "crash":
            raise ZeroDivisionError("a bug")
    ignored = list(config.geometry.ignore)
    artefact = _artefact(
        _scores(paths, ignored),
        rate=config.false_alarm_rate,
        fitted=len(paths),
        planted=True,
        ignored=ignored,
    )
    _save(artefact, out)
    return artefact


def ignore_regions(artefact, *, regions, options, out):
    """The threshold of what is left of the pictures beside the fit."""
    header = read_header(artefact)
    ignored = [*header["data"]["ignored"], *regions]
    changed = _artefact(
        _scores(images_in(artefact.parent.parent / "good"), ignored),
        rate=calibration_facts(header).requested_rate,
        fitted=header["data"]["fitted"],
        planted=False,
        ignored=ignored,
    )
    _save(changed, out)
    return changed


def update_model(artefact, *, graph, more, options, out):
    """New scores first, then the earlier ones, as the real update does where they are few."""
    header = read_header(artefact)
    new = _scores(images_in(more), header["data"]["ignored"])
    earlier = read_floats(artefact, "good.scores")
    scores = np.concatenate([new.scores, earlier])
    good = replace(new, scores=scores, peaks=scores, frame_d2=scores, images=())
    changed = _artefact(
        good,
        rate=calibration_facts(header).requested_rate,
        fitted=header["data"]["fitted"] + new.count,
        planted=False,
        ignored=header["data"]["ignored"],
    )
    _save(changed, out)
    return changed


def write_graph(artefact, *, graph, out):
    """The brightness model with the artefact's threshold."""
    header = read_header(artefact)
    thresholds = calibration_facts(header).thresholds
    scores = read_floats(artefact, "good.scores")
    metadata = replace(
        brightness_metadata(size_hw=SIZE_HW),
        threshold=thresholds,
        good_scores=ScoreStatistics.of(scores, scores),
    )
    write_brightness_model(out, metadata=metadata, kept_hw=_kept(header["data"]["ignored"]))


# Hears how far a job is, and keeps nothing of it.
LISTENER = SimpleNamespace(
    plan=lambda _: None,
    at=lambda *_, **__: None,
    note=lambda _: None,
    progress=lambda items, **_: items,
)
ENGINE = (fit_model, update_model, ignore_regions, write_graph)


def use_engine(patch: "pytest.MonkeyPatch") -> None:
    """Put this engine in place of the real one, in this process."""
    for each in ENGINE:
        patch.setattr(engine, each.__name__, each)


def main(promise: Promise) -> int:
    """The child process."""
    _used.append(promise)
    for each in ENGINE:
        setattr(engine, each.__name__, each)
    return background_job.main()
