"""What the programs of docs/languages.md need, from where it is or, if asked, from its registry.

A package that was fetched stays in a folder of the user's cache: the next run takes seconds.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support import HANGS_S, REPO

INSTALL = "EDGESEG_TEST_LANGUAGES"  # set: tests may fetch hundreds of megabytes
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "edgeseg-tests"
NODE_PACKAGE = "onnxruntime-node@1"
HEADERS_PACKAGE = "libonnxruntime-dev"
HEADER = "onnxruntime_cxx_api.h"
ASSEMBLY = "Microsoft.ML.OnnxRuntime.dll"


def node_modules() -> Path:
    """The folder in which node finds onnxruntime-node; skips where there is none."""
    if shutil.which("node") is None:
        pytest.skip("needs node")
    given = os.environ.get("EDGESEG_NODE_MODULES")
    for folder in (Path(given),) if given else (REPO / "node_modules", CACHE / "node_modules"):
        if (folder / "onnxruntime-node" / "package.json").is_file():
            return folder
    if not os.environ.get(INSTALL) or shutil.which("npm") is None:
        pytest.skip(
            "needs onnxruntime-node: EDGESEG_NODE_MODULES names the folder that holds it, or "
            f"{INSTALL}=1 lets npm fetch it once (300 MB on the disk)"
        )
    CACHE.mkdir(parents=True, exist_ok=True)
    # Without scripts: they would fetch CUDA too.
    options = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-save", "--fetch-retries=1"]
    _fetch(["npm", "install", *options, "--prefix", str(CACHE), NODE_PACKAGE])
    return CACHE / "node_modules"


def runtime_headers() -> Path:
    """The folder of ONNX Runtime's C++ headers; no wheel has them. Skips where there are none."""
    given = os.environ.get("EDGESEG_ONNXRUNTIME_INCLUDE")
    unpacked = CACHE / HEADERS_PACKAGE
    places = (Path("/usr/include/onnxruntime"), unpacked / "usr" / "include" / "onnxruntime")
    for folder in (Path(given),) if given else places:
        if (folder / HEADER).is_file():
            return folder
    if not os.environ.get(INSTALL) or shutil.which("apt-get") is None:
        pytest.skip(
            "needs ONNX Runtime's headers: EDGESEG_ONNXRUNTIME_INCLUDE names their folder, or "
            f"{INSTALL}=1 lets apt-get fetch {HEADERS_PACKAGE} once"
        )
    CACHE.mkdir(parents=True, exist_ok=True)
    options = _lists_of_debian_13()
    _fetch(["apt-get", *options, "update"])
    _fetch(["apt-get", *options, "download", HEADERS_PACKAGE])
    shutil.rmtree(CACHE / "apt")
    (package,) = CACHE.glob(f"{HEADERS_PACKAGE}_*.deb")
    subprocess.run(["dpkg-deb", "-x", package, unpacked], check=True)
    package.unlink()
    (header,) = unpacked.rglob(HEADER)
    return header.parent


def _lists_of_debian_13() -> list[str]:
    """Options by which apt-get asks this computer's mirror for a newer Debian; nothing else does.

    Debian 12 does not have the headers, and they depend on nothing.
    """
    lists = CACHE / "apt"
    (lists / "partial").mkdir(parents=True, exist_ok=True)
    own = Path("/etc/apt/sources.list.d/debian.sources")
    own = own if own.is_file() else Path("/etc/apt/sources.list")
    newer = CACHE / f"newer{own.suffix}"
    newer.write_text(own.read_text().replace("bookworm", "trixie"))
    places = {"SourceList": newer, "SourceParts": "/dev/null"}
    return [
        *(f"-oDir::Etc::{name}={place}" for name, place in places.items()),
        f"-oDir::State::Lists={lists}",
    ]


def managed_api() -> Path:
    """ONNX Runtime's assembly for .NET, as NuGet leaves it; skips where there is none."""
    given = os.environ.get("EDGESEG_ONNXRUNTIME_DOTNET")
    cached = Path.home() / ".nuget" / "packages" / "microsoft.ml.onnxruntime.managed"
    found = sorted(
        Path(given).rglob(ASSEMBLY) if given else cached.rglob(f"netstandard*/{ASSEMBLY}")
    )
    if not found:
        pytest.skip(
            f"needs {ASSEMBLY}: EDGESEG_ONNXRUNTIME_DOTNET names its folder, or "
            "`dotnet add package Microsoft.ML.OnnxRuntime` in any project fetches it"
        )
    return found[-1]


def _fetch(command: list[str]) -> None:
    try:
        done = subprocess.run(command, cwd=CACHE, capture_output=True, text=True, timeout=HANGS_S)
    except subprocess.TimeoutExpired:
        pytest.skip(f"{' '.join(command[:2])} does not answer here")
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        pytest.skip(f"{' '.join(command[:2])} cannot fetch it here: {''.join(last)[:200]}")
