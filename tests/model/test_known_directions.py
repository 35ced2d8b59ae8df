"""Directions of known defects: the form that a model gets against the one that is written down."""

import numpy as np
import pytest

from edgeseg.model.factors import MapForm, make_factors
from edgeseg.model.known_directions import KnownDirections
from edgeseg.model.moments import Floats
from tests.support.moment_rows import moments_of_rows

K, RIDGE = 8, 0.05


@pytest.fixture(scope="module")
def rows() -> Floats:
    """Forty images of three cells whose features vary by different amounts."""
    rng = np.random.default_rng(3)
    mix = rng.normal(size=(3, K, K)) * np.linspace(0.1, 2, K)
    return np.einsum("pkj,npj->nkp", mix, rng.normal(size=(40, 3, K)))


def known(count: int = 2, share: float = 0.2) -> KnownDirections:
    directions = np.random.default_rng(5).normal(size=(K, count)).astype(np.float32)
    return KnownDirections(directions=directions, share=share)


def precisions(rows: Floats, rank: int, learned: KnownDirections) -> list[Floats]:
    """The form of each cell as the definition has it, without its rank brought down."""
    forms = []
    for place in range(rows.shape[2]):
        covariance = np.cov(rows[:, :, place].T, bias=True)
        variance, axes = np.linalg.eigh(covariance)
        kept = axes[:, :rank] / np.sqrt(variance[:rank] + RIDGE)
        white = (axes / np.sqrt(variance + RIDGE)) @ axes.T
        added = white @ learned.directions
        forms.append((1 - learned.share) * kept @ kept.T + added @ added.T)
    return forms


def best_of_rank(form: Floats, rank: int) -> Floats:
    values, axes = np.linalg.eigh(form)
    return (axes[:, -rank:] * values[-rank:]) @ axes[:, -rank:].T


@pytest.mark.parametrize("rank", [4, K])
def test_factors_are_the_best_of_their_rank(rows, rank):
    learned = known()
    factors = make_factors(
        moments_of_rows(rows), ridge=RIDGE, rank=rank, directions="lower", known=learned
    )
    assert factors.factor.shape == (3, K, rank)
    for factor, form in zip(factors.factor, precisions(rows, rank, learned), strict=True):
        np.testing.assert_allclose(factor @ factor.T, best_of_rank(form, rank), atol=1e-4)


def test_a_map_of_its_own_sees_what_it_saw(rows):
    """Where the directions add nothing, its distances are those of a model without them."""
    form = MapForm(width=4, ridge=0.5, own_ridge=0.5)
    nothing = KnownDirections(directions=np.zeros((K, 2), np.float32), share=0.2)
    plain, with_known = (
        make_factors(
            moments_of_rows(rows), ridge=RIDGE, rank=4, directions="lower", form=form, known=each
        )
        for each in (None, nothing)
    )
    x = rows[:10].transpose(2, 0, 1) - plain.mean[:, None]  # (P, N, k)
    near = [
        np.square(x @ each.factor) @ each.shown.weight[:, :, None] for each in (plain, with_known)
    ]
    np.testing.assert_allclose(near[1], near[0], rtol=1e-4)
    np.testing.assert_array_equal(with_known.shown.factor, plain.shown.factor)


def test_whitened_cells_of_good_parts_vary_alike(rows):
    factors = make_factors(
        moments_of_rows(rows), ridge=1e-9, rank=4, directions="lower", whitened=True
    )
    u = (rows.transpose(2, 0, 1) - factors.mean[:, None]) @ factors.whitening
    for cell in u:
        np.testing.assert_allclose(np.cov(cell.T, bias=True), np.eye(K), atol=1e-3)


@pytest.mark.parametrize("share", [-0.1, 1.0])
def test_a_share_of_all_or_less_than_nothing_is_refused(share):
    with pytest.raises(ValueError, match="expected from 0 and below 1"):
        KnownDirections(directions=np.zeros((K, 1), np.float32), share=share)
