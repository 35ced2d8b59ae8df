"""Tell a difference from chance: a limit counts as broken only where chance would rarely do it.

Sixteen frames cannot tell a loss of 2 % from none: one frame alone is 6 % of them. A limit on a
share or on an AUROC is therefore the limit itself plus what a graph that just keeps it would exceed
once in twenty times on as many frames. More frames bring the two together.
"""

import math

import numpy as np
from numpy.typing import NDArray

ERROR = 0.05  # how often a graph that just keeps a limit is refused
_ONE_SIDED = 1.645  # standard deviations of a normal distribution that it exceeds as often


def most_by_chance(share: float, count: int) -> int:
    """Return the number that a binomial count exceeds at most once in twenty times."""
    if share <= 0:
        return 0
    if share >= 1:
        return count
    below = 0.0
    for number in range(count + 1):
        below += math.comb(count, number) * share**number * (1 - share) ** (count - number)
        if below >= 1 - ERROR:
            return number
    return count


def loss_margin(
    wanted: NDArray[np.floating], candidate: NDArray[np.floating], *, good: int
) -> float:
    """Return how far a measured loss of AUROC may be from the true one by chance.

    Both judge the same frames, of which the first `good` are good ones. The margin is DeLong's
    variance of the difference, frame by frame: what is hard for both does not count.
    """
    placed = [_placements(scores, good=good) for scores in (wanted, candidate)]
    variance = 0.0
    for first, second in zip(*placed, strict=True):
        if len(first) > 1:
            variance += float(np.var(first - second, ddof=1)) / len(first)
    return _ONE_SIDED * math.sqrt(variance)


def _placements(
    scores: NDArray[np.floating], *, good: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the share of good frames below each planted defect, and the other way round."""
    higher = scores[None, good:] - scores[:good, None]  # (good, planted)
    won = np.where(higher > 0, 1.0, np.where(higher == 0, 0.5, 0.0))
    return won.mean(axis=0), won.mean(axis=1)
