"""The wheel holds the tree, whole, under one name."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from edgeseg import __version__
from edgeseg.cli.group import COMMANDS
from tests.support import HANGS_S, REPO
from tests.support.documents import blocks, text_of

PARTS = ("export", "runtime", "bench")
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "edgeseg", *PARTS)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, with the build backend itself: no network, no traces in the checkout."""
    copy = tmp_path_factory.mktemp("checkout")
    for name in SOURCES:
        if (REPO / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(REPO / name, copy / name, symlinks=True, ignore=ignored)
        else:
            shutil.copy(REPO / name, copy / name)
    done = subprocess.run(
        [sys.executable, "-c", "import setuptools.build_meta as b; b.build_wheel('dist')"],
        cwd=copy,
        capture_output=True,
        text=True,
        timeout=HANGS_S,
    )
    assert done.returncode == 0, done.stderr
    (built,) = (copy / "dist").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as pip would fill it."""
    folder = tmp_path_factory.mktemp("site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def python(code: str, *, installed: Path, arguments: tuple[str, ...] = ()) -> str:
    """Run code that finds the wheel's edgeseg and not the checkout's."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=installed.parent,
        env=os.environ | {"PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        timeout=HANGS_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def tree() -> set[str]:
    """Every file of the checkout, by the place where it should be installed."""
    found = set()
    for part in ("edgeseg", *PARTS):
        for folder, folders, names in os.walk(REPO / part):  # does not follow the links
            # What only a reader of the checkout needs is not installed.
            left_out = ("__pycache__", "results")
            folders[:] = [name for name in folders if name not in left_out]
            for name in names:
                if name.endswith((".md", ".sh")):
                    continue
                place = (Path(folder) / name).relative_to(REPO).as_posix()
                found.add(place if part == "edgeseg" else f"edgeseg/{place}")
    return found


def test_wheel_is_the_tree(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    missing, extra = tree() - names, names - tree()
    assert not missing, "in the checkout, and not in the wheel: see pyproject.toml"
    assert not extra, "in the wheel, and not in the checkout"
    assert "edgeseg/py.typed" in names
    assert "edgeseg/runtime/web/live/page.html" in names


def test_one_top_level_name(installed):
    (info,) = installed.glob("*.dist-info")
    assert (info / "top_level.txt").read_text() == "edgeseg\n"
    assert sorted(path.name for path in installed.iterdir()) == ["edgeseg", info.name]
    assert info.name == f"edgeseg-{__version__}.dist-info"


def test_metadata(installed):
    (info,) = installed.glob("*.dist-info")
    text = (info / "METADATA").read_text()
    assert "License-Expression: Apache-2.0" in text
    assert "Requires-Python: >=3.10" in text
    # On the device: these three, a reader of TOML for Python 3.10, and one backend.
    required = [line for line in text.splitlines() if line.startswith("Requires-Dist: ")]
    plain = {line.split()[1].split(">")[0] for line in required if "extra ==" not in line}
    assert plain == {"click", "numpy", "opencv-python-headless", "tomli"}
    assert [line for line in required if "tomli" in line and '< "3.11"' not in line] == []
    assert "edgeseg = edgeseg.cli:main" in (info / "entry_points.txt").read_text()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_in_the_wheel(installed, name):
    path = installed / (COMMANDS[name].replace(".", "/") + ".py")
    assert path.is_file(), f"`edgeseg {name}` has no {COMMANDS[name]}"


def test_the_wheel_runs(installed):
    code = "import edgeseg.runtime.stream as s, edgeseg.cli; print(s.__file__); edgeseg.cli.main()"
    found, *text = python(code, installed=installed, arguments=("--help",)).splitlines()
    assert Path(found).is_relative_to(installed)
    assert text[0].startswith("Usage: edgeseg ")


def test_general_names_are_not_taken(installed):
    code = (
        "import importlib.util as u; "
        "print([name for name in ('export', 'runtime', 'bench') if u.find_spec(name)])"
    )
    assert python(code, installed=installed) == "[]\n"


# Libraries whose types nothing here depends on: to read them takes most of the time.
_MYPY = """
[mypy]
strict = True
[mypy-torch.*,torchvision.*,onnx.*,onnxscript.*,matplotlib.*,safetensors.*]
follow_imports = skip
follow_imports_for_stubs = True
"""
_MISUSE = """
import edgeseg
model = edgeseg.load("part.edgeseg")
model.predict("a.png").verdikt
model.predict(["a.png"]).verdict
edgeseg.fit("good", backbon="resnet18")
detector: edgeseg.runtime.Detector = edgeseg.runtime.open("part.onnx")
results: list[edgeseg.JudgedPrediction] = detector.predict(["a.png"])
regions: tuple[edgeseg.Region, ...] = results[0].regions
"""


def test_programs_of_others_type_check_with_what_is_installed(installed, tmp_path):
    """Strictly, in an environment that has the wheel and not the checkout."""
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=False)
    (site,) = environment.glob("lib/python*/site-packages")
    shutil.copytree(installed, site, dirs_exist_ok=True)
    # edgeseg is found in the environment first, everything else here.
    (site / "others.pth").write_text(sysconfig.get_path("purelib"))
    (tmp_path / "mypy.ini").write_text(_MYPY)
    example, misuse = tmp_path / "example.py", tmp_path / "misuse.py"
    (code,) = [
        content for language, content in blocks(text_of("README.md")) if language == "python"
    ]
    example.write_text(code)
    misuse.write_text(_MISUSE)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--config-file", "mypy.ini"),
            *("--python-executable", str(environment / "bin/python"), example.name, misuse.name),
        ],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name != "MYPYPATH"},
        capture_output=True,
        text=True,
        timeout=HANGS_S,
    )
    found = re.findall(r"^(\w+\.py:\d+): error: .*\[([\w-]+)\]$", done.stdout, re.M)
    assert found == [
        ("misuse.py:4", "attr-defined"),
        ("misuse.py:5", "attr-defined"),
        ("misuse.py:6", "call-arg"),
    ], done.stdout


@pytest.mark.parametrize("part", PARTS)
def test_the_checkout_looks_like_the_wheel(part):
    """Relative links, so that a clone works wherever it lies."""
    link = REPO / "edgeseg" / part
    assert link.is_symlink()
    assert link.readlink().as_posix() == f"../{part}"


def test_scripts_of_the_top_level_run_as_files(tmp_path):
    """`python runtime/stream.py` from another folder: runtime/ comes first on the path."""
    done = subprocess.run(
        [sys.executable, str(REPO / "runtime" / "stream.py"), "--help"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=HANGS_S,
    )
    assert done.returncode == 0, done.stderr
    assert "--source" in done.stdout
