"""Disk space of a package together with everything it needs.

python -m edgeseg.bench.compare.install_size 'edgeseg[cpu,web]' anomalib

Sizes are those of the files that are installed in the environment of this interpreter, bytecode
included, so both sides are counted alike whether or not they share packages.
"""

from importlib import metadata
from pathlib import Path

import click
from packaging.requirements import Requirement

from edgeseg.base.errors import EdgesegError
from edgeseg.base.tables import markdown


def distribution_sizes(text: str) -> dict[str, int]:
    """Count the bytes of a requirement and all it needs, by distribution."""
    sizes: dict[str, int] = {}
    waiting = [Requirement(text)]
    seen: set[tuple[str, str]] = set()
    while waiting:
        wanted = waiting.pop()
        for extra in ("", *wanted.extras):
            if (wanted.name.lower(), extra) in seen:
                continue
            seen.add((wanted.name.lower(), extra))
            distribution = _distribution(wanted.name, needed_by=text)
            sizes[distribution.name] = _bytes(distribution)
            waiting += _needs(distribution, extra)
    return sizes


def _distribution(name: str, *, needed_by: str) -> metadata.Distribution:
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        raise EdgesegError(
            f"{needed_by}: {name} is not installed here, so its size is unknown; install it first"
        ) from None


def _needs(distribution: metadata.Distribution, extra: str) -> list[Requirement]:
    needs = [Requirement(text) for text in distribution.requires or []]
    always = [need for need in needs if need.marker is None or need.marker.evaluate({"extra": ""})]
    if not extra:
        return always
    chosen = [need for need in needs if need.marker and need.marker.evaluate({"extra": extra})]
    return [need for need in chosen if need not in always]


def _bytes(distribution: metadata.Distribution) -> int:
    files = distribution.files or []
    paths = {Path(str(distribution.locate_file(file))).resolve() for file in files}
    return sum(path.stat().st_size for path in paths if path.is_file())


@click.command()
@click.argument("requirements", nargs=-1, required=True)
@click.option("--top", default=5, show_default=True, help="Largest distributions to name.")
def main(requirements: tuple[str, ...], top: int) -> None:
    """Print the installed size of REQUIREMENTS, each with all that it needs."""
    rows = []
    for text in requirements:
        sizes = distribution_sizes(text)
        largest = sorted(sizes.items(), key=lambda item: -item[1])[:top]
        names = ", ".join(f"{name} {size / 1e6:.0f}" for name, size in largest)
        rows.append((text, str(len(sizes)), f"{sum(sizes.values()) / 1e6:.1f}", names))
    click.echo("\n".join(markdown(("package", "distributions", "MB", "largest"), rows)))


if __name__ == "__main__":
    main()
