"""Cut a graph for an accelerator: the largest beginning of which it takes every operator.

Preprocessing is never part of it: the tools take pixels that are normalised, or normalise by
themselves.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from edgeseg.runtime.accelerators.sections import BACKBONE, PREPROCESSING, NodeLinks
from edgeseg.runtime.accelerators.tables import Accelerator
from edgeseg.runtime.backends.onnx_outline import GraphOutline, GraphTensor


@dataclass(frozen=True, kw_only=True)
class GraphCut:
    """The place at which a graph is cut for an accelerator."""

    accelerator: Accelerator
    there: int  # operators that run on it, of so many
    operators: int
    convolutions_there: int
    convolutions: int
    crossing: tuple[str, ...]  # tensors that come back
    tensors: tuple[GraphTensor, ...]  # the same, as far as the file has their shapes
    further: int  # operators behind the cut that it takes too
    kinds: frozenset[str]  # of the operators that run on it
    stops: tuple[str, ...]  # the operators at which it ends
    refused: dict[str, int]  # operators that it does not take, by name
    unknown: dict[str, int]  # and those of which nothing public says whether it does
    at_taps: bool  # the cut is that of `edgeseg export --split`

    @property
    def values(self) -> int | None:
        """How many values come back per run; None where a shape is not fixed."""
        counts = [tensor.values for tensor in self.tensors]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(self.crossing) else None

    @property
    def bytes(self) -> int | None:
        """The size of what comes back: a byte for each value from an accelerator that rounds."""
        if self.values is None or self.accelerator.rounds:
            return self.values
        return sum(tensor.bytes for tensor in self.tensors)

    @property
    def whole(self) -> bool:
        """Whether nothing is left for the processor."""
        return self.there == self.operators


def largest_prefix(links: NodeLinks, taken: Sequence[bool], given: Collection[int]) -> set[int]:
    """Return all nodes that are taken with everything they depend on, but for the given ones."""
    found: set[int] = set()
    for number, behind in enumerate(links.before):
        if number not in given and taken[number] and found.union(given).issuperset(behind):
            found.add(number)
    return found


def crossing_tensors(links: NodeLinks, inside: set[int]) -> tuple[str, ...]:
    """Name the tensors that nodes inside give, and that others or the graph's outputs read."""
    outputs = {tensor.name for tensor in links.outline.outputs}
    nodes = links.outline.nodes
    outside = (node for number, node in enumerate(nodes) if number not in inside)
    wanted = {name for node in outside for name in node.reads} | outputs
    given = (name for number in sorted(inside) for name in nodes[number].gives)
    return tuple(name for name in given if name in wanted and name not in links.roots)


def cut_for(accelerator: Accelerator, outline: GraphOutline, places: list[str] | None) -> GraphCut:
    """Cut a graph; `places` are its sections, None for a graph that edgeseg has not exported.

    An accelerator that rounds gets the backbone at most: distances grow by the rounding where
    parts vary least.
    """
    links = NodeLinks(outline)
    answers = [accelerator.supports(node) for node in outline.nodes]
    sides = [place == PREPROCESSING for place in places or ()]
    given = {number for number, aside in enumerate(sides) if aside}
    inside = largest_prefix(links, [answer == "yes" for answer in answers], given)
    backbone = {number for number, place in enumerate(places or ()) if place == BACKBONE}
    at_taps = bool(backbone) and backbone <= inside and accelerator.rounds
    cut = backbone if at_taps else inside
    crossing = crossing_tensors(links, cut)
    shapes = outline.tensors
    rest = [number for number in range(len(answers)) if number not in given]
    convolutions = {number for number in rest if outline.nodes[number].kind == "Conv"}

    reached = inside | given
    stops = {
        outline.nodes[number].kind: None
        for number in rest
        if number not in inside and reached.issuperset(links.before[number])
    }

    def count(answer: str) -> dict[str, int]:
        found = Counter(outline.nodes[n].kind for n in rest if answers[n] == answer)
        return dict(sorted(found.items()))

    return GraphCut(
        accelerator=accelerator,
        there=len(cut),
        operators=len(rest),
        convolutions_there=len(cut & convolutions),
        convolutions=len(convolutions),
        crossing=crossing,
        tensors=tuple(shapes[name] for name in crossing if name in shapes),
        further=len(inside - cut),
        kinds=frozenset(outline.nodes[number].kind for number in cut),
        stops=tuple(stops),
        refused=count("no"),
        unknown=count("not known"),
        at_taps=at_taps,
    )
