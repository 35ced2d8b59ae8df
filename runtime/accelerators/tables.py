"""The accelerators' operators, as their makers have published them: `accelerators.json`.

What no public document says is not in the table, and counts as not known.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from edgeseg.base.plain import parse_json, record
from edgeseg.runtime.backends.onnx_outline import STANDARD, GraphNode

Support = Literal["yes", "no", "not known"]
_TABLE = Path(__file__).with_name("accelerators.json")


@dataclass(frozen=True, kw_only=True)
class PublicDocument:
    """A document that says what an accelerator takes."""

    title: str
    version: str
    at: str


@dataclass(frozen=True, kw_only=True)
class Accelerator:
    """What one accelerator takes, by the ONNX names of operators."""

    key: str
    name: str
    tool: str  # that compiles a graph for it
    documents: tuple[PublicDocument, ...]
    takes: tuple[str, ...]
    refuses: tuple[str, ...]
    complete: bool  # an operator that is not listed is refused; else it is not known
    opsets: tuple[int | None, int | None] | None  # the lowest and the highest; None: not known
    static: bool | None  # whether every shape must be fixed; None: not known
    numbers: str  # what it computes in
    conditions: dict[str, str]  # of operators that it takes
    remark: str

    @property
    def rounds(self) -> bool:
        """Whether a graph in fp32 may become another one there."""
        return not self.numbers.startswith("fp32")

    def supports(self, node: GraphNode) -> Support:
        """Say whether it takes an operator."""
        if node.domain == STANDARD and node.kind in self.takes:
            return "yes"
        refused = self.complete or node.kind in self.refuses
        return "no" if refused else "not known"


@cache
def accelerators() -> tuple[Accelerator, ...]:
    """Return the whole table."""
    values = parse_json(_TABLE.read_bytes())
    return tuple(record(Accelerator, value, place=str(_TABLE.name)) for value in values)
