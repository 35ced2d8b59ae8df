"""The packages that edgeseg needs: which extra installs each, and which version is installed."""

import re
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import metadata
from importlib.util import find_spec

from edgeseg.base.errors import EdgesegError

# Modules that are called otherwise than the package that brings them.
_PACKAGES = {
    "cv2": "opencv-python-headless",
    "cuda": "cuda-python",
    "paho": "paho-mqtt",
    "prometheus_client": "prometheus-client",
}


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


def install_command(*modules: str, also: Iterable[str] = ()) -> str | None:
    """Return the command that installs missing modules, and other packages with them.

    The result is None where edgeseg does not need one of the modules.
    """
    if not extras():  # a checkout that was never installed cannot tell its extras
        if any(module.split(".")[0] == "edgeseg" for module in modules):
            return None
        return " ".join(["pip install", *dict.fromkeys(map(_package, modules)), *also])
    brought = _fewest_extras(modules)
    if brought is None:
        return None
    named = ",".join(sorted(brought - {""}))
    ours = [f"'edgeseg[{named}]'" if named else "edgeseg"] if modules else []
    return " ".join(["pip install", *ours, *also])


def _fewest_extras(modules: Iterable[str]) -> set[str] | None:
    """Return the extras that bring all modules with the fewest packages."""
    each = [extra_of(module) for module in modules]
    if None in each:
        return None
    wanted = {_normal(_package(module)) for module in modules}
    ways = [{extra for extra in each if extra is not None}]
    ways += [{name} for name, names in extras().items() if wanted <= set(map(_normal, names))]
    return min(ways, key=lambda way: (sum(len(extras()[extra]) for extra in way), len(way)))


def missing(modules: Iterable[str]) -> list[str]:
    """Return those modules that are not installed; none of them is loaded."""
    return [module for module in modules if find_spec(module) is None]


def check_installed(who: str, *modules: str) -> None:
    """Refuse at the beginning of a work where modules that it needs are not installed."""
    absent = missing(modules)
    if absent:
        raise not_installed(who, absent)


def not_installed(
    who: str, modules: Sequence[str], *, what: Sequence[str] = (), also: Sequence[str] = ()
) -> EdgesegError:
    """Return the error that `who` needs modules, and other things, that are not here.

    `also` are the packages that bring the other things.
    """
    *most, last = [*map(_package, modules), *what]
    names = f"{', '.join(most)} and {last}" if most else last
    is_or_are = "are" if most else "is"
    command = install_command(*modules, also=also)
    return EdgesegError(f"{who} needs {names}, which {is_or_are} not installed; run: {command}")


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
