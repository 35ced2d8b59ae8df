"""The variant of a product that a frame shows: the likeliest one, found by a linear form.

All variants have one covariance. From the mean m_v of a variant the square of a cell's distance is

    d_v^2 = d^2 + |c_v|^2 - 2 a_v'(x - mean),    c_v = L'(m_v - mean),  a_v = L c_v

so the variant with the smallest mean of d_v^2 over all cells that count, which is Fisher's
discriminant, costs one product of two vectors, and distances are then taken from its mean alone.
The lowest score would not tell variants apart as well: its highest cells are those of a defect,
and as high from all of them (docs/variants.md).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgeseg.model.factors import Factors
from edgeseg.model.windows import Windows

Maps = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class VariantForm:
    """The means of V variants at every cell, and the linear form that is least for the nearest."""

    mean: Maps  # (P, k): of all variants together
    means: Maps  # (V, P, k)
    weight: Maps  # (P k, V)
    bias: Maps  # (V,)

    @classmethod
    def of(cls, factors: Factors, windows: Windows, counted_hw: Maps) -> "VariantForm | None":
        """Return the form of some factors, with weights (h, w) of cells; None of one product."""
        if factors.variant_means is None:
            return None
        factor = factors.factor.astype(np.float64)
        share = counted_hw.reshape(-1, 1).astype(np.float64)  # (P, 1)
        weights, biases = [], []
        for own in factors.variant_means.astype(np.float64):
            offset = (own - factors.mean)[:, None] @ factor  # (B, 1, r): c_v
            along = (offset @ factor.transpose(0, 2, 1))[:, 0]  # (B, k): a_v
            squares = np.square(offset).sum(axis=2)  # (B, 1)
            weights.append((-2 * share * windows.per_cell(along)).ravel())
            biases.append(float((share * windows.per_cell(squares)).sum()))
        return cls(
            mean=windows.per_cell(factors.mean),
            means=np.stack([windows.per_cell(own) for own in factors.variant_means]),
            weight=np.ascontiguousarray(np.stack(weights, axis=1), np.float32),
            bias=np.array(biases, np.float32),
        )

    def nearest(self, x_npk: Maps) -> NDArray[np.int64]:
        """Return the number (N,) of the variant that each embedded frame shows."""
        flat = (x_npk - self.mean).reshape(len(x_npk), -1)
        return np.asarray((flat @ self.weight + self.bias).argmin(axis=1), np.int64)
