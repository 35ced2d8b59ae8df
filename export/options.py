"""What may be asked of an export; read by the command line, so it loads nothing heavy."""

from dataclasses import dataclass

from edgeseg.contract.precisions import EXACT, precision_spec
from edgeseg.errors import UsageError

TARGETS = ("cpu", "trt")  # int8 graphs differ


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """What kind of graph is wanted."""

    precision: str = EXACT
    target: str = "cpu"
    batch: tuple[int, int, int] = (1, 1, 1)  # min, opt, max
    grid_output: bool = True
    allow_random_weights: bool = False
    verify: bool = True

    def __post_init__(self) -> None:
        precision_spec(self.precision)
        if self.target not in TARGETS:
            raise UsageError(f"target={self.target!r}: expected one of {TARGETS}")
