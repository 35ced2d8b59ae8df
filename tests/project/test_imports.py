"""Imports go one way: a table of what each part may import, held against the source."""

import ast
import importlib.metadata
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import REPO

PARTS = ("export", "runtime", "bench")

# Modules of the core that import nothing heavy: the runtime and the command line build on them.
LIGHT = {
    "edgeseg",
    "edgeseg.errors",
    "edgeseg.files",
    "edgeseg.contract.prediction",
    "edgeseg.contract.metadata",
    "edgeseg.config",
    "edgeseg.progress",
    "edgeseg.contract.tiles",
    "edgeseg.contract.images",
    "edgeseg.data.samples",
    "edgeseg.data.layouts",
    "edgeseg.data.mstc",
    "edgeseg.data.datasets",
    "edgeseg.evaluation.metrics",
    "edgeseg.evaluation.pro",
    "edgeseg.evaluation.ranks",
    "edgeseg.evaluation.truth",
    "edgeseg.evaluation.panels",
    "edgeseg.data.synthetic.scene",
    "edgeseg.data.synthetic.part",
    "edgeseg.data.synthetic.defects",
    "edgeseg.artefact.header",
    "edgeseg.cli.completion",
    "edgeseg.cli.group",
    "edgeseg.cli.fit_command",
    "edgeseg.cli.model_commands",
    "edgeseg.cli.grow_commands",
    "edgeseg.cli.settings",
}
LIGHT_PACKAGES = {"numpy", "cv2", "click"}
# What the device has: one of the backends, and never torch or onnx.
BACKENDS = {"onnxruntime", "tensorrt", "tensorrt_rtx", "cuda", "openvino", "prometheus_client"}
OF_THE_CORE_FOR_RUNTIME = {
    "edgeseg",
    "edgeseg.errors",
    "edgeseg.files",
    "edgeseg.data.synthetic.scene",
    "edgeseg.contract.metadata",
    "edgeseg.contract.prediction",
    "edgeseg.contract.tiles",
}


def sources(part: str) -> dict[str, Path]:
    """Modules of a part by their installed name."""
    folder = REPO / part
    package = "edgeseg" if part == "edgeseg" else f"edgeseg.{part}"
    found = {}
    for path in sorted(folder.rglob("*.py")):
        inside = path.relative_to(folder).with_suffix("").parts
        if part == "edgeseg" and inside[0] in PARTS:
            continue  # links to the parts that stand beside it
        names = inside[:-1] if inside[-1] == "__init__" else inside
        found[".".join((package, *names))] = path
    return found


def imported(path: Path, *, module_level: bool = False) -> Iterator[str]:
    """Names of modules that a file imports; with `module_level`, only when it is loaded itself."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in _loaded_with(tree) if module_level else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import; expected an absolute one"
            yield from _modules_named(node)


def _loaded_with(node: ast.AST) -> Iterator[ast.AST]:
    """Everything but the bodies of functions and what is there for the type checker alone."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            continue
        yield child
        yield from _loaded_with(child)


def _modules_named(node: ast.ImportFrom) -> Iterator[str]:
    """`from edgeseg import fitting` means the module edgeseg.fitting.fitting."""
    module = node.module or ""
    for alias in node.names:
        full = f"{module}.{alias.name}"
        yield full if full in ALL_MODULES else module


ALL_MODULES = {name for part in ("edgeseg", *PARTS) for name in sources(part)}


def top(module: str) -> str:
    return module.split(".")[0]


def part_of(module: str) -> str | None:
    """The part that a module belongs to, None for another package."""
    if top(module) != "edgeseg":
        return None
    second = [*module.split("."), ""][1]
    return second if second in PARTS else "edgeseg"


def is_standard(module: str) -> bool:
    return top(module) in sys.stdlib_module_names


def table(part: str) -> list[pytest.param]:
    return [pytest.param(path, id=name) for name, path in sources(part).items()]


def test_every_part_is_there():
    for part in ("edgeseg", *PARTS):
        assert sources(part)
    assert set(sources("edgeseg")) >= LIGHT
    assert OF_THE_CORE_FOR_RUNTIME <= LIGHT


@pytest.mark.parametrize("path", table("edgeseg"))
def test_the_core_imports_nothing_of_the_parts(path):
    assert not {name for name in imported(path) if part_of(name) in PARTS}


@pytest.mark.parametrize("name", sorted(LIGHT))
def test_light_modules_stay_light(name):
    for module in imported(sources("edgeseg")[name], module_level=True):
        light = is_standard(module) or module in LIGHT or top(module) in LIGHT_PACKAGES
        assert light, f"{name} imports {module} when it is loaded; expected a light module"


@pytest.mark.parametrize("path", table("runtime"))
def test_runtime_imports_what_the_device_has(path):
    for module in imported(path):
        allowed = (
            is_standard(module)
            or top(module) in LIGHT_PACKAGES | BACKENDS
            or module in OF_THE_CORE_FOR_RUNTIME
            or part_of(module) == "runtime"
        )
        assert allowed, f"{path.name} imports {module}, which the device need not have"


@pytest.mark.parametrize("path", table("runtime"))
def test_backends_are_imported_when_they_are_used(path):
    """One of them is installed; a module that imports another when it is loaded would break all."""
    assert not {top(name) for name in imported(path, module_level=True)} & BACKENDS


@pytest.mark.parametrize("path", table("export"))
def test_export_imports_the_core_alone(path):
    assert not {name for name in imported(path) if part_of(name) in {"runtime", "bench"}}


@pytest.mark.parametrize("part", PARTS)
def test_names_shadow_nothing(part):
    """`python runtime/stream.py` puts runtime/ first on the path: queue.py there would be taken."""
    installed = set(importlib.metadata.packages_distributions()) - {"edgeseg", *PARTS}
    known = {"onnx", "tensorrt", "torch", "triton", "cuda", "openvino", "anomalib"}
    taken = set(sys.stdlib_module_names) | installed | known
    assert not {path.stem for path in sources(part).values()} & taken - {"__init__"}


def test_loading_all_of_runtime_loads_no_torch_and_no_onnx():
    modules = ", ".join(sources("runtime"))
    code = f"import sys, {modules}; print(*({{'torch', 'onnx', 'safetensors'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "\n", "")


@pytest.mark.parametrize(
    ("text", "everywhere", "when_loaded"),
    [
        ("import torch.nn as nn, os", {"torch.nn", "os"}, {"torch.nn", "os"}),
        ("from edgeseg import files", {"edgeseg.files"}, {"edgeseg.files"}),
        ("from edgeseg import __version__", {"edgeseg"}, {"edgeseg"}),
        ("from edgeseg.files import size_text", {"edgeseg.files"}, {"edgeseg.files"}),
        ("def f():\n    import torch", {"torch"}, set()),
        ("class A:\n import cv2\n def f(self):\n  import onnx", {"cv2", "onnx"}, {"cv2"}),
        ("try:\n    import torch\nexcept ImportError:\n    pass", {"torch"}, {"torch"}),
        ("if TYPE_CHECKING:\n    import torch\nimport os", {"torch", "os"}, {"os"}),
    ],
)  # fmt: skip
def test_the_reader_of_imports(tmp_path, text, everywhere, when_loaded):
    path = tmp_path / "module.py"
    path.write_text(text)
    assert set(imported(path)) == everywhere
    assert set(imported(path, module_level=True)) == when_loaded
