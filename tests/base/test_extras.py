"""Extras and versions: what the package's own metadata says."""

import re
import sys
from collections.abc import Iterator
from importlib import metadata

import pytest

from edgeseg import __version__
from edgeseg.base import extras
from edgeseg.base.extras import extra_of, install_command, version_of, versions
from tests.support import REPO


@pytest.fixture(autouse=True)
def read_anew() -> Iterator[None]:
    extras.extras.cache_clear()
    yield
    extras.extras.cache_clear()


def test_the_extras_are_those_of_the_project():
    text = (REPO / "pyproject.toml").read_text(encoding="utf-8")
    table = text.split("[project.optional-dependencies]")[1].split("[project.scripts]")[0]
    assert set(extras.extras()) == {"", *re.findall(r"^([\w-]+) = \[", table, re.MULTILINE)}
    older = {"tomli"} if sys.version_info < (3, 11) else set()
    assert set(extras.extras()[""]) == {"click", "numpy", "opencv-python-headless", *older}
    assert "torch" in extras.extras()["fit"]


@pytest.mark.parametrize(
    ("module", "extra", "command"),
    [
        ("torch", "fit", "pip install 'edgeseg[fit]'"),
        ("matplotlib.pyplot", "fit", "pip install 'edgeseg[fit]'"),
        ("onnxruntime", "cpu", "pip install 'edgeseg[cpu]'"),  # in `fit`, too: the smallest one
        ("openvino", "openvino", "pip install 'edgeseg[openvino]'"),
        ("tensorrt_rtx", "trt-rtx", "pip install 'edgeseg[trt-rtx]'"),
        ("cuda.bindings", "trt", "pip install 'edgeseg[trt]'"),
        ("prometheus_client", "web", "pip install 'edgeseg[web]'"),
        ("cv2", "", "pip install edgeseg"),
        ("edgeseg.laod", None, None),
        ("antigravity", None, None),
    ],
)
def test_what_brings_a_module(module, extra, command):
    assert extra_of(module) == extra
    assert install_command(module) == command


@pytest.mark.parametrize(
    "line", ["torch>=2.6; extra == 'fit'", 'torch>=2.6 ; python_version > "3.9" and extra=="fit"']
)
def test_lines_as_tools_write_them(monkeypatch, line):
    """With either quote and any blanks: wheels and checkouts differ."""
    monkeypatch.setattr(metadata, "requires", lambda name: [line, "edgeseg[fit]; extra == 'dev'"])
    assert extras.extras() == {"fit": ("torch",)}


def test_packages_for_older_pythons_are_not_needed_here(monkeypatch):
    lines = ["later; python_version < '9.9'", "older ; python_version<\"3.9\" and extra == 'x'"]
    monkeypatch.setattr(metadata, "requires", lambda name: lines)
    assert extras.extras() == {"": ("later",)}


def test_an_edgeseg_that_was_never_installed(monkeypatch):
    def absent(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", absent)
    assert extras.extras() == {}
    assert extra_of("torch") is None
    assert install_command("torch") == "pip install torch"
    assert install_command("cv2") == "pip install opencv-python-headless"
    assert install_command("edgeseg.laod") is None


def test_versions_of_what_is_there():
    assert version_of("edgeseg") == __version__
    assert version_of("antigravity-of-nobody") is None
    assert versions(("edgeseg", "antigravity-of-nobody")) == {"edgeseg": __version__}
