"""Streaming moments of every location: count, mean and scatter, exact to merge and to split.

Everything is float64 and centred. E[xx'] - mm' would cancel: the directions of smallest variance,
which matter most here, are the ones it destroys.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import UsageError
from edgeseg.model.parallel import in_parallel

Floats = NDArray[np.float64]
_AT_ONCE = 4  # locations whose products stay in the processor's cache until they are added


@dataclass(frozen=True, kw_only=True)
class Moments:
    """Sums over images at P locations; their size does not depend on how many images there were."""

    count: Floats  # (P,): whole numbers, unless older images were made to count less
    mean: Floats  # (P, k)
    scatter: Floats  # (P, k, k): sum of (x - mean)(x - mean)'

    @classmethod
    def zero(cls, locations: int, k: int) -> "Moments":
        """Return the moments of no images."""
        return cls(
            count=np.zeros(locations),
            mean=np.zeros((locations, k)),
            scatter=np.zeros((locations, k, k)),
        )

    @property
    def images(self) -> int:
        """The number of images, before any pooling; of decayed ones the nearest number."""
        return round(float(self.count[0]))

    @property
    def decayed(self) -> bool:
        """Whether some images count less than one."""
        return not float(self.count[0]).is_integer()

    def at(self, locations: slice) -> "Moments":
        """Return a view of some locations."""
        return Moments(
            count=self.count[locations], mean=self.mean[locations], scatter=self.scatter[locations]
        )

    def scale(self, weight: float) -> "Moments":
        """Weight every image by `weight`: covariances stay, new images weigh more."""
        return Moments(count=self.count * weight, mean=self.mean, scatter=self.scatter * weight)

    def pack(self) -> dict[str, Floats]:
        """Return arrays for a file: of scatters the upper triangles (P, k (k + 1) / 2)."""
        row, column = np.triu_indices(self.scatter.shape[1])
        return {"count": self.count, "mean": self.mean, "scatter": self.scatter[:, row, column]}

    @classmethod
    def unpack(cls, arrays: dict[str, NDArray[Any]]) -> "Moments":
        """Read the arrays of `pack`."""
        mean, packed = arrays["mean"], arrays["scatter"]
        locations, k = mean.shape
        row, column = np.triu_indices(k)
        scatter = np.empty((locations, k, k), packed.dtype)
        scatter[:, row, column] = packed
        scatter[:, column, row] = packed
        return cls(count=arrays["count"], mean=mean, scatter=scatter)

    def update_(self, x_nkp: NDArray[Any], *, images: int | None = None) -> "Moments":
        """Add a batch of embeddings (N, k, P), in place.

        `images` says how many images they are of, if an image has several rows: its tiles, or the
        cells of a window.
        """
        given, k, locations = x_nkp.shape
        added = given if images is None else images
        if given == 0:
            return self
        # Chan's merge: the shift between the two means enters the scatter as one more row, so
        # that a single batched product reads and writes the large array once.
        rows = np.empty((locations, given + 1, k))
        centred = rows[:, :given]
        centred[:] = x_nkp.transpose(2, 0, 1)
        batch_mean = centred.mean(axis=1)  # (P, k)
        centred -= batch_mean[:, None]
        if added != given:
            centred *= math.sqrt(added / given)
        delta = batch_mean - self.mean
        total = self.count + added
        rows[:, given] = delta * np.sqrt(self.count * added / total)[:, None]
        add_squares_(self.scatter, rows)
        self.mean[:] += delta * (added / total)[:, None]
        self.count[:] = total
        return self

    def merge(self, other: "Moments") -> "Moments":
        """Return the moments of both sets of images together."""
        return self._combine(other, sign=1.0)

    def remove(self, other: "Moments") -> "Moments":
        """Return the moments without the images of `other`, which must be among these."""
        if bool((other.count >= self.count).any()):
            raise UsageError(
                f"cannot remove {other.images} of {self.images} images: none would be left"
            )
        return self._combine(other, sign=-1.0)

    def _combine(self, other: "Moments", *, sign: float) -> "Moments":
        if self.mean.shape != other.mean.shape:
            raise UsageError(
                f"moments of {other.mean.shape} locations and features cannot be combined "
                f"with {self.mean.shape}; both fits need the same settings"
            )
        count = self.count + sign * other.count
        safe = or_one(count)
        delta = other.mean - self.mean
        weighed = delta * (sign * self.count * other.count / safe)[:, None]
        mean = self.mean + delta * (sign * other.count / safe)[:, None]
        scatter = np.empty_like(self.scatter)
        both = np.add if sign > 0 else np.subtract

        def fill(start: int, stop: int) -> None:
            for first in range(start, stop, _AT_ONCE):
                part = slice(first, min(first + _AT_ONCE, stop))
                both(self.scatter[part], other.scatter[part], out=scatter[part])
                scatter[part] += weighed[part, :, None] * delta[part, None, :]

        in_parallel(fill, len(count), bytes_each=_AT_ONCE * 8 * mean.shape[1] ** 2)
        return Moments(count=count, mean=mean, scatter=scatter)

    def shared_covariance(self) -> "Moments":
        """Return moments with one covariance for all locations, each with its own mean."""
        total = self.count.sum(keepdims=True)
        scatter = self.scatter.sum(axis=0, keepdims=True)
        return Moments(count=total, mean=self.mean, scatter=scatter)


def add_squares_(scatter_pkk: Floats, rows_pnk: Floats) -> None:
    """Add the sum of xx' over the rows of every location to its scatter, in place."""
    locations, _, k = rows_pnk.shape

    def fill(start: int, stop: int) -> None:
        work = np.empty((_AT_ONCE, k, k))
        for first in range(start, stop, _AT_ONCE):
            part = slice(first, min(first + _AT_ONCE, stop))
            rows = rows_pnk[part]
            # A copy: numpy takes a slower way for the product of an array with itself.
            product = np.matmul(rows.copy().transpose(0, 2, 1), rows, out=work[: len(rows)])
            scatter_pkk[part] += product

    in_parallel(fill, locations, bytes_each=8 * k * k)


def merge_first_axis(
    count: Floats, mean: Floats, scatter: Floats, *, into: tuple[Floats, Floats, Floats]
) -> None:
    """Merge count (w, n), mean and scatter of a grid along its first axis.

    `into` are the count (n,), mean (n, k) and scatter (n, k, k) to write to.
    """
    total, centre, whole = into
    np.sum(count, axis=0, out=total)
    np.sum(mean * (count / or_one(total))[..., None], axis=0, out=centre)
    delta = mean - centre
    weighed = delta * count[..., None]
    np.sum(scatter, axis=0, out=whole)
    whole += np.matmul(weighed.transpose(1, 2, 0), delta.transpose(1, 0, 2))


def or_one(count: Floats) -> Floats:
    """Return a count to divide by: empty sets have no mean, and decayed counts may be below one."""
    return np.where(count > 0, count, 1.0)
