"""Where a graph is cut: against brute force on graphs made by chance, and on exported ones."""

from itertools import combinations

import numpy as np
import pytest

from edgeseg.runtime.accelerators.cuts import crossing_tensors, cut_for, largest_prefix
from edgeseg.runtime.accelerators.sections import NodeLinks, sections
from edgeseg.runtime.accelerators.tables import Accelerator
from edgeseg.runtime.backends.onnx_outline import GraphNode, GraphOutline, GraphTensor


def tensor(name: str) -> GraphTensor:
    return GraphTensor(name=name, kind="float", sides=(1, 2))


def node(kind: str, reads: str, gives: str, *, domain: str = "ai.onnx") -> GraphNode:
    return GraphNode(
        name=gives,
        kind=kind,
        domain=domain,
        reads=tuple(reads.split()),
        gives=tuple(gives.split()),
    )


def outline(*nodes: GraphNode, constants: str = "", outputs: str = "") -> GraphOutline:
    last = outputs or nodes[-1].gives[0]
    return GraphOutline(
        nodes=nodes,
        inputs=(tensor("x"),),
        outputs=tuple(map(tensor, last.split())),
        between=tuple(tensor(name) for each in nodes for name in each.gives),
        constants=tuple(map(tensor, constants.split())),
        opsets={"ai.onnx": 18},
    )


def accelerator(takes: str, *, rounds: bool = True, **settings: object) -> Accelerator:
    values: dict[str, object] = {
        "key": "one",
        "name": "One",
        "tool": "tool",
        "documents": (),
        "takes": tuple(takes.split()),
        "refuses": (),
        "complete": True,
        "opsets": None,
        "static": None,
        "numbers": "int8" if rounds else "fp32",
        "conditions": {},
        "remark": "",
    }
    return Accelerator(**(values | settings))  # type: ignore[arg-type]


def by_chance(random: np.random.Generator) -> GraphOutline:
    """A graph in which each operator reads the input, a constant or some of those before it."""
    nodes: list[GraphNode] = []
    for number in range(int(random.integers(1, 9))):
        known = ["x", "w", *(f"t{place}" for place in range(number))]
        reads = random.choice(known, size=int(random.integers(1, 3)))
        nodes.append(node(str(random.choice(["Conv", "TopK"])), " ".join(reads), f"t{number}"))
    return outline(*nodes, constants="w", outputs="t0")


def brute_force(links: NodeLinks, taken: list[bool]) -> set[int]:
    """The largest set of taken nodes that holds everything its nodes depend on."""
    numbers = range(len(taken))
    for size in range(len(taken), 0, -1):
        for chosen in map(set, combinations(numbers, size)):
            if all(taken[n] and chosen.issuperset(links.before[n]) for n in chosen):
                return chosen
    return set()


@pytest.mark.parametrize("seed", range(60))
def test_the_largest_beginning_is_that_of_brute_force(seed: int) -> None:
    random = np.random.default_rng(seed)
    graph = by_chance(random)
    links = NodeLinks(graph)
    taken = [bool(random.random() < 0.7) for _ in graph.nodes]
    found = largest_prefix(links, taken, given=())
    assert found == brute_force(links, taken)
    crossing = set(crossing_tensors(links, found))
    for number, each in enumerate(graph.nodes):
        (name,) = each.gives
        outside = any(
            name in other.reads for place, other in enumerate(graph.nodes) if place not in found
        )
        depends = name not in links.roots
        assert (name in crossing) == (number in found and depends and (outside or name == "t0"))


def test_branches_are_cut_each_where_they_have_to_be() -> None:
    graph = outline(
        node("Conv", "x w", "a"),
        node("Relu", "a", "b"),
        node("TopK", "a", "c"),
        node("Conv", "c w", "d"),  # taken, but behind what is not
        node("Conv", "b w", "e"),
        node("Add", "d e", "f"),
        constants="w",
    )
    cut = cut_for(accelerator("Conv Relu Add"), graph, None)
    assert (cut.there, cut.operators) == (3, 6)
    assert (cut.convolutions_there, cut.convolutions) == (2, 3)
    assert cut.crossing == ("a", "e")
    assert (cut.values, cut.bytes) == (4, 4), "an accelerator that rounds gives bytes"
    assert (cut.stops, cut.refused, cut.unknown) == (("TopK",), {"TopK": 1}, {})
    assert not cut.whole
    exact = cut_for(accelerator("Conv Relu Add", rounds=False), graph, None)
    assert exact.bytes == 16


def test_what_is_not_listed_is_unknown_unless_the_list_is_complete() -> None:
    graph = outline(node("Conv", "x w", "a"), node("Celu", "a", "b"), constants="w")
    open_list = accelerator("Conv", complete=False)
    assert cut_for(open_list, graph, None).unknown == {"Celu": 1}
    assert cut_for(open_list, graph, None).there == 1, "it is not taken on a guess"
    assert cut_for(accelerator("Conv"), graph, None).refused == {"Celu": 1}
    named = accelerator("Conv", complete=False, refuses=("Celu",))
    assert cut_for(named, graph, None).refused == {"Celu": 1}


def test_an_operator_of_another_domain_is_another_one() -> None:
    graph = outline(node("Conv", "x w", "a", domain="com.example"), constants="w")
    assert cut_for(accelerator("Conv"), graph, None).there == 0


def test_nothing_and_all_of_it() -> None:
    graph = outline(node("Conv", "x w", "a"), node("TopK", "a", "b"), constants="w")
    nothing = cut_for(accelerator("Relu"), graph, None)
    assert (nothing.there, nothing.crossing, nothing.bytes) == (0, (), 0)
    whole = cut_for(accelerator("Conv TopK", rounds=False), graph, None)
    assert whole.whole
    assert whole.crossing == ("b",)


def test_a_foreign_graph_has_no_sections() -> None:
    assert sections(outline(node("Conv", "x w", "a"), constants="w")) is None
