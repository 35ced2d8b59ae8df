"""Streaming moments of every location: count, mean and scatter, exact to merge and to split.

Everything is float64 and centred. E[xx'] - mm' would cancel: the directions of smallest variance,
which matter most here, are the ones it destroys.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from edgeseg.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Moments:
    """Sums over images at P locations; their size does not depend on how many images there were."""

    count: Tensor  # (P,)
    mean: Tensor  # (P, k)
    scatter: Tensor  # (P, k, k): sum of (x - mean)(x - mean)'

    @classmethod
    def zero(cls, locations: int, k: int) -> "Moments":
        """Of no images at all."""
        return cls(
            count=torch.zeros(locations, dtype=torch.float64),
            mean=torch.zeros(locations, k, dtype=torch.float64),
            scatter=torch.zeros(locations, k, k, dtype=torch.float64),
        )

    @classmethod
    def of(cls, x_nkp: Tensor) -> "Moments":
        """Of one batch of embeddings (N, k, P)."""
        return cls.zero(x_nkp.shape[2], x_nkp.shape[1]).update_(x_nkp)

    @property
    def images(self) -> int:
        """How many images went in, before any pooling."""
        return int(self.count[0].item())

    def update_(self, x_nkp: Tensor) -> "Moments":
        """Add a batch of embeddings (N, k, P), in place."""
        added = x_nkp.shape[0]
        if added == 0:
            return self
        rows = x_nkp.to(torch.float64).permute(2, 0, 1)  # (P, N, k)
        batch_mean = rows.mean(dim=1)  # (P, k)
        delta = batch_mean - self.mean
        total = self.count + added
        # Chan's merge: the shift between the two means enters the scatter as one more row, so
        # that a single batched product reads and writes the large tensor once.
        shift = delta * (self.count * added / total).sqrt()[:, None]
        centred = torch.cat([rows - batch_mean[:, None], shift[:, None]], dim=1)  # (P, N + 1, k)
        self.scatter.baddbmm_(centred.mT, centred)
        self.mean.add_(delta * (added / total)[:, None])
        self.count.copy_(total)
        return self

    def merge(self, other: "Moments") -> "Moments":
        """Moments of both sets of images together."""
        return self._combine(other, sign=1.0)

    def remove(self, other: "Moments") -> "Moments":
        """Moments without the images of `other`, which must have been part of these."""
        if bool((other.count >= self.count).any()):
            raise UsageError(
                f"cannot remove {other.images} of {self.images} images: none would be left"
            )
        return self._combine(other, sign=-1.0)

    def _combine(self, other: "Moments", *, sign: float) -> "Moments":
        if self.mean.shape != other.mean.shape:
            raise UsageError(
                f"moments of {tuple(other.mean.shape)} locations and features cannot be combined "
                f"with {tuple(self.mean.shape)}; both fits need the same settings"
            )
        count = self.count + sign * other.count
        safe = count.clamp(min=1.0)  # two empty sets have no mean to divide
        delta = other.mean - self.mean
        weight = sign * self.count * other.count / safe
        mean = self.mean + delta * (sign * other.count / safe)[:, None]
        scatter = torch.add(self.scatter, other.scatter, alpha=sign)
        scatter.baddbmm_((delta * weight[:, None])[:, :, None], delta[:, None, :])
        return Moments(count=count, mean=mean, scatter=scatter)

    def pooled(self, grid_hw: tuple[int, int], size: int) -> "Moments":
        """Every location merged with its neighbours in a size x size window, cut at the border."""
        if size == 1:
            return self
        # Merging is associative, so rows first and columns after is the merge of the whole window.
        return self._pooled_along(0, grid_hw, size // 2)._pooled_along(1, grid_hw, size // 2)

    def _pooled_along(self, axis: int, grid_hw: tuple[int, int], radius: int) -> "Moments":
        k = self.mean.shape[1]
        count = self.count.view(*grid_hw)
        mean = self.mean.view(*grid_hw, k)
        scatter = self.scatter.view(*grid_hw, k, k)
        window = list(_shifts(grid_hw[axis], radius))
        new_count, new_mean = torch.zeros_like(count), torch.zeros_like(mean)
        for into, out_of in window:
            part = count.narrow(axis, *out_of)
            new_count.narrow(axis, *into).add_(part)
            new_mean.narrow(axis, *into).add_(part[..., None] * mean.narrow(axis, *out_of))
        new_mean /= new_count.clamp(min=1.0)[..., None]
        new_scatter = torch.zeros_like(scatter)
        for into, out_of in window:
            delta = mean.narrow(axis, *out_of) - new_mean.narrow(axis, *into)
            target = new_scatter.narrow(axis, *into)
            target.add_(scatter.narrow(axis, *out_of))
            weighted = delta * count.narrow(axis, *out_of)[..., None]
            target.addcmul_(weighted[..., :, None], delta[..., None, :])
        return Moments(
            count=new_count.view(-1), mean=new_mean.view(-1, k), scatter=new_scatter.view(-1, k, k)
        )

    def shared_covariance(self) -> "Moments":
        """One covariance for all locations, each keeping its own mean."""
        total = self.count.sum()
        scatter = self.scatter.sum(dim=0, keepdim=True)
        return Moments(count=total.view(1), mean=self.mean, scatter=scatter)


def _shifts(length: int, radius: int) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """For each offset of a window: where values go and where they come from, as (start, length)."""
    for offset in range(-min(radius, length - 1), min(radius, length - 1) + 1):
        kept = length - abs(offset)
        yield (max(0, -offset), kept), (max(0, offset), kept)
