"""Good images that decide the threshold."""

import numpy as np
import pytest

from edgeseg.decision.deciding_images import LEAST, MOST, deciding_images, odd_good_parts
from edgeseg.decision.operating_point import rate_threshold


def names(values: np.ndarray) -> list[str]:
    """The highest first."""
    return [f"{place}.png" for place in np.argsort(-values)]


@pytest.mark.parametrize("promise", ["tail", "conformal"])
@pytest.mark.parametrize("rate", [0.01, 0.05, 0.5])
def test_what_the_threshold_would_be_without_them(rate, promise):
    def limit_of(some):
        return rate_threshold(list(some), false_alarm_rate=rate, promise=promise).value

    values = np.random.default_rng(0).permutation(np.arange(1.0, 61.0))
    images = deciding_images(values, names(values), rate=rate, promise=promise)
    for place, row in enumerate(images):
        assert row.score == 60 - place
        assert values[int(row.image.removesuffix(".png"))] == row.score
        assert row.p_value == (1 + place) / 60  # among 59 others, `place` of which are higher
        left = [value for value in values if value < row.score]
        assert row.threshold_without == pytest.approx(limit_of(left), rel=1e-12)
    above = sum(values >= limit_of(values))
    assert len(images) == min(max(above, LEAST), MOST)


def test_none_where_names_are_not_known():
    assert deciding_images(np.arange(9.0), (), rate=0.1, promise="conformal") == ()
    assert deciding_images(np.ones(1), ["a.png"], rate=0.1, promise="conformal") == ()
    assert (
        len(deciding_images(np.arange(2.0), ["b.png", "a.png"], rate=0.1, promise="conformal")) == 1
    )
    (known,) = deciding_images(np.arange(9.0), ["a.png"], rate=0.1, promise="conformal")
    assert (known.image, known.score, known.threshold_without) == ("a.png", 8.0, 7.0)


@pytest.mark.parametrize("promise", ["tail", "conformal"])
def test_good_parts_that_are_unlike_the_others_are_asked_for(promise):
    alike = np.exp(np.random.default_rng(0).normal(0, 0.1, 60)).tolist()
    assert odd_good_parts(alike, rate=0.02, promise=promise) is None
    odd = odd_good_parts([*alike, 3.0, 4.0], rate=0.02, promise=promise)
    left = rate_threshold(alike, false_alarm_rate=0.02, promise=promise).value
    assert (odd.count, odd.threshold_without) == (2, left)
    assert odd_good_parts([1.0, 1.0, 9.0], rate=0.02, promise=promise) is None, "three tell nothing"
