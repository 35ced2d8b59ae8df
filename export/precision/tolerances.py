"""How far a graph of each precision may be from the reference."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """What may differ, as shares of the reference map's range."""

    max_error: float
    mean_error: float
    min_rank_correlation: float
    max_flips: float  # share of images whose verdict changes


# By the names of PRECISIONS. fp32 differs by the order of additions alone. fp16 rounds features to
# eleven bits. int8 rounds them to eight, and the directions of smallest variance see that noise
# first; among good images alone, whose scores are close together, it also shuffles ranks.
TOLERANCES = {
    "fp32": Tolerance(max_error=1e-3, mean_error=1e-4, min_rank_correlation=0.9999, max_flips=0.0),
    "fp16": Tolerance(max_error=0.15, mean_error=0.01, min_rank_correlation=0.95, max_flips=0.05),
    "int8": Tolerance(max_error=0.50, mean_error=0.10, min_rank_correlation=0.80, max_flips=0.10),
}
