"""Good images that decide the threshold."""

import numpy as np
import pytest

from edgeseg.contract.operating_point import conformal_threshold
from edgeseg.evaluation.deciding import LEAST, MOST, deciding_images
from edgeseg.evaluation.threshold import GoodImageScores


def scores(values: np.ndarray, *, names: bool = True) -> GoodImageScores:
    array = values.astype(np.float32)
    map_hw = np.ones((2, 2), np.float32)
    images = tuple(f"{place}.png" for place in range(len(values))) if names else ()
    return GoodImageScores(
        scores=array, peaks=array, frame_d2=array, d2_mean=map_hw, d2_std=map_hw, images=images
    )


@pytest.mark.parametrize("rate", [0.01, 0.05, 0.5])
def test_what_the_threshold_would_be_without_them(rate):
    values = np.random.default_rng(0).permutation(np.arange(1.0, 61.0))
    images = deciding_images(scores(values), rate=rate)
    for place, row in enumerate(images):
        assert row.score == 60 - place
        assert values[int(row.image.removesuffix(".png"))] == row.score
        assert row.p_value == (1 + place) / 60  # among 59 others, `place` of which are higher
        left = [value for value in values if value < row.score]
        expected = conformal_threshold(left, false_alarm_rate=rate).value
        assert row.threshold_without == expected
    threshold = conformal_threshold(values.tolist(), false_alarm_rate=rate).value
    above = sum(values >= threshold)
    assert len(images) == min(max(above, LEAST), MOST)


def test_none_where_names_are_not_known():
    assert deciding_images(scores(np.arange(9.0), names=False), rate=0.1) == ()
    assert deciding_images(scores(np.ones(1)), rate=0.1) == ()
    assert len(deciding_images(scores(np.arange(2.0)), rate=0.1)) == 1
