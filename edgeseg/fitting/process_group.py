"""The processes that share one fit; one process alone is the usual case."""

from typing import Any, TypeVar

from numpy.typing import NDArray

Value = TypeVar("Value")

# What one all-reduce holds at a time: large enough for full speed, small beside the moments.
CHUNK_BYTES = 64 << 20


class ProcessGroup:
    """This process alone; `edgeseg.fitting.parallel.torchrun` has the group of several."""

    rank = 0
    size = 1

    def sum_(self, values: NDArray[Any]) -> NDArray[Any]:
        """Sum over all processes, in place, the same bits in every one."""
        return values

    def gather(self, value: Value) -> list[Value]:
        """Return a plain value of every process, in the order of ranks."""
        return [value]

    def check(self) -> None:
        """Stop if another process has failed; cheap enough for every batch."""

    def span(self, count: int) -> slice:
        """Return this process's share of `count` things."""
        return slice(count * self.rank // self.size, count * (self.rank + 1) // self.size)


ALONE = ProcessGroup()
