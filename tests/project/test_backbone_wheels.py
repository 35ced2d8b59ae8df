"""Wheels of backbones' graphs: the same bytes each time, installed, and found."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from edgeseg import __version__
from edgeseg.fitting.graph.known_graphs import FOLDER, graph_for
from tests.support import HANGS_S, REPO
from tests.support.backbone_graphs import graph_path
from tests.support.export_models import SHORT


@pytest.fixture(scope="module")
def release() -> ModuleType:
    spec = importlib.util.spec_from_file_location("backbones", REPO / "release/backbones.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_wheel_is_built_installed_and_found(
    release: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (
        release.build_wheel(graph_path(), tmp_path / name, epoch=1_700_000_000) for name in "ab"
    )
    assert first.read_bytes() == second.read_bytes()
    assert first.name == f"edgeseg_resnet18-{__version__}-py3-none-any.whl"
    sums = tmp_path / "SHA256SUMS"
    sums.write_text("0  other.whl\n")
    for _ in range(2):
        release.add_sums([first], sums)
    assert [line.split("  ")[1] for line in sums.read_text().splitlines()] == [
        *("other.whl", first.name)
    ]
    site = tmp_path / "site"
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--target", site)
    done = subprocess.run(
        [*map(str, pip), str(first)], capture_output=True, text=True, timeout=HANGS_S
    )
    assert done.returncode == 0, done.stderr
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(site)
    importlib.invalidate_caches()
    found = graph_for(SHORT)
    assert found == site / FOLDER / "resnet18.onnx"
    assert found.read_bytes() == graph_path().read_bytes()
