"""Good images that decide the threshold."""

import numpy as np
import pytest

from edgeseg.decision.deciding_images import LEAST, MOST, deciding_images
from edgeseg.decision.operating_point import conformal_threshold


def names(values: np.ndarray) -> list[str]:
    """The highest first."""
    return [f"{place}.png" for place in np.argsort(-values)]


@pytest.mark.parametrize("rate", [0.01, 0.05, 0.5])
def test_what_the_threshold_would_be_without_them(rate):
    values = np.random.default_rng(0).permutation(np.arange(1.0, 61.0))
    images = deciding_images(values, names(values), rate=rate)
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
    assert deciding_images(np.arange(9.0), (), rate=0.1) == ()
    assert deciding_images(np.ones(1), ["a.png"], rate=0.1) == ()
    assert len(deciding_images(np.arange(2.0), ["b.png", "a.png"], rate=0.1)) == 1
    (known,) = deciding_images(np.arange(9.0), ["a.png"], rate=0.1)
    assert (known.image, known.score, known.threshold_without) == ("a.png", 8.0, 7.0)
