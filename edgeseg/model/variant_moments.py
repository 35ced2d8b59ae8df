"""Moments of several variants of a product: a mean for each, and one covariance within them all.

    C = sum over variants of their scatters / number of images

Scatters are only ever added, so they are kept as their sum: V variants take V means and no more.
"""

from dataclasses import dataclass, replace

import numpy as np

from edgeseg.base.errors import UsageError
from edgeseg.model.moments import Floats, Moments, add_squares_, or_one


@dataclass(frozen=True, kw_only=True)
class VariantMoments(Moments):
    """Moments whose scatter is about the means of variants; count and mean are of all images."""

    own_count: Floats  # (V, P)
    own_mean: Floats  # (V, P, k)

    @classmethod
    def blank(cls, variants: int, locations: int, k: int) -> "VariantMoments":
        """Return the moments of no images."""
        none = Moments.zero(locations, k)
        return cls(
            **vars(none),
            own_count=np.zeros((variants, locations)),
            own_mean=np.zeros((variants, locations, k)),
        )

    @classmethod
    def of(cls, parts: list[Moments]) -> "VariantMoments":
        """Join the moments of each variant."""
        scatter = parts[0].scatter.copy()
        for part in parts[1:]:
            scatter += part.scatter
        own_count = np.stack([part.count for part in parts])
        joined = cls(
            count=np.empty_like(own_count[0]),
            mean=np.empty_like(parts[0].mean),
            scatter=scatter,
            own_count=own_count,
            own_mean=np.stack([part.mean for part in parts]),
        )
        return joined.settle_()

    @property
    def parts(self) -> list[Moments]:
        """The moments of each variant; the first one carries the scatter of all."""
        none = np.broadcast_to(np.zeros(1), self.scatter.shape)
        pairs = zip(self.own_count, self.own_mean, strict=True)
        return [
            Moments(count=count, mean=mean, scatter=none if number else self.scatter)
            for number, (count, mean) in enumerate(pairs)
        ]

    def part_(self, variant: int) -> Moments:
        """Return a view to add images of one variant to; call `settle_` after."""
        return Moments(
            count=self.own_count[variant], mean=self.own_mean[variant], scatter=self.scatter
        )

    def settle_(self) -> "VariantMoments":
        """Compute count and mean of all images anew, in place."""
        np.sum(self.own_count, axis=0, out=self.count)
        share = self.own_count / or_one(self.count)
        np.einsum("vp,vpk->pk", share, self.own_mean, out=self.mean)
        return self

    def at(self, locations: slice) -> "VariantMoments":
        """Return a view of some locations."""
        return VariantMoments(
            **vars(super().at(locations)),
            own_count=self.own_count[:, locations],
            own_mean=self.own_mean[:, locations],
        )

    def _combine(self, other: Moments, *, sign: float) -> "VariantMoments":
        if not isinstance(other, VariantMoments) or self.own_mean.shape != other.own_mean.shape:
            raise UsageError("moments of other variants cannot be combined; fit all at once")
        count = self.own_count + sign * other.own_count
        safe = or_one(count)
        delta = other.own_mean - self.own_mean  # (V, P, k)
        # What is removed counts all the more, the further its mean lies from that of the rest.
        apart = delta * np.sqrt(self.own_count * other.own_count / safe)[..., None]
        scatter = other.scatter.copy()
        add_squares_(scatter, np.ascontiguousarray(apart.transpose(1, 0, 2)))
        scatter *= sign
        scatter += self.scatter
        combined = replace(
            self,
            count=np.empty_like(self.count),
            mean=np.empty_like(self.mean),
            scatter=scatter,
            own_count=count,
            own_mean=self.own_mean + delta * (sign * other.own_count / safe)[..., None],
        )
        return combined.settle_()
