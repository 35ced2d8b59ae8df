"""The packages that edgeseg needs: which extra installs each, and which version is installed."""

import re
import sys
from collections.abc import Iterable
from functools import cache
from importlib import metadata

# Modules that are called otherwise than the package that brings them.
_PACKAGES = {"cv2": "opencv-python-headless", "cuda": "cuda-python", "paho": "paho-mqtt"}


@cache
def extras() -> dict[str, tuple[str, ...]]:
    """Return the packages of each extra; those that are always installed stand under "".

    They are read from edgeseg's own metadata. The result is empty where edgeseg is not installed.
    """
    packages: dict[str, list[str]] = {}
    for line in _requirements():
        extra = re.search(r"""extra\s*==\s*["']([^"']+)["']""", line)
        name = re.match(r"[\w.-]+", line)
        if name and name[0] != "edgeseg" and _for_this_python(line):
            # An extra made of others names edgeseg itself.
            packages.setdefault(extra[1] if extra else "", []).append(name[0])
    return {extra: tuple(names) for extra, names in packages.items()}


def extra_of(module: str) -> str | None:
    """Return the smallest extra that brings a module; None where edgeseg does not need it."""
    wanted = _normal(_package(module))
    bringing = [
        extra for extra, names in extras().items() if wanted in {_normal(name) for name in names}
    ]
    return min(bringing, key=lambda extra: (extra != "", len(extras()[extra])), default=None)


def install_command(module: str) -> str | None:
    """Return the command that installs a missing module, or None where edgeseg does not need it."""
    if not extras():  # a checkout that was never installed cannot tell its extras
        return None if module.split(".")[0] == "edgeseg" else f"pip install {_package(module)}"
    extra = extra_of(module)
    if extra is None:
        return None
    return f"pip install 'edgeseg[{extra}]'" if extra else "pip install edgeseg"


def version_of(package: str) -> str | None:
    """Return the installed version, or None."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of those packages that are installed."""
    installed = {package: version_of(package) for package in packages}
    return {package: version for package, version in installed.items() if version is not None}


def _requirements() -> list[str]:
    try:
        return metadata.requires("edgeseg") or []
    except metadata.PackageNotFoundError:
        return []


def _for_this_python(line: str) -> bool:
    older = re.search(r"""python_version\s*<\s*["'](\d+)\.(\d+)["']""", line)
    return older is None or sys.version_info[:2] < (int(older[1]), int(older[2]))


def _package(module: str) -> str:
    top = module.split(".")[0]
    return _PACKAGES.get(top, top)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
