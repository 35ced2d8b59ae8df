"""Kinds: the nearest known ones, what is unlike all of them, and severities."""

import numpy as np
import pytest

from edgeseg.base.errors import UsageError
from edgeseg.decision.judgement import severity_of
from edgeseg.decision.kinds import KindGuess, KnownKinds, read_severity, vote
from edgeseg.decision.prediction import Region
from edgeseg.fitting.known_kinds import judge_each, make_kinds
from tests.support.messages import says

K = 6


def known(noise: float = 0.15, *, severity=None) -> KnownKinds:
    """Three dents along one axis, three scratches along another."""
    rng = np.random.default_rng(1)
    rows = np.repeat(np.eye(K)[:2], 3, axis=0) + noise * rng.normal(size=(6, K))
    kinds = ["dent"] * 3 + ["scratch"] * 3
    eye = np.eye(K, dtype=np.float32)
    return make_kinds(rows.astype(np.float32), kinds, projection=eye, severity=severity or {})


@pytest.mark.parametrize(("axis", "name", "number"), [(0, "dent", 1), (1, "scratch", 2)])
def test_a_region_is_named_by_the_nearest_however_strong_it_is(axis, name, number):
    for strength in (0.01, 1, 1e4):
        guess = known().nearest(strength * np.eye(K)[axis])
        assert (guess.name, guess.number, guess.of) == (name, number, 5)
        says(guess.words, "kind_like", kind=name, n=3, n_all=5)


@pytest.mark.parametrize("z", [np.eye(K)[4], -np.eye(K)[0], np.zeros(K), np.full(K, np.nan)])
def test_what_is_unlike_all_known_ones_is_unknown(z):
    guess = known(noise=0.05).nearest(z)
    assert guess.name is None
    assert guess.facts() == {"kind": "unknown", "kind_number": 0, "like": [0, 0]}


def test_each_is_judged_by_the_others_alone():
    """Two kinds that are one cannot be told apart, and the fit says so."""
    assert (known().right, known().tried) == (6, 6)
    one = np.eye(K, dtype=np.float32)[[0, 0, 0, 0]]
    right, tried, _ = judge_each(one, np.array([0, 1, 0, 1]))
    assert tried == 4
    assert right < 4


def test_a_kind_of_a_single_defect_is_not_tried():
    eye = np.eye(K, dtype=np.float32)
    right, tried, limit = judge_each(eye[:2], np.array([0, 1]))
    assert (right, tried, limit) == (0, 0, -1.0)


def test_the_nearest_weigh_most():
    """One that is the same against four that are not: near counts, and not number alone."""
    alike, kinds = np.array([1.0, -0.5, -0.5, -0.5, -0.5]), np.array([1, 0, 0, 0, 0])
    assert vote(alike, kinds) == (1, 1, 5)


def test_the_kind_sets_the_severity_and_a_broken_number_stays_major():
    mild = known(severity={"dent": "minor"}).nearest(np.eye(K)[0])
    plain = known().nearest(np.eye(K)[0])
    grave = KindGuess(name="crack", severity="major")

    def rated(kind, peak):
        region = Region(box_xywh=(0, 0, 9, 9), area_px=4, peak=peak, kind=kind)
        return severity_of(region, pixel_threshold=1.0, picture_px=10_000)

    assert [rated(mild, 50.0), rated(plain, 50.0), rated(None, 50.0)] == ["minor", "major", "major"]
    assert [rated(grave, 1.1), rated(plain, 1.1)] == ["major", "minor"]
    assert rated(mild, float("nan")) == "major"


@pytest.mark.parametrize("text", ["scratch", "scratch=", "=minor", "scratch=bad", ""])
def test_a_severity_that_cannot_be_meant_is_refused(text):
    with pytest.raises(UsageError, match="such as scratch=minor"):
        read_severity(text)
    assert read_severity("scratch=minor") == ("scratch", "minor")
