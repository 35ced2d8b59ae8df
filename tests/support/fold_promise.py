"""How often a threshold by folds is passed, against what it promises: images of a known law.

Gaussian images are fitted, judged by the models of the other folds, and new ones are counted above
the threshold. A ratio of 1 is what was promised; the fitted images themselves stand beside it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgeseg.decision.operating_point import conformal_threshold
from edgeseg.model.factors import Factors, make_factors
from edgeseg.model.moments import Moments

K, LOCATIONS = 8, 6
CASES = ((40, 0.10), (100, 0.05))  # good images, rate that is asked for
_NEW = 400  # images that are counted in every repetition


@dataclass(frozen=True, kw_only=True)
class Counted:
    """Shares of new images above a threshold, as multiples of the rate that was promised."""

    images: int
    rate: float
    folds: int
    by_folds: float
    by_fitted: float  # where the fitted images set the threshold themselves


def counted(images: int, rate: float, *, folds: int, repetitions: int, seed: int = 1) -> Counted:
    """Draw, fit, judge and count, again and again."""
    rng = np.random.default_rng(seed)
    alarms = np.empty((repetitions, 2))
    for repetition in alarms:
        mixing = rng.normal(size=(LOCATIONS, K, K))
        noise = rng.normal(size=(images + _NEW, K, LOCATIONS))
        x_nkp = np.einsum("pij,njp->nip", mixing, noise)
        fitted, new = x_nkp[:images], x_nkp[images:]
        final = _factors(_moments(fitted))
        ways = (fold_scores(fitted, folds=folds), image_scores(fitted, final))
        limits = [conformal_threshold(way.tolist(), false_alarm_rate=rate).value for way in ways]
        repetition[:] = (image_scores(new, final)[:, None] > limits).mean(axis=0)
    by_folds, by_fitted = (alarms.mean(axis=0) / rate).tolist()
    return Counted(images=images, rate=rate, folds=folds, by_folds=by_folds, by_fitted=by_fitted)


def fold_scores(x_nkp: NDArray[np.float64], *, folds: int) -> NDArray[np.float64]:
    """Every image judged by the model of all others but its fold."""
    whole = _moments(x_nkp)
    scores = np.empty(len(x_nkp))
    for fold in range(folds):
        members = slice(fold, None, folds)
        scores[members] = image_scores(
            x_nkp[members], _factors(whole.remove(_moments(x_nkp[members])))
        )
    return scores


def image_scores(x_nkp: NDArray[np.float64], factors: Factors) -> NDArray[np.float64]:
    """Highest distance of each image."""
    centred = x_nkp.transpose(2, 0, 1) - factors.mean[:, None].astype(np.float64)
    d_pn = np.linalg.norm(centred @ factors.factor.astype(np.float64), axis=2)
    scores: NDArray[np.float64] = d_pn.max(axis=0)
    return scores


def _moments(x_nkp: NDArray[np.float64]) -> Moments:
    return Moments.zero(LOCATIONS, K).update_(x_nkp)


def _factors(moments: Moments) -> Factors:
    return make_factors(moments, ridge=0.01, rank=5, directions="lower")
