"""The limit of a foreign frame: from a fit to its file, its graph, a device and every verdict."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgeseg.api import Model
from edgeseg.decision.calibration import calibrate
from edgeseg.decision.foreign import LEAST, MARGIN, map_floor
from edgeseg.decision.score_origin import ScoreOrigin
from edgeseg.fitting.update import join_scores
from edgeseg.model.artefact import load_artefact, save_artefact
from edgeseg.model.model_metadata import describe_model
from edgeseg.vision.images import read_image
from tests.support.small_models import frames
from tests.support.thresholds import made_up_thresholds

NOISE = np.random.default_rng(0).integers(0, 256, (96, 96, 3), dtype=np.uint8)


def limit_of(artefact) -> float:
    good, planted = artefact.calibration.good.floors, artefact.planted.floors
    return max(
        MARGIN * float(max(good.max(), planted.max())),
        LEAST * artefact.calibration.score_threshold,
    )


def test_a_fit_learns_the_limit_from_good_images(small_artefact):
    calibration = small_artefact.calibration
    assert calibration.good.floors.shape == calibration.good.scores.shape
    assert (calibration.good.floors < calibration.good.peaks).all()
    assert small_artefact.planted.floors.shape == small_artefact.planted.scores.shape
    assert calibration.foreign_limit == pytest.approx(limit_of(small_artefact))
    assert calibration.thresholds.foreign == calibration.foreign_limit


def test_a_foreign_frame_is_invalid_and_a_defect_a_defect(small_artefact):
    model = Model(small_artefact)
    foreign = model.predict(NOISE)
    assert (foreign.verdict, foreign.anomalous) == ("invalid", True)
    assert map_floor(foreign.map_hw) > small_artefact.calibration.foreign_limit
    spoilt = frames(1, first=50)[0]
    spoilt[30:60, 30:60] = NOISE[30:60, 30:60]
    assert model.predict(spoilt).verdict == "defect"
    earlier = replace(small_artefact.calibration, foreign_limit=None)
    assert Model(replace(small_artefact, calibration=earlier)).predict(NOISE).verdict == "defect"


def test_it_travels_in_file_and_graph(small_artefact, tmp_path):
    save_artefact(small_artefact, tmp_path / "m.edgeseg")
    again = load_artefact(tmp_path / "m.edgeseg")
    limit = small_artefact.calibration.foreign_limit
    assert again.calibration.foreign_limit == limit
    np.testing.assert_array_equal(
        again.calibration.good.floors, small_artefact.calibration.good.floors
    )
    metadata = describe_model(
        again, artefact_sha256="", precision="fp32", target="cpu", batch=(1, 1, 1),
        outputs=["map", "score"],
    )  # fmt: skip
    assert metadata.threshold.foreign == limit
    text = metadata.to_json()
    assert type(metadata).from_json(text, source="m").threshold.foreign == limit


def test_scores_of_several_models_keep_the_floors_that_are_known(small_artefact):
    good = small_artefact.calibration.good
    without = replace(good, floors=np.empty(0, np.float32))
    assert join_scores([good, without]).floors.tolist() == good.floors.tolist()
    assert join_scores([without, without]).floors.size == 0


def test_images_that_were_fitted_on_are_no_evidence(small_artefact):
    good = small_artefact.calibration.good
    options = {
        "false_alarm_rate": 0.1,
        "promise": "conformal",
        "origin": ScoreOrigin(kind="split"),
        "expected_d2": 1.0,
        "measured_d2": 1.0,
    }
    assert calibrate(good, unseen=False, **options).foreign_limit is None
    assert calibrate(good, unseen=True, **options).foreign_limit is not None


def test_eval_counts_them(small_artefact, plate: Path):
    model = Model(small_artefact)
    result = model.evaluate(plate)
    assert len(result.verdicts) == result.images
    assert result.invalid == result.verdicts.count("invalid")
    wrong = [verdict != "good" for verdict in result.verdicts]
    assert wrong == [score > result.threshold for score in result.scores]
    for path, verdict in zip(result.paths, result.verdicts, strict=True):
        assert model.predict(read_image(Path(path))).verdict == verdict


def test_a_damaged_limit_is_refused():
    with pytest.raises(ValueError, match="foreign: nan, expected a finite number from 0"):
        made_up_thresholds(1, foreign=float("nan"))
