"""Inside bench, too, imports go one way."""

import pytest

from tests.support.house import imported, modules

MODULES = modules()
# Each imports only those before it.
ROOMS = ("harness", "latency", "compare", "fit_cost", "paper", "demo", "choices", "results")
BENCH = [name for name in MODULES if name.startswith("edgeseg.bench.")]


def room_of(name: str) -> str:
    return name.split(".")[2]


def test_every_room_is_named() -> None:
    assert {room_of(name) for name in BENCH} == set(ROOMS)


@pytest.mark.parametrize("name", BENCH)
def test_rooms_import_those_before_them(name: str) -> None:
    """Lazy imports and names of modules in strings count like any other."""
    before = ROOMS[: ROOMS.index(room_of(name)) + 1]
    for module in imported(MODULES[name], MODULES):
        if module.startswith("edgeseg.bench.") and module in MODULES:
            assert room_of(module) in before, f"{name} imports {module}"
