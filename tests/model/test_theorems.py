"""The statements of the paper, each with numbers.

C is a covariance (F, F) with eigenvalues in ascending order, U its eigenvectors, W an embedding
(F, k) and P(W) = W (W'CW)^-1 W' the approximation of the precision C^-1.
"""

import numpy as np
import pytest
from numpy.typing import NDArray

from edgeseg.model.embedding import embedding_matrix
from edgeseg.model.factors import expected_d2, make_factors
from tests.support.moment_rows import moments_of_rows

Matrix = NDArray[np.float64]

FEATURES, K = 14, 5
NORMS = {"spectral": 2, "frobenius": "fro"}
SEEDS = range(60)


def covariance(seed: int = 0, *, features: int = FEATURES) -> Matrix:
    """Eigenvalues over two decades, as features of a CNN have them, in random directions."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(features, features)))[0]
    return basis * np.geomspace(0.05, 5, features) @ basis.T


def embedding(kind: str, seed: int, *, k: int = K) -> Matrix:
    weight: Matrix = embedding_matrix(kind, features=FEATURES, k=k, seed=seed).numpy()
    return weight


def approximation(c: Matrix, w: Matrix) -> Matrix:
    result: Matrix = w @ np.linalg.inv(w.T @ c @ w) @ w.T
    return result


def error(c: Matrix, w: Matrix, norm: str) -> float:
    return float(np.linalg.norm(np.linalg.inv(c) - approximation(c, w), NORMS[norm]))


def embedded_rows(x_nf: Matrix, w: Matrix) -> Matrix:
    """W'x of one location, as (N, k, 1)."""
    return (x_nf @ w)[:, :, None]


def samples(count: int, *, seed: int = 0) -> Matrix:
    rng = np.random.default_rng(seed)
    return rng.multivariate_normal(rng.normal(size=FEATURES), covariance(seed), size=count)


def mean_d2(x_nk1: Matrix, *, ridge: float, rank: int, directions: str = "lower") -> float:
    """Mean of |L'(x - m)|^2 over the very images that gave the moments, in float64."""
    factors = make_factors(moments_of_rows(x_nk1), ridge=ridge, rank=rank, directions=directions)
    centred = x_nk1[:, :, 0] - factors.mean[0].astype(np.float64)
    return float(np.square(centred @ factors.factor[0].astype(np.float64)).sum(axis=1).mean())


@pytest.mark.parametrize("kind", ["semi_orthogonal", "sampled", "gaussian"])
@pytest.mark.parametrize("count", [K + 1, 20, 200])
def test_proposition_2_mean_d2_is_k(kind, count):
    x = embedded_rows(samples(count), embedding(kind, 1))
    assert mean_d2(x, ridge=0.0, rank=0) == pytest.approx(K, rel=1e-4)


@pytest.mark.parametrize("directions", ["lower", "higher"])
@pytest.mark.parametrize("rank", [1, 3, K])
def test_proposition_2_mean_d2_is_the_rank(rank, directions):
    """The proof's last remark: it holds for any of the eigenvectors."""
    x = embedded_rows(samples(50), embedding("semi_orthogonal", 1))
    assert mean_d2(x, ridge=0.0, rank=rank, directions=directions) == pytest.approx(rank, rel=1e-4)


def test_proposition_2_is_what_expected_d2_says():
    x = embedded_rows(samples(50), embedding("semi_orthogonal", 1))
    moments = moments_of_rows(x)
    for rank in (0, 2):
        factors = make_factors(moments, ridge=0.0, rank=rank, directions="lower")
        assert float(expected_d2(factors, moments)[0]) == pytest.approx(rank or K, rel=1e-4)
    ridged = make_factors(moments, ridge=0.01, rank=0, directions="lower")
    eigenvalues = np.linalg.eigvalsh(moments.scatter[0] / 50)
    lowered = float((eigenvalues / (eigenvalues + 0.01)).sum())
    assert float(expected_d2(ridged, moments)[0]) == pytest.approx(lowered, rel=1e-4)
    assert lowered < K


@pytest.mark.parametrize("norm", NORMS)
def test_theorem_1_lower_eigenvectors_minimise(norm):
    c = covariance()
    eigenvalues, vectors = np.linalg.eigh(c)
    best = error(c, vectors[:, :K], norm)
    left = 1 / eigenvalues[K:]  # what the approximation does not have
    assert best == pytest.approx(left.max() if norm == "spectral" else np.linalg.norm(left))
    for seed in SEEDS:
        for kind in ("semi_orthogonal", "sampled", "gaussian"):
            assert error(c, embedding(kind, seed), norm) >= best * (1 - 1e-12)


@pytest.mark.parametrize("norm", NORMS)
def test_theorem_1_no_step_away_is_better(norm):
    c = covariance()
    lower = np.linalg.eigh(c)[1][:, :K]
    best = error(c, lower, norm)
    rng = np.random.default_rng(0)
    for _ in SEEDS:
        nudged = lower + 1e-3 * rng.normal(size=lower.shape)
        assert error(c, nudged, norm) >= best * (1 - 1e-12)


def test_theorem_1_holds_inside_the_embedding():
    """Rank r after the embedding: the best rank-r part of (W'CW)^-1, by Eckart and Young."""
    x = embedded_rows(samples(60), embedding("semi_orthogonal", 0))
    moments = moments_of_rows(x)
    inside = moments.scatter[0] / 60  # (k, k)
    values, vectors = np.linalg.eigh(np.linalg.inv(inside))
    for rank in range(1, K):
        factor = make_factors(moments, ridge=0.0, rank=rank, directions="lower").factor[0]
        top = vectors[:, -rank:] * values[-rank:] @ vectors[:, -rank:].T
        np.testing.assert_allclose(factor @ factor.T, top, rtol=1e-3, atol=1e-3 * values[-1])


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("k", [1, K, FEATURES - 1])
def test_theorem_2_bounds(k, norm):
    c = covariance()
    vectors = np.linalg.eigh(c)[1]
    lowest = error(c, vectors[:, :k], norm)
    highest = error(c, vectors[:, -k:], norm)
    assert lowest < highest
    errors = [error(c, embedding("semi_orthogonal", seed, k=k), norm) for seed in SEEDS]
    assert min(errors) >= lowest * (1 - 1e-12)
    assert max(errors) <= highest * (1 + 1e-12)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("alpha", [0.3, 1.0, 4.0])
def test_corollary_flat_spectrum(alpha, norm):
    # The paper prints 1 / alpha. C^-1 - P(W) is (I - WW') / alpha, so the *squared* norm on the
    # left-hand side carries 1 / alpha^2; the two agree at alpha = 1 alone.
    c = alpha * np.eye(FEATURES)
    identity = np.linalg.norm(np.eye(FEATURES - K), NORMS[norm])
    for seed in range(10):
        squared = error(c, embedding("semi_orthogonal", seed), norm) ** 2
        assert squared == pytest.approx(identity**2 / alpha**2)


def test_proposition_1_orthogonal_invariance():
    c = covariance()
    w = embedding("semi_orthogonal", 0, k=FEATURES)
    np.testing.assert_allclose(approximation(c, w), np.linalg.inv(c), rtol=0, atol=1e-10)


@pytest.mark.parametrize("ridge", [0.0, 0.1])
def test_a_full_embedding_changes_no_distance(ridge):
    """W'(C + ridge I)W = W'CW + ridge I for an orthogonal W, so the ridge does no harm either."""
    x = samples(60)
    plain = distances(x, np.eye(FEATURES), ridge)
    turned = distances(x, embedding("semi_orthogonal", 4, k=FEATURES), ridge)
    np.testing.assert_allclose(turned, plain, rtol=1e-4)
    # A Gaussian W is invertible too, but stretches C against the ridge.
    stretched = distances(x, embedding("gaussian", 4, k=FEATURES), ridge)
    assert np.allclose(stretched, plain, rtol=1e-3) == (ridge == 0.0)


def distances(x_nf: Matrix, w: Matrix, ridge: float) -> Matrix:
    rows = embedded_rows(x_nf, w)
    factors = make_factors(moments_of_rows(rows), ridge=ridge, rank=0, directions="lower")
    y = (rows[:, :, 0] - factors.mean[0].astype(np.float64)) @ factors.factor[0].astype(np.float64)
    return np.asarray(np.linalg.norm(y, axis=1))


@pytest.mark.parametrize("kind", ["semi_orthogonal", "sampled"])
def test_eigenvalues_interlace(kind):
    """Cauchy: the i-th of W'CW lies between the i-th and the (F - k + i)-th of C."""
    c = covariance()
    whole = np.linalg.eigvalsh(c)
    for seed in SEEDS:
        w = embedding(kind, seed)
        inside = np.linalg.eigvalsh(w.T @ c @ w)
        assert (inside >= whole[:K] - 1e-12).all()
        assert (inside <= whole[FEATURES - K :] + 1e-12).all()


@pytest.mark.parametrize("kind", ["semi_orthogonal", "sampled"])
def test_lemma_2_convex_combination(kind):
    c = covariance()
    whole, u = np.linalg.eigh(c)
    for seed in range(10):
        w = embedding(kind, seed)
        inside, v = np.linalg.eigh(w.T @ c @ w)
        weights = (u.T @ w @ v) ** 2  # (F, k): a column of weights for every eigenvalue
        np.testing.assert_allclose(weights.sum(axis=0), 1)
        np.testing.assert_allclose(whole @ weights, inside)


def test_sampled_features_collapse_and_semi_orthogonal_ones_do_not():
    """Every feature three times over: a sample soon holds two copies, a rotation never does."""
    rng = np.random.default_rng(0)
    x = np.repeat(rng.normal(size=(200, 20)), 3, axis=1)  # F = 60, of which 20 are independent
    c = np.cov(x.T, bias=True)
    ranks: dict[str, list[int]] = {"semi_orthogonal": [], "sampled": []}
    for kind, found in ranks.items():
        for seed in range(20):
            w = embedding_matrix(kind, features=60, k=15, seed=seed).numpy()
            found.append(int((np.linalg.eigvalsh(w.T @ c @ w) > 1e-9).sum()))
    assert set(ranks["semi_orthogonal"]) == {15}
    assert max(ranks["sampled"]) <= 15
    assert np.mean(ranks["sampled"]) < 14


def test_sampled_features_without_copies_are_a_special_case():
    """P(W) of a selection is the inverse of that block of C, and zero elsewhere."""
    c = covariance()
    w = embedding("sampled", 3)
    chosen = w.argmax(axis=0)
    expected = np.zeros_like(c)
    expected[np.ix_(chosen, chosen)] = np.linalg.inv(c[np.ix_(chosen, chosen)])
    np.testing.assert_allclose(approximation(c, w), expected, atol=1e-12)
