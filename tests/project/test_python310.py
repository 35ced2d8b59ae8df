"""The oldest Python that the project allows: what a Jetson has compiles and imports everything."""

import ast
import json
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import click

from tests.support import HANGS_S, REPO
from tests.support.house import BY_NAME, DEVICE, modules, room_of

PROJECT = (REPO / "pyproject.toml").read_text(encoding="utf-8")
OLDEST = tuple(map(int, re.findall(r'requires-python = ">=(\d+)\.(\d+)"', PROJECT)[0]))
MODULES = modules()
# Those that load numpy, OpenCV and click at most: of the device, and of help.
LIGHT = {"config", "data", "data.synthetic", "cli"}

COMPILE = """
import sys
for path in sys.argv[1:]:
    compile(open(path, encoding="utf-8").read(), path, "exec")
"""
# numpy and OpenCV are built for one version of Python; where the interpreter has none of its own,
# something stands in for them: the language and its library are what is tested here.
IMPORT = """
import importlib, json, sys
from unittest.mock import MagicMock

sys.dont_write_bytecode = True
names, paths = json.loads(sys.argv[1])
sys.path[:0] = paths
for package, inside in (("numpy", "numpy.typing"), ("cv2", "cv2.data")):
    try:
        importlib.import_module(package)
    except ImportError:
        sys.modules |= {package: MagicMock(__path__=[]), inside: MagicMock()}
for name in names:
    importlib.import_module(name)
print(sys.version_info[:2], len(names))
"""


@cache
def oldest_interpreter() -> tuple[tuple[int, int], Path]:
    """The oldest one at hand that may run the project; at worst the one that runs the tests."""
    names = (shutil.which(f"python{OLDEST[0]}.{minor}") for minor in range(OLDEST[1], 20))
    installed = Path.home().glob(".pyenv/versions/*/bin/python")
    at_hand = {}
    for path in {sys.executable, *filter(None, names), *map(str, installed)}:
        question = [path, "-c", "import sys; print(*sys.version_info[:2])"]
        done = subprocess.run(question, capture_output=True, text=True, timeout=HANGS_S)
        if done.returncode == 0:
            major, minor = map(int, done.stdout.split())
            at_hand[major, minor] = Path(path)
    version = min(version for version in at_hand if version >= OLDEST)
    return version, at_hand[version]


def run(code: str, *arguments: str) -> str:
    _, interpreter = oldest_interpreter()
    done = subprocess.run(
        [interpreter, "-I", "-c", code, *arguments], capture_output=True, text=True, timeout=HANGS_S
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_the_syntax_is_that_of_the_oldest():
    for path in MODULES.values():  # an error names the file
        ast.parse(path.read_text(encoding="utf-8"), path, feature_version=OLDEST)


def test_the_oldest_compiles_everything():
    run(COMPILE, *map(str, MODULES.values()))


def test_the_oldest_imports_what_a_device_and_help_load(tmp_path):
    names = [name for name in MODULES if name not in BY_NAME and room_of(name) in DEVICE | LIGHT]
    assert {
        "edgeseg.base.options",
        "edgeseg.cli.stream_command",
        "edgeseg.cli.bench_commands",
    } <= set(names)
    # Pure Python, so this environment's will do.
    (tmp_path / "click").symlink_to(Path(click.__file__).parent)
    paths = [str(REPO), str(tmp_path)]
    version, _ = oldest_interpreter()
    assert run(IMPORT, json.dumps([names, paths])).split("\n")[0] == f"{version} {len(names)}"


def test_the_checkers_check_for_the_oldest():
    major, minor = OLDEST
    assert f'python_version = "{major}.{minor}"' in PROJECT
    assert f'target-version = "py{major}{minor}"' in PROJECT
