"""The rooms of the source and what each may import, read off the source itself.

python -m tests.support.house [CHECKOUT]      figures of a tree: files, lines, imports
"""

import ast
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.support import REPO

PARTS = ("export", "runtime", "bench")

# From the good image to the verdict. A room imports itself, what stands in its own line, and all
# that those may import.
ROOMS: dict[str, tuple[str, ...]] = {
    "base": (),
    "vision": ("base",),
    "decision": ("vision",),
    "config": ("decision",),
    "modelfile": ("config",),
    "data.synthetic": ("vision",),
    "data": ("config", "data.synthetic"),
    "model": ("data", "modelfile"),
    "evaluation": ("model",),
    "runtime.events": ("modelfile",),
    "runtime.station": ("runtime.events",),
    "runtime.backends": ("modelfile",),
    "runtime.accelerators": ("runtime.backends",),
    "runtime.capture": ("runtime.events", "data.synthetic"),
    "runtime.scoring": ("runtime.backends", "runtime.capture"),
    "runtime.drift": ("runtime.events",),
    "runtime.sinks": ("runtime.scoring", "runtime.drift", "runtime.station"),
    "runtime.recipes": ("runtime.scoring", "runtime.drift", "runtime.station"),
    "runtime.web": ("runtime.sinks",),
    "runtime.triggers": ("runtime.capture", "runtime.station"),
    "runtime.adapters": ("runtime.web",),
    "runtime.settings": ("runtime.triggers", "runtime.adapters"),
    "runtime.run": ("runtime.settings", "runtime.recipes"),
    "runtime": ("runtime.scoring",),  # what programs on a device import: open
    "fitting": ("evaluation", "runtime.backends"),  # it fits through graphs too
    "export": ("fitting", "runtime.accelerators"),
    "api": ("export",),
    "teach": ("fitting", "runtime", "runtime.run"),
    "bench": ("api", "teach"),
    "cli": ("bench",),  # every command; nobody but the entry points imports it
}
# Rooms whose modules load on a device: numpy, OpenCV, click, and a backend when it is used.
DEVICE = {room for room in ROOMS if room.startswith("runtime")} | {
    "base",
    "vision",
    "decision",
    "modelfile",
    "config",
}
# And the commands that are made of nothing else.
DEVICE_COMMANDS = {
    f"edgeseg.cli.{name}"
    for name in (
        *("stream_command", "calibrate_command", "check_command", "recipe_commands"),
        *("cameras_command", "verify_log_command", "info_command"),
    )
}
# What else loads on a device that fits its own models: these rooms need safetensors beside numpy,
# but for the modules that hold the network itself.
TEACHING = {"data", "data.synthetic", "model", "evaluation", "fitting", "teach"}
WITH_TORCH = {
    "edgeseg.model.efficientnet_lite",
    "edgeseg.model.embedding",
    "edgeseg.model.feature_extractor",
    "edgeseg.model.reference",
    "edgeseg.model.weights",
    "edgeseg.fitting.parallel.torchrun",
}
# `edgeseg` itself looks names up when they are used, the command line finds commands by name, and
# `python runtime/stream.py` is one of them.
BY_NAME = {"edgeseg", "edgeseg.__main__", "edgeseg.cli.group", "edgeseg.runtime.stream"}


def allowed(room: str) -> set[str]:
    """The room and everything below it."""
    below = {room}
    for name in ROOMS[room]:
        below |= allowed(name)
    return below


def room_of(module: str) -> str:
    """The most special room that holds a module."""
    inside = module.removeprefix("edgeseg").removeprefix(".")
    parts = inside.split(".")
    for length in range(len(parts), 0, -1):
        name = ".".join(parts[:length])
        if name in ROOMS:
            return name
    return inside


def modules(repo: Path = REPO) -> dict[str, Path]:
    """Every module by the name it is imported by."""
    result = {}
    for part in ("edgeseg", *PARTS):
        package = "edgeseg" if part == "edgeseg" else f"edgeseg.{part}"
        for path in sorted((repo / part).rglob("*.py")):
            inside = path.relative_to(repo / part).with_suffix("").parts
            if part == "edgeseg" and inside[0] in PARTS:
                continue  # links to the parts that stand beside it
            names = inside[:-1] if inside[-1] == "__init__" else inside
            result[".".join((package, *names))] = path
    return result


def imported(path: Path, known: dict[str, Path], *, module_level: bool = False) -> Iterator[str]:
    """Modules that a file imports, in functions and by name in a string too.

    With `module_level`, only what is loaded together with it.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in _loaded_with(tree) if module_level else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import; expected an absolute one"
            module = node.module or ""
            for alias in node.names:
                full = f"{module}.{alias.name}"
                yield full if full in known else module
        elif not module_level and isinstance(node, ast.Constant) and isinstance(node.value, str):
            name = node.value.partition(":")[0]
            if name in known and "." in name:
                yield name


def _loaded_with(node: ast.AST) -> Iterator[ast.AST]:
    """Everything but the bodies of functions and what is there for the type checker alone."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            continue
        yield child
        yield from _loaded_with(child)


def top(module: str) -> str:
    """The package that a module belongs to."""
    return module.partition(".")[0]


def cycles(edges: dict[str, set[str]]) -> list[tuple[str, ...]]:
    """Groups of modules that import each other (Tarjan's strong components above one)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups: list[tuple[str, ...]] = []

    def visit(name: str) -> None:
        order[name] = low[name] = len(order)
        stack.append(name)
        for other in sorted(edges.get(name, ())):
            if other not in order:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], order[other])
        if low[name] == order[name]:
            at = stack.index(name)
            group = tuple(sorted(stack[at:]))
            del stack[at:]
            if len(group) > 1:
                groups.append(group)

    for name in sorted(edges):
        if name not in order:
            visit(name)
    return groups


def _print_figures(repo: Path) -> None:
    known = modules(repo)
    lines = {name: len(path.read_text().splitlines()) for name, path in known.items()}
    folders = Counter(path.parent.relative_to(repo) for path in known.values())
    rooms: dict[Path, int] = defaultdict(int)
    for name, path in known.items():
        rooms[path.parent.relative_to(repo)] += lines[name]
    for folder, count in sorted(folders.items()):
        print(f"{folder!s:<32}{count:>4} files{rooms[folder]:>7} lines")
    length = sorted(lines.values())
    p50, p90 = statistics.median(length), length[int(0.9 * len(length))]
    print(f"{len(length)} files, {sum(length)} lines; p50 {p50:g}, p90 {p90}, max {length[-1]}")
    for label, loaded in (("when loaded", True), ("lazy ones included", False)):
        edges = {
            name: {
                other
                for other in imported(path, known, module_level=loaded)
                if other in known and other != name
            }
            for name, path in known.items()
            if name not in BY_NAME
        }
        print(f"import cycles, {label}: {cycles(edges)}")


if __name__ == "__main__":
    _print_figures(Path(sys.argv[1]) if len(sys.argv) > 1 else REPO)
