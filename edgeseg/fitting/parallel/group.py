"""Processes that share one fit, and sums over them. One process alone is the usual case."""

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from torch import Tensor

    from edgeseg.model.moments import Moments

Value = TypeVar("Value")

# What one all-reduce holds at a time: large enough for full speed, small beside the moments.
CHUNK_BYTES = 64 << 20


class Group:
    """This process alone; `edgeseg.fitting.parallel.torchrun` has the group of several."""

    rank = 0
    size = 1

    def sum_(self, values: "Tensor") -> "Tensor":
        """Sum over all processes, in place, the same bits in every one."""
        return values

    def gather(self, value: Value) -> list[Value]:
        """A plain value of every process, in the order of ranks."""
        return [value]

    def check(self) -> None:
        """Stop here if another process has failed; cheap enough for every batch."""

    def span(self, count: int) -> slice:
        """This process's share of `count` things."""
        return slice(count * self.rank // self.size, count * (self.rank + 1) // self.size)


ALONE = Group()


def sum_moments_(moments: "Moments", group: Group) -> "Moments":
    """Moments of the images of all processes, in place and exact to rounding.

    Counts and means first; then every process re-centres its scatter on the common mean (Chan's
    merge with all others at once) and the scatters are sums. A process without images adds zeros.
    """
    if group.size == 1:
        return moments
    import torch

    weighted = moments.mean * moments.count[:, None]
    own_count, own_mean = moments.count.clone(), moments.mean.clone()
    group.sum_(moments.count)
    group.sum_(weighted)
    some = torch.where(moments.count > 0, moments.count, 1.0)
    moments.mean.copy_(weighted / some[:, None])
    shift = (own_mean - moments.mean) * own_count.sqrt()[:, None]  # (P, k)
    locations, k = shift.shape
    step = max(1, CHUNK_BYTES // (8 * k * k))
    for start in range(0, locations, step):
        part = slice(start, start + step)
        moments.scatter[part].baddbmm_(shift[part, :, None], shift[part, None, :])
        group.sum_(moments.scatter[part])
    return moments
