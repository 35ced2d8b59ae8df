"""The limits of brightness and sharpness: from a fit to files, graphs, devices and verdicts."""

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from edgeseg.api import Model
from edgeseg.data.datasets import open_dataset
from edgeseg.data.samples import Sample, read_sample
from edgeseg.decision.doubt import SENTENCES, DoubtKind
from edgeseg.fitting.options import Changes
from edgeseg.fitting.update import merge_models, update
from edgeseg.model.artefact import load_artefact, save_artefact
from edgeseg.modelfile.metadata import ModelMetadata, TileLayout
from edgeseg.runtime.capture.frame_buffer import Frame
from edgeseg.runtime.scoring.detector import Detector
from edgeseg.runtime.scoring.meters import StreamMeters
from edgeseg.runtime.scoring.scorer import Scorer, ScorerConfig
from edgeseg.vision.appearance import Appearance, AppearanceLimits, GoodAppearance, appearance_of
from edgeseg.vision.images import resize_image, write_image
from tests.doubles.fakes import BrightnessSession
from tests.support import KEPT
from tests.support.brightness_model import brightness_metadata, write_brightness_model
from tests.support.commands import succeed
from tests.support.small_models import RANDOM, frames

INPUT_HW = brightness_metadata().size_hw
GOOD = frames(6, first=60)
DARK = (GOOD[0] * 0.15).astype(np.uint8)
BLURRED = cv2.GaussianBlur(GOOD[0], (0, 0), 9)


@pytest.fixture(scope="module")
def lenient(small_artefact):
    """A model whose score and map say nothing: what is invalid is so by its looks alone."""
    calibration = replace(
        small_artefact.calibration, score_threshold=1e4, pixel_threshold=1e4, foreign_limit=None
    )
    return replace(small_artefact, calibration=calibration)


def test_a_fit_learns_how_its_images_look(small_artefact, plate: Path):
    samples = open_dataset(plate).train
    looks = [appearance_of(read_sample(s, (96, 96))[0]) for s in samples]
    assert small_artefact.calibration.appearance == GoodAppearance.of(looks)
    assert small_artefact.calibration.thresholds.appearance == GoodAppearance.of(looks).limits


@pytest.mark.parametrize(("frame", "reason"), [(DARK, "dark"), (BLURRED, "blurred")])
def test_such_frames_are_invalid_to_a_program_and_in_an_evaluation(
    lenient, plate: Path, tmp_path, frame, reason
):
    model = Model(lenient)
    found = model.predict(frame)
    assert (found.verdict, found.doubt.kind, found.anomalous) == ("invalid", reason, True)
    assert model.predict(frame[..., ::-1], channels="bgr").doubt.kind == reason
    assert (model.predict(GOOD[0]).verdict, model.predict(GOOD[0]).doubt) == ("good", None)
    write_image(tmp_path / "covered.png", frame)
    dataset = replace(open_dataset(plate), test=(Sample(image=tmp_path / "covered.png"),))
    assert model.evaluate(dataset).verdicts == ("invalid",)


def test_they_travel_in_file_and_graph(lenient, tmp_path):
    save_artefact(lenient, tmp_path / "m.edgeseg")
    again = load_artefact(tmp_path / "m.edgeseg")
    assert again.calibration.appearance == lenient.calibration.appearance
    metadata = replace(brightness_metadata(), threshold=again.calibration.thresholds)
    read = ModelMetadata.from_json(metadata.to_json(), source="m")
    assert read.threshold.appearance == lenient.calibration.thresholds.appearance
    assert read.thresholds(5.0).appearance is not None, "another threshold leaves them"


def test_a_handful_of_good_images_looks_at_the_score_alone():
    kept = load_artefact(KEPT / "part.edgeseg")
    assert kept.calibration.appearance.count == 4
    assert kept.calibration.thresholds.appearance is None
    plain = replace(kept, calibration=replace(kept.calibration, foreign_limit=None))
    assert Model(plain).predict(DARK).verdict in ("good", "defect")


def test_what_is_learned_later_is_added_and_joined(small_artefact, plate, tmp_path):
    first = small_artefact.calibration.appearance
    for index, frame in enumerate(GOOD):
        write_image(tmp_path / f"{index}.png", (frame * 0.6).astype(np.uint8))
    more = open_dataset(tmp_path)
    changed = update(small_artefact, Changes(more=more), RANDOM)
    looks = changed.calibration.appearance
    assert looks.count == first.count + len(GOOD)
    assert looks.lowest < first.lowest
    apart = update(small_artefact, Changes(more=more, calibrate=open_dataset(plate)), RANDOM)
    assert apart.calibration.appearance == looks.merge(first), "those of the plate once more"
    both = merge_models({"a": small_artefact, "b": changed}, apart=None, options=RANDOM)
    assert both.calibration.appearance == first.merge(looks)


def with_limits(tiles: TileLayout | None = None) -> ModelMetadata:
    """A model of brightness, to which nothing is a defect, with limits of grey frames."""
    size_hw = INPUT_HW if tiles is None else tiles.frame_hw
    metadata = brightness_metadata(threshold=1000.0)
    looks = GoodAppearance.of([look(100 + level, size_hw) for level in range(6)], grey=6)
    limits = replace(metadata.threshold, appearance=looks.limits)
    return replace(metadata, threshold=limits, tiles=tiles)


def picture(level: int) -> np.ndarray:
    checks = np.indices((64, 64)).sum(axis=0) // 4 % 2
    return np.repeat((level + 20 * checks[..., None]).astype(np.uint8), 3, axis=2)


def look(level: int, size_hw: tuple[int, int]) -> Appearance:
    """As the model's input shows it."""
    return appearance_of(resize_image(picture(level), size_hw))


def frame_of(image_hwc: np.ndarray) -> Frame:
    return Frame(
        source_index=0, frame_index=0, image_hwc=image_hwc, channels="rgb", grabbed_ns=0,
        wall_s=0.0, name="",
    )  # fmt: skip


@pytest.mark.parametrize("tiles", [None, TileLayout(frame_hw=(64, 96), overlap=0)])
def test_a_stream_and_a_program_on_the_device_say_the_same(tiles):
    session = BrightnessSession(with_limits(tiles))
    detector = Detector(session)
    scorer = Scorer(session, ["camera"], config=ScorerConfig(min_area=10), meters=StreamMeters(1))
    for image_hwc, reason in (
        (picture(100), None),
        (picture(10), "dark"),
        (picture(230), "bright"),
    ):
        told = detector.predict(image_hwc)
        (result,) = scorer.score([(frame_of(image_hwc), 0)])
        verdict = "good" if reason is None else "invalid"
        assert (told.verdict, told.doubt) == (result.verdict, result.doubt)
        assert (told.verdict, told.doubt and told.doubt.kind) == (verdict, reason)
        assert scorer.apply_decision(result, None).alarm == (reason is not None)


def test_tiles_that_only_a_stream_cuts_look_unlike_whole_images():
    session, config = BrightnessSession(with_limits()), ScorerConfig(tile_overlap=0.0)
    scorer = Scorer(session, ["camera"], config=config, meters=StreamMeters(1))
    (result,) = scorer.score([(frame_of(picture(10)), 0)])
    assert result.verdict == "good"


def test_calibrating_on_a_device_widens_them(tmp_path):
    write_brightness_model(tmp_path / "m.onnx", metadata=with_limits())
    for level in range(6):
        write_image(tmp_path / "good" / f"{level}.png", picture(60 + level))
    before = with_limits().threshold.appearance
    succeed("calibrate", tmp_path / "m.onnx", tmp_path / "good")
    text = (tmp_path / "m.json").read_text()
    after = ModelMetadata.from_json(text, source="m").threshold.appearance
    here = GoodAppearance.of([look(60 + level, INPUT_HW) for level in range(6)], grey=6).limits
    assert isinstance(before, AppearanceLimits)
    assert isinstance(here, AppearanceLimits)
    assert after == before.widen(here)


def test_predict_says_why(lenient, tmp_path):
    save_artefact(lenient, tmp_path / "m.edgeseg")
    write_image(tmp_path / "dark.png", DARK)
    said = succeed("predict", tmp_path / "m.edgeseg", tmp_path / "dark.png").stdout
    assert f"dark.png: invalid ({SENTENCES[DoubtKind.DARK]}), " in said
    said = succeed("predict", tmp_path / "m.edgeseg", tmp_path / "dark.png", "--json").stdout
    assert '"doubt": "dark"' in said
