"""Regions ignored beside a graph: a part without its plain background is still this part."""

from dataclasses import replace

import numpy as np
import pytest

from edgeseg.base.errors import UsageError
from edgeseg.decision.foreign import LEAST, MARGIN, map_floor
from edgeseg.decision.judgement import verdict_on
from edgeseg.decision.prediction import Prediction
from edgeseg.modelfile.ignore_on_device import with_regions_ignored
from edgeseg.modelfile.metadata import DriftBaseline, ModelMetadata, ScoreRule
from edgeseg.runtime.scoring.model_input import InputMaker
from edgeseg.vision.ignored import MapRule
from tests.support.brightness_model import brightness_metadata
from tests.support.thresholds import made_up_thresholds

RULE = ScoreRule(top=3, sigma=0.0)
LEFT = ((0.0, 0.0), (24.0, 0.0), (24.0, 32.0), (0.0, 32.0))  # the background, half of 32x48
GOOD = np.repeat([[0.1] * 3 + [2.0] * 3], 4, axis=0).astype(np.float32)  # (4, 6)


def exported() -> ModelMetadata:
    """Good parts at distance 2 on a background at 0.1, with the limit that follows from them."""
    limit = max(MARGIN * 0.1, LEAST * 4.0)
    return replace(
        brightness_metadata(),
        threshold=made_up_thresholds(4.0, foreign=limit),
        good_scores=replace(brightness_metadata().good_scores, min=1.0, max=3.0, mean=2.0),
        drift=DriftBaseline.of(
            mean_hw=GOOD**2, std_hw=GOOD, frame_d2=np.array([2.0, 2.1], np.float32)
        ),
        rule=RULE,
        camera_hw=(32, 48),
    )


def verdict(metadata: ModelMetadata, grid_hw: np.ndarray) -> str:
    inputs = InputMaker(metadata)
    rule = MapRule(size_hw=(32, 48), grid_hw=(4, 6), sigma=0.0, top=3)
    map_hw, score = rule.judge(grid_hw, np.ones((4, 6), np.bool_))
    told = Prediction(map_hw=map_hw, score=score, grid_hw=grid_hw)
    counted = inputs.mask_ignored(told, inputs.view((32, 48)))
    return verdict_on(counted.score, metadata.threshold, map_hw=counted.map_hw)


def test_good_parts_stay_good_and_foreign_ones_invalid() -> None:
    before = exported()
    after = with_regions_ignored(before, [LEFT], rule=RULE, camera_hw=(32, 48))
    stayed = replace(after, threshold=before.threshold)
    assert verdict(before, GOOD) == "good"
    assert verdict(stayed, GOOD) == "invalid"  # what the limit of the whole picture would say
    assert verdict(after, GOOD) == "good"
    foreign = np.full((4, 6), 90.0, np.float32)
    assert verdict(before, foreign) == verdict(after, foreign) == "invalid"
    assert after.threshold.score == before.threshold.score


def test_it_is_taken_back_with_the_regions() -> None:
    before = exported()
    after = with_regions_ignored(before, [LEFT], rule=RULE, camera_hw=(32, 48))
    again = with_regions_ignored(after, [], rule=RULE, camera_hw=(32, 48))
    assert again.threshold.foreign == pytest.approx(before.threshold.foreign)
    assert again.ignored_here == ()


def test_a_region_that_leaves_nothing_or_all_is_refused() -> None:
    whole = ((0.0, 0.0), (48.0, 0.0), (48.0, 32.0), (0.0, 32.0))
    beyond = ((90.0, 90.0), (99.0, 90.0), (99.0, 99.0))
    for region in (whole, beyond):
        with pytest.raises(UsageError, match="nothing or everything would be ignored"):
            with_regions_ignored(exported(), [region], rule=RULE, camera_hw=(32, 48))


def test_the_floor_is_of_what_counts() -> None:
    map_hw = np.zeros((32, 48), np.float32)
    map_hw[:, 24:] = 2.0
    assert map_floor(map_hw) == 2.0
