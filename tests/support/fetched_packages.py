"""What tests need that no package index for Python has, from where it is or, if asked, fetched.

A package that was fetched stays in a folder of the user's cache: the next run takes seconds.
"""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support import HANGS_S, REPO

FETCH = "EDGESEG_TEST_FETCH"  # set: tests may fetch hundreds of megabytes
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "edgeseg-tests"
HEADERS_PACKAGE = "libonnxruntime-dev"
HEADER = "onnxruntime_cxx_api.h"
ASSEMBLY = "Microsoft.ML.OnnxRuntime.dll"


def node_modules(package: str, *, version: str = "1") -> Path:
    """The folder in which node finds a package; skips where there is none."""
    given = os.environ.get("EDGESEG_NODE_MODULES")
    own = CACHE / package / "node_modules"  # one each: npm removes what it was not asked for
    for folder in (Path(given),) if given else (REPO / "node_modules", own):
        if (folder / package / "package.json").is_file():
            return folder
    if not os.environ.get(FETCH) or shutil.which("npm") is None:
        pytest.skip(
            f"needs {package}: EDGESEG_NODE_MODULES names the folder that holds it, or "
            f"{FETCH}=1 lets npm fetch it once"
        )
    # Without scripts: those of onnxruntime-node would fetch CUDA too.
    options = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-save", "--fetch-retries=1"]
    with _alone():
        if not (own / package / "package.json").is_file():
            own.parent.mkdir(parents=True, exist_ok=True)
            _fetch(
                ["npm", "install", *options, "--prefix", str(own.parent), f"{package}@{version}"]
            )
    return own


def runtime_headers() -> Path:
    """The folder of ONNX Runtime's C++ headers; no wheel has them. Skips where there are none."""
    given = os.environ.get("EDGESEG_ONNXRUNTIME_INCLUDE")
    unpacked = CACHE / HEADERS_PACKAGE
    places = (Path("/usr/include/onnxruntime"), unpacked / "usr" / "include" / "onnxruntime")
    for folder in (Path(given),) if given else places:
        if (folder / HEADER).is_file():
            return folder
    if not os.environ.get(FETCH) or shutil.which("apt-get") is None:
        pytest.skip(
            "needs ONNX Runtime's headers: EDGESEG_ONNXRUNTIME_INCLUDE names their folder, or "
            f"{FETCH}=1 lets apt-get fetch {HEADERS_PACKAGE} once"
        )
    with _alone():
        if not list(unpacked.rglob(HEADER)):
            _unpack_headers(unpacked)
    (header,) = unpacked.rglob(HEADER)
    return header.parent


def _unpack_headers(unpacked: Path) -> None:
    options = _lists_of_debian_13()
    _fetch(["apt-get", *options, "update"])
    _fetch(["apt-get", *options, "download", HEADERS_PACKAGE])
    shutil.rmtree(CACHE / "apt")
    (package,) = CACHE.glob(f"{HEADERS_PACKAGE}_*.deb")
    subprocess.run(["dpkg-deb", "-x", package, unpacked], check=True)
    package.unlink()


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


@contextmanager
def _alone() -> Iterator[None]:
    """Let one test process fetch at a time: the second finds what the first fetched."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(command: list[str]) -> None:
    try:
        done = subprocess.run(command, cwd=CACHE, capture_output=True, text=True, timeout=HANGS_S)
    except subprocess.TimeoutExpired:
        pytest.skip(f"{' '.join(command[:2])} does not answer here")
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        pytest.skip(f"{' '.join(command[:2])} cannot fetch it here: {''.join(last)[:200]}")
