"""Good images that decide the threshold."""

import numpy as np
import pytest

from edgeseg.decision.deciding_images import (
    LEAST,
    MOST,
    apart_count,
    deciding_count,
    deciding_images,
    odd_good_parts,
)
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


def with_two_defective(draw: int) -> np.ndarray:
    """Forty scores; the last two are 1.3 to 1.6 times the usual, and higher than all others."""
    rng = np.random.default_rng(draw)
    good = np.exp(rng.normal(0, 0.08, 38))
    return np.append(good, np.maximum(rng.uniform(1.3, 1.6, 2), 1.001 * good.max()))


def test_two_defective_parts_among_forty_are_asked_for_wherever_the_threshold_lies():
    overlooked = 0
    for draw in range(200):
        values = with_two_defective(draw)
        limit = rate_threshold(values.tolist(), false_alarm_rate=0.02, promise="tail").value
        overlooked += not np.all(values[-2:] >= limit)
        shown = deciding_images(values, names(values), rate=0.02, promise="tail")
        assert {"38.png", "39.png"} <= {row.image for row in shown}
        assert len(shown) == deciding_count(values, limit)
    assert overlooked > 50, "at the threshold alone they are not"


def test_what_is_asked_for_has_bounds_and_what_is_far_outside_none():
    assert [deciding_count(np.ones(count), 2.0) for count in (0, 1, 2, 50)] == [0, 1, 2, LEAST]
    assert deciding_count(np.arange(50.0), 20.0) == MOST
    far = np.append(np.exp(np.random.default_rng(0).normal(0, 0.1, 60)), np.full(12, 9.0))
    assert deciding_count(far, 10.0) == 12


def test_parts_of_one_tail_seldom_seem_to_stand_apart_and_others_do():
    rng = np.random.default_rng(0)
    said = [apart_count(np.exp(rng.exponential(0.1, 40)), most=1) > 0 for _ in range(500)]
    assert abs(np.mean(said) - 0.2) < 0.05, "as often as it says, for a tail that is exponential"
    found = [apart_count(with_two_defective(draw), most=LEAST) for draw in range(200)]
    assert np.mean(np.array(found) > 0) > 0.5
    assert apart_count([*np.linspace(1, 1.2, 38), 1.6, 1.7], most=LEAST) == 2


def test_what_has_no_tail_has_nothing_apart_from_it():
    assert apart_count([1.0] * 8 + [9.0], most=1) == 0, "too few"
    assert apart_count(np.ones(40), most=LEAST) == 0
    assert apart_count([0.0] * 39 + [1.0], most=LEAST) == 0
