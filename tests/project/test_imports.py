"""Imports go one way, room by room: tests/support/house.py says which, and this holds it."""

import importlib.metadata
import subprocess
import sys
from functools import cache

import pytest

from tests.support import HANGS_S
from tests.support.house import (
    BY_NAME,
    DEVICE,
    DEVICE_COMMANDS,
    PARTS,
    ROOMS,
    TEACHING,
    WITH_TORCH,
    allowed,
    cycles,
    imported,
    modules,
    room_of,
    top,
)

MODULES = modules()
LIGHT_PACKAGES = {"numpy", "cv2", "click"}
# What the device has: one of the backends, and never torch or onnx.
BACKENDS = {"onnxruntime", "tensorrt", "tensorrt_rtx", "cuda", "openvino", "prometheus_client"}
# And what adapters and signatures need, where they were installed for.
ADAPTERS = {"paho", "asyncua", "tomli", "cryptography"}
# Rooms that the command line needs before it knows what it is asked to do.
LIGHT_ROOMS = DEVICE | {"config", "data", "data.synthetic", "cli"}


def inside(rooms: set[str] | None = None) -> list[str]:
    """Modules of these rooms, or of all."""
    return [
        name
        for name in MODULES
        if name not in BY_NAME and (rooms is None or room_of(name) in rooms)
    ]


def is_standard(module: str) -> bool:
    return top(module) in sys.stdlib_module_names


def test_every_room_is_there():
    assert {room_of(name) for name in MODULES if name not in BY_NAME} == set(ROOMS)


def test_rooms_import_what_stands_below_them():
    """Lazy imports and names of modules in strings count like any other."""
    against_the_rule = [
        f"{name} imports {module}: see tests/support/house.py"
        for name in inside()
        for module in imported(MODULES[name], MODULES)
        if module in MODULES
        and module != "edgeseg"
        and room_of(module) not in allowed(room_of(name))
    ]
    assert against_the_rule == []


def test_no_module_imports_itself_through_others():
    edges = {
        name: {module for module in imported(path, MODULES) if module in MODULES}
        for name, path in MODULES.items()
        if name not in BY_NAME
    }
    assert cycles(edges) == []


def test_the_core_and_the_parts_are_not_mentioned_by_those_below():
    """Nobody imports bench but its commands."""
    for name, path in MODULES.items():
        if name in BY_NAME or room_of(name) in ("bench", "cli"):
            continue
        assert not {m for m in imported(path, MODULES) if m.startswith("edgeseg.bench")}, name


def test_a_device_has_what_its_rooms_import():
    at_hand = LIGHT_PACKAGES | BACKENDS | ADAPTERS | {"edgeseg"}
    missing = [
        f"{name} imports {module}, which a device need not have"
        for name in (*inside(DEVICE), *DEVICE_COMMANDS)
        for module in imported(MODULES[name], MODULES)
        if not is_standard(module) and top(module) not in at_hand
    ]
    assert missing == []


def test_commands_of_a_device_are_made_of_its_rooms():
    used = {
        module
        for name in DEVICE_COMMANDS
        for module in imported(MODULES[name], MODULES)
        if module in MODULES and room_of(module) not in DEVICE
    }
    assert used == set()


@cache
def loaded_with(name: str) -> frozenset[str]:
    """All modules, ours and others', that importing one of ours loads."""
    found = {name}
    for module in imported(MODULES[name], MODULES, module_level=True):
        if module not in found:
            found |= loaded_with(module) if module in MODULES else {module}
    return frozenset(found)


def heavy(names: list[str], light: set[str]) -> list[tuple[str, str]]:
    """Modules of ours, each with a package that it loads and that is not light."""
    return [
        (name, package)
        for name in names
        for package in {top(module) for module in loaded_with(name) if not is_standard(module)}
        if package not in light
    ]


def test_light_rooms_load_nothing_heavy():
    """One backend is installed; a module that loads another with itself would break them all."""
    assert heavy(inside(LIGHT_ROOMS), LIGHT_PACKAGES | {"edgeseg"}) == []


@pytest.mark.parametrize("part", PARTS)
def test_names_shadow_nothing(part):
    """`python runtime/stream.py` puts runtime/ first on the path: queue.py there would be taken."""
    installed = set(importlib.metadata.packages_distributions()) - {"edgeseg", *PARTS}
    known = {"onnx", "tensorrt", "torch", "triton", "cuda", "openvino", "anomalib"}
    taken = set(sys.stdlib_module_names) | installed | known
    own = {name.split(".")[2] for name in MODULES if name.startswith(f"edgeseg.{part}.")}
    assert not own & taken


def test_loading_all_of_a_device_loads_no_torch_and_no_onnx():
    names = ", ".join(name for name in MODULES if room_of(name) in DEVICE and name not in BY_NAME)
    code = f"import sys, {names}; print(*({{'torch', 'onnx', 'safetensors'}} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=HANGS_S
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "\n", "")


TAUGHT = [name for name in MODULES if room_of(name) in TEACHING and name not in WITH_TORCH]


def test_a_device_that_fits_its_own_models_loads_no_torch():
    assert heavy(TAUGHT, LIGHT_PACKAGES | {"edgeseg", "safetensors"}) == []


def test_all_of_a_fit_loads_where_torch_is_not_installed():
    blocked = "{name: None for name in ('torch', 'torchvision', 'onnx', 'scipy')}"
    code = f"import sys; sys.modules.update({blocked}); import {', '.join(TAUGHT)}"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=HANGS_S
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("text", "everywhere", "when_loaded"),
    [
        ("import torch.nn as nn, os", {"torch.nn", "os"}, {"torch.nn", "os"}),
        ("from edgeseg.base import files", {"edgeseg.base.files"}, {"edgeseg.base.files"}),
        ("from edgeseg import __version__", {"edgeseg"}, {"edgeseg"}),
        ("from edgeseg.config import FitConfig", {"edgeseg.config"}, {"edgeseg.config"}),
        ("def f():\n    import torch", {"torch"}, set()),
        ("class A:\n import cv2\n def f(self):\n  import onnx", {"cv2", "onnx"}, {"cv2"}),
        ("try:\n    import torch\nexcept ImportError:\n    pass", {"torch"}, {"torch"}),
        ("if TYPE_CHECKING:\n    import torch\nimport os", {"torch", "os"}, {"os"}),
        ("load('edgeseg.base.files:size_text', 'edgeseg.nothing')", {"edgeseg.base.files"}, set()),
    ],
)  # fmt: skip
def test_the_reader_of_imports(tmp_path, text, everywhere, when_loaded):
    path = tmp_path / "module.py"
    path.write_text(text)
    assert set(imported(path, MODULES)) == everywhere
    assert set(imported(path, MODULES, module_level=True)) == when_loaded


def test_the_finder_of_cycles():
    assert cycles({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [("a", "b", "c")]
