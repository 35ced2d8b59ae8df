"""Directions in which known defects leave good parts, as a share of every distance.

u   = (C + ridge I)^(-1/2) (z - m)         the cell in its own whitened axes, alike at all cells
d^2 = (1 - a) |L'(z - m)|^2 + |A'u|^2      A (k, J): the directions, scaled; a: their share

Both are one quadratic form of rank r + J at most. Its best part of rank r takes the place of L, so
that a model has the shape and the speed that it has without known defects.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgeseg.model.moments import Floats
from edgeseg.modelfile.known_kinds import KnownFacts


@dataclass(frozen=True, kw_only=True)
class KnownDirections:
    """What is added to the distances of all cells for the sake of known defects."""

    directions: NDArray[np.float32]  # A (k, J), scaled
    share: float  # a: what is taken from the distances of before

    def __post_init__(self) -> None:
        if not 0 <= self.share < 1:
            raise ValueError(f"share: {self.share}, expected from 0 and below 1")

    def add_to(
        self, factor: Floats, weight: Floats | None, whitening: Floats
    ) -> tuple[Floats, Floats | None]:
        """Return factors (B, k, r) of the whole form, and weights (B, r) of a map of its own.

        The map weighs the directions of before as before, and new ones like the mean of them.
        """
        kept, added = 1 - self.share, self.directions.shape[1]
        wide = np.concatenate(
            [factor * np.sqrt(kept), whitening @ self.directions.astype(np.float64)], axis=2
        )
        # The eigenvectors of the small side; those of smallest value, `added` in number, go.
        _, vectors = np.linalg.eigh(wide.transpose(0, 2, 1) @ wide)
        turn = vectors[:, :, added:]  # (B, r + J, r)
        if weight is None:
            return wide @ turn, None
        new = np.repeat(weight.mean(axis=1, keepdims=True), added, axis=1)
        weights = np.concatenate([weight, new], axis=1) / kept
        # Any rotation leaves the score as it is; in this one the map's form is diagonal too.
        turned, axes = np.linalg.eigh(turn.transpose(0, 2, 1) @ (weights[:, :, None] * turn))
        return wide @ (turn @ axes), turned


def whiten(variance: Floats, vectors: Floats, ridge: float) -> Floats:
    """Return (C + ridge I)^(-1/2) (B, k, k) from all variances (B, k) and directions (B, k, k)."""
    scaled = vectors / np.sqrt(np.maximum(variance, 0.0) + ridge)[:, None, :]
    return np.asarray(scaled @ vectors.transpose(0, 2, 1))


@dataclass(frozen=True, kw_only=True)
class KnownDefects:
    """What a model has learned from known defects, and from which."""

    learned: KnownDirections
    facts: KnownFacts
