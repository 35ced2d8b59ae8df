"""Streaming moments of every location: count, mean and scatter, exact to merge and to split.

Everything is float64 and centred. E[xx'] - mm' would cancel: the directions of smallest variance,
which matter most here, are the ones it destroys.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from edgeseg.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Moments:
    """Sums over images at P locations; their size does not depend on how many images there were."""

    count: Tensor  # (P,): whole numbers, unless older images were made to count less
    mean: Tensor  # (P, k)
    scatter: Tensor  # (P, k, k): sum of (x - mean)(x - mean)'

    @classmethod
    def zero(cls, locations: int, k: int, *, device: torch.device | None = None) -> "Moments":
        """Of no images at all."""
        return cls(
            count=torch.zeros(locations, dtype=torch.float64, device=device),
            mean=torch.zeros(locations, k, dtype=torch.float64, device=device),
            scatter=torch.zeros(locations, k, k, dtype=torch.float64, device=device),
        )

    @property
    def images(self) -> int:
        """How many images went in, before any pooling; of decayed ones the nearest number."""
        return round(float(self.count[0]))

    @property
    def decayed(self) -> bool:
        """Whether some images count less than one."""
        return not float(self.count[0]).is_integer()

    def at(self, locations: slice) -> "Moments":
        """A view of some locations."""
        return Moments(
            count=self.count[locations], mean=self.mean[locations], scatter=self.scatter[locations]
        )

    def to(self, device: torch.device) -> "Moments":
        """The same numbers on a device."""
        return Moments(
            count=self.count.to(device), mean=self.mean.to(device), scatter=self.scatter.to(device)
        )

    def scaled(self, weight: float) -> "Moments":
        """Every image counts `weight` times as much: covariances stay, new images weigh more."""
        return Moments(count=self.count * weight, mean=self.mean, scatter=self.scatter * weight)

    def packed(self) -> dict[str, Tensor]:
        """Tensors for a file: of scatters the upper triangles (P, k (k + 1) / 2)."""
        row, column = torch.triu_indices(*self.scatter.shape[1:])
        return {"count": self.count, "mean": self.mean, "scatter": self.scatter[:, row, column]}

    @classmethod
    def unpacked(cls, tensors: dict[str, Tensor]) -> "Moments":
        """What was packed."""
        mean, packed = tensors["mean"], tensors["scatter"]
        locations, k = mean.shape
        row, column = torch.triu_indices(k, k)
        scatter = torch.empty(locations, k, k, dtype=packed.dtype)
        scatter[:, row, column] = packed
        scatter[:, column, row] = packed
        return cls(count=tensors["count"], mean=mean, scatter=scatter)

    def update_(self, x_nkp: Tensor, *, images: int | None = None) -> "Moments":
        """Add a batch of embeddings (N, k, P), in place.

        `images` says how many images they are of, if an image has several rows: its tiles, or the
        cells of a window.
        """
        rows_given = x_nkp.shape[0]
        added = rows_given if images is None else images
        if rows_given == 0:
            return self
        rows = x_nkp.to(torch.float64).permute(2, 0, 1)  # (P, N, k)
        batch_mean = rows.mean(dim=1)  # (P, k)
        delta = batch_mean - self.mean
        total = self.count + added
        # Chan's merge: the shift between the two means enters the scatter as one more row, so
        # that a single batched product reads and writes the large tensor once.
        shift = delta * (self.count * added / total).sqrt()[:, None]
        centred = (rows - batch_mean[:, None]) * math.sqrt(added / rows_given)
        centred = torch.cat([centred, shift[:, None]], dim=1)  # (P, N + 1, k)
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
        safe = _or_one(count)
        delta = other.mean - self.mean
        weight = sign * self.count * other.count / safe
        mean = self.mean + delta * (sign * other.count / safe)[:, None]
        scatter = torch.add(self.scatter, other.scatter, alpha=sign)
        scatter.baddbmm_((delta * weight[:, None])[:, :, None], delta[:, None, :])
        return Moments(count=count, mean=mean, scatter=scatter)

    def shared_covariance(self) -> "Moments":
        """One covariance for all locations, each keeping its own mean."""
        total = self.count.sum()
        scatter = self.scatter.sum(dim=0, keepdim=True)
        return Moments(count=total.view(1), mean=self.mean, scatter=scatter)


def merged(
    count: Tensor, mean: Tensor, scatter: Tensor, *, axis: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Count, mean and scatter of a grid with all locations along one of its axes as one."""
    total = count.sum(dim=axis)
    weight = (count / _or_one(total).unsqueeze(axis))[..., None]
    centre = (mean * weight).sum(dim=axis)
    delta = mean - centre.unsqueeze(axis)
    between = torch.einsum(
        "nwk,nwl->nkl",
        (delta * count[..., None]).movedim(axis, 1),
        delta.movedim(axis, 1),
    )
    return total, centre, scatter.sum(dim=axis) + between


def _or_one(count: Tensor) -> Tensor:
    """A count to divide by: empty sets have no mean, and decayed counts may be below one."""
    return torch.where(count > 0, count, 1.0)
