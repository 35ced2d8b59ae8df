"""Tell which part of an exported graph an operator belongs to, by the constants that it reads.

frames -preprocessing-> normalised pixels -backbone-> taps -embedding-> W'x -head-> distances and
score; distances -map-> the map
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from edgeseg.runtime.backends.onnx_outline import GraphNode, GraphOutline

PREPROCESSING, BACKBONE, EMBEDDING = "preprocessing", "backbone", "embedding"
HEAD, MAP = "head", "map"
SECTIONS = (PREPROCESSING, BACKBONE, EMBEDDING, HEAD, MAP)
# Prefixes of the names of constants, as the exporter takes them from the model's layers.
_OF_BACKBONE, _OF_EMBEDDING = "backbone.", "embedding.kernel_"
_FORMS = ("factor", "factor_int8")  # the factor of the score's distances
_UPSAMPLING = "rows"  # from the grid to the map
# What comes between a tap and its projection; all else behind the last layer belongs to the layer.
_AROUND = {"AveragePool", "Concat", "Resize", "Pad", "Slice"}


@dataclass(frozen=True)
class NodeLinks:
    """Who reads what of a graph; nodes are numbered in the order of execution."""

    outline: GraphOutline

    @cached_property
    def maker(self) -> dict[str, int]:
        """The node that gives a tensor."""
        return {name: number for number, node in self._nodes for name in node.gives if name}

    @cached_property
    def roots(self) -> dict[str, frozenset[str]]:
        """The constants behind every tensor that does not depend on the input."""
        found = {tensor.name: frozenset([tensor.name]) for tensor in self.outline.constants}
        for _, node in self._nodes:
            read = [name for name in node.reads if name]
            if all(name in found for name in read):
                behind = frozenset[str]().union(*(found[name] for name in read))
                found |= dict.fromkeys(node.gives, behind)
        return found

    @cached_property
    def before(self) -> list[tuple[int, ...]]:
        """The nodes that each node reads from."""
        return [
            tuple(sorted({self.maker[name] for name in node.reads if name in self.maker}))
            for _, node in self._nodes
        ]

    def reading(self, *prefixes: str, whole: bool = False) -> set[int]:
        """Find the nodes that read a constant by its name, or by the beginning of its name."""
        return {
            number
            for number, node in self._nodes
            if any(self._matches(root, prefixes, whole) for root in self._constants(node))
        }

    def is_constant(self, number: int) -> bool:
        """Whether a node gives the same for every input."""
        return all(name in self.roots for name in self.outline.nodes[number].gives)

    def ancestors(self, numbers: Iterable[int]) -> set[int]:
        """Return nodes and all that they depend on."""
        found: set[int] = set()
        waiting = list(numbers)
        while waiting:
            number = waiting.pop()
            if number not in found:
                found.add(number)
                waiting.extend(self.before[number])
        return found

    def descendants(self, numbers: Iterable[int]) -> set[int]:
        """Return nodes and all that depends on them."""
        found = set(numbers)
        for number, behind in enumerate(self.before):
            if found.intersection(behind):
                found.add(number)
        return found

    @property
    def _nodes(self) -> Iterator[tuple[int, GraphNode]]:
        return enumerate(self.outline.nodes)

    def _constants(self, node: GraphNode) -> Iterator[str]:
        for name in node.reads:
            yield from self.roots.get(name, ())

    @staticmethod
    def _matches(root: str, prefixes: tuple[str, ...], whole: bool) -> bool:
        return root in prefixes if whole else root.startswith(prefixes)


def sections(outline: GraphOutline) -> list[str] | None:
    """Return the section of every node; None for a graph that edgeseg has not exported."""
    links = NodeLinks(outline)
    layers, kernels = links.reading(_OF_BACKBONE), links.reading(_OF_EMBEDDING)
    layers = {number for number in layers if not links.is_constant(number)}
    kernels = {number for number in kernels if not links.is_constant(number)}
    embedded = _last_embedding_node(links, links.reading(*_FORMS, whole=True))
    if not layers or not kernels or embedded is None:
        return None
    ahead = links.ancestors([embedded])
    found = dict.fromkeys(range(len(outline.nodes)), HEAD)
    found |= dict.fromkeys(ahead & links.descendants(kernels), EMBEDDING)
    found |= dict.fromkeys(_preprocessing(links, ahead, layers), PREPROCESSING)
    found |= dict.fromkeys(links.ancestors(layers) - _with(found, PREPROCESSING), BACKBONE)
    _place_between(links, found, ahead)
    found |= dict.fromkeys(_map_nodes(links, _with(found, HEAD)), MAP)
    for number in reversed(range(len(outline.nodes))):  # constants stand where they are read
        if links.is_constant(number):
            readers = (place for place, behind in enumerate(links.before) if number in behind)
            found[number] = found.get(next(readers, number), HEAD)
    return [found[number] for number in range(len(outline.nodes))]


def _with(found: dict[int, str], section: str) -> set[int]:
    return {number for number, name in found.items() if name == section}


def _last_embedding_node(links: NodeLinks, forms: set[int]) -> int | None:
    """Find the node whose result the mean is subtracted from, in front of the quadratic form."""
    for number in sorted(links.ancestors(forms), reverse=True):
        node = links.outline.nodes[number]
        if node.kind == "Sub":
            return links.maker.get(node.reads[0])
    return None


def _preprocessing(links: NodeLinks, ahead: set[int], layers: set[int]) -> set[int]:
    first = links.ancestors(layers) & ahead
    return {n for n in first - links.descendants(layers) if not links.is_constant(n)}


def _place_between(links: NodeLinks, found: dict[int, str], ahead: set[int]) -> None:
    """Place the nodes between the last layers and the projections, in the order of execution."""
    for number in sorted(ahead & _with(found, HEAD)):
        around = links.outline.nodes[number].kind in _AROUND
        behind = any(found[place] == EMBEDDING for place in links.before[number])
        found[number] = EMBEDDING if around or behind else BACKBONE


def _map_nodes(links: NodeLinks, head: set[int]) -> set[int]:
    """Find the nodes of the head that nothing but the map needs."""
    drawn = links.descendants(links.reading(_UPSAMPLING, whole=True))
    outputs = {tensor.name for tensor in links.outline.outputs}
    others = {
        links.maker[name] for name in outputs if name in links.maker and name != "map_grid"
    } - drawn
    return (head & drawn) | (head - links.ancestors(others) if others else set())
