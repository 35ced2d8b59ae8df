"""Processes that share one fit. One process alone is the usual case."""

from typing import Any, TypeVar

from numpy.typing import NDArray

Value = TypeVar("Value")

# What one all-reduce holds at a time: large enough for full speed, small beside the moments.
CHUNK_BYTES = 64 << 20


class Group:
    """This process alone; `edgeseg.fitting.parallel.torchrun` has the group of several."""

    rank = 0
    size = 1

    def sum_(self, values: NDArray[Any]) -> NDArray[Any]:
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
