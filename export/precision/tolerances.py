"""Limits on how far a graph of each precision may be from the reference."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """The differences that are allowed; errors are shares of the reference map's range.

    A graph that was fitted again has its own covariance, so its map may differ: it is held to the
    head and to decisions. Every other graph is held to the reference's map. Verdicts and AUROC come
    from a few frames: `export/chance.py` adds what chance does on so many.
    """

    max_error: float  # of the map of the same frames, and of their scores
    mean_error: float
    min_rank_correlation: float  # of scores
    max_flips: float  # share of images whose verdict changes, each at its own threshold
    head_error: float = 1e-4  # mean, of map and score of the same embedding
    max_loss: float = 0.0  # of the AUROC between good images and planted defects


# By the names of PRECISIONS. fp32 differs by the order of additions alone. fp16 rounds features and
# factors to eleven bits, bf16 to eight. int8 has factors of seven bits and features of eight; among
# good images alone, whose scores are close together, that also shuffles ranks. 1e-4 of a head is
# for exact factors: eight bits of the embedding alone are ten times that, most of it one shift of
# all distances (docs/method.md).
TOLERANCES = {
    "fp32": Tolerance(max_error=1e-3, mean_error=1e-4, min_rank_correlation=0.9999, max_flips=0.0),
    "fp16": Tolerance(
        max_error=0.15,
        mean_error=0.01,
        min_rank_correlation=0.95,
        max_flips=0.07,
        head_error=0.002,
        max_loss=0.02,
    ),
    "bf16": Tolerance(
        max_error=0.20,
        mean_error=0.02,
        min_rank_correlation=0.92,
        max_flips=0.07,
        head_error=0.01,
        max_loss=0.02,
    ),
    "int8": Tolerance(
        max_error=0.50,
        mean_error=0.10,
        min_rank_correlation=0.9,
        max_flips=0.10,
        head_error=0.005,
        max_loss=0.02,
    ),
}
