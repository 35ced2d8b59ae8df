"""An alarm marks the place that raised it, in every door, where the map does not show the defect.

The map's own Gaussians are made blind on the right half, as those of shallow layers are to a defect
that only deeper layers see. The score still sees it.
"""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import edgeseg.runtime
from edgeseg.api import Model
from edgeseg.decision.prediction import Region
from edgeseg.model.artefact import Artefact
from edgeseg.runtime.backends.choose import open_session
from edgeseg.runtime.backends.session_options import SessionOptions
from edgeseg.runtime.capture.frame_buffer import Frame
from edgeseg.runtime.scoring.meters import StreamMeters
from edgeseg.runtime.scoring.scorer import Scorer, ScorerConfig
from edgeseg.vision.images import write_image
from tests.support.commands import succeed
from tests.support.small_models import SIZE_HW, frames

X, Y = 68, 28  # middle of the defect
UNTRAINED = {"allow_random_weights": True}


@pytest.fixture(scope="module")
def blind(shown_artefact: Artefact) -> Artefact:
    shown, calibration = shown_artefact.factors.shown, shown_artefact.calibration
    assert shown is not None
    factor = shown.factor.reshape(6, 6, *shown.factor.shape[1:]).copy()
    factor[:, 3:] *= 1e-4
    shown = replace(shown, factor=factor.reshape(shown.factor.shape))
    return replace(
        shown_artefact,
        factors=replace(shown_artefact.factors, shown=shown),
        calibration=replace(calibration, pixel_threshold=1e3 * calibration.pixel_threshold),
    )


@pytest.fixture(scope="module")
def files(blind: Artefact, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("models")
    model = Model(blind)
    graph = model.export(folder / "part.onnx", allow_random_weights=True)
    return [model.save(folder / "part.edgeseg"), graph]


def spoiled() -> NDArray[np.uint8]:
    frame = frames(1, first=50)[0].copy()
    frame[Y - 6 : Y + 6, X - 6 : X + 6] = [255, 0, 255]
    return frame


def assert_marked(regions: tuple[Region, ...]) -> None:
    (region,) = regions
    x, y, w, h = region.box_xywh
    assert x <= X < x + w
    assert y <= Y < y + h
    assert w * h < 40 * 40, "a place, not the picture"


def test_in_programs(blind: Artefact, files: list[Path]) -> None:
    there = Model(blind).predict(spoiled())
    assert there.verdict == "defect"
    assert_marked(there.regions)
    assert there.marked_hw[Y, X]
    at_y, at_x = np.unravel_index(there.map_hw.argmax(), SIZE_HW)
    assert not there.marked_hw[at_y, at_x], "the map is highest elsewhere"
    for backend in ("cpu", "openvino"):
        with edgeseg.runtime.open(files[1], backend=backend, **UNTRAINED) as detector:
            here = detector.predict(spoiled())
        assert here.regions == there.regions or here.regions[0].box_xywh == (
            there.regions[0].box_xywh
        )
        assert np.array_equal(here.marked_hw, there.marked_hw)


def test_at_the_command_line(files: list[Path], tmp_path: Path) -> None:
    picture, out = tmp_path / "part.png", tmp_path / "out"
    write_image(picture, spoiled())
    for model, more in ((files[0], ()), (files[1], ("--allow-random-weights",))):
        said = succeed("predict", model, picture, "--json", "-q", "--out", out, *more).stdout
        row = json.loads(said)
        assert row["verdict"] == "defect"
        assert_marked(
            tuple(
                Region(box_xywh=tuple(each["box_xywh"]), area_px=1, peak=1.0)
                for each in row["regions"]
            )
        )
        assert Path(row["picture"]).is_file()


@pytest.mark.parametrize("tile_overlap", [None, 0.0], ids=["whole", "tiles"])
def test_in_a_stream(files: list[Path], tile_overlap: float | None) -> None:
    frame = spoiled()
    if tile_overlap is not None:  # a wide picture of two parts, the second one spoiled
        frame = np.concatenate([frames(1, first=51)[0], frame], axis=1)
    with open_session(files[1], SessionOptions(backend="cpu", **UNTRAINED)) as session:
        config = ScorerConfig(tile_overlap=tile_overlap)
        scorer = Scorer(session, ["camera"], config=config, meters=StreamMeters(1))
        entry = Frame(
            source_index=0,
            frame_index=0,
            image_hwc=frame,
            channels="rgb",
            grabbed_ns=0,
            wall_s=0.0,
            name="",
        )
        (result,) = scorer.score([(entry, 0)])
    assert result.verdict == "defect"
    left = 0 if tile_overlap is None else SIZE_HW[1]
    assert_marked(tuple(each.shift(-left, 0) for each in result.regions))
