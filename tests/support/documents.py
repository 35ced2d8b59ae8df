"""Reading the Markdown of this repository: sections, tables, blocks of code, links."""

import re
from pathlib import Path

import click
import pytest

from edgeseg.cli.group import cli
from tests.support import REPO

FOLDERS = (REPO, REPO / "docs", REPO / "bench", REPO / "bench" / "results")
DOCUMENTS = sorted(path for folder in FOLDERS for path in folder.glob("*.md"))


def text_of(name: str) -> str:
    """One document by its place in the repository."""
    return (REPO / name).read_text(encoding="utf-8")


def section(text: str, heading: str) -> str:
    """What stands under a heading, up to the next one of any level."""
    found = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#+ |\Z)", text, re.M | re.S)
    assert found, f"no heading {heading!r}"
    return found[1]


def keys_of(text: str, heading: str) -> list[str]:
    """First column of the table under a heading, without its backticks."""
    return re.findall(r"^\| `([^`]+)` \|", section(text, heading), re.M)


def blocks(text: str) -> list[tuple[str, str]]:
    """Fenced blocks of code as (language, content)."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S)


def links(text: str) -> list[str]:
    """Targets of links and pictures outside of code."""
    prose = re.sub(r"^```.*?^```$|`[^`\n]*`", "", text, flags=re.M | re.S)
    return re.findall(r"(?:\]\(|src=\")([^)\"\s]+)[)\"]", prose)


def anchors(text: str) -> set[str]:
    """Names that GitHub gives to headings."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def parse_command(words: list[str]) -> None:
    """Hold that `edgeseg WORDS` is a command line: options exist, and values are of their kind."""
    command: click.Command = cli
    context = click.Context(cli, info_name="edgeseg", **cli.context_settings)
    with pytest.MonkeyPatch.context() as patch:
        # Files of a document need not be there.
        patch.setattr(click.Path, "convert", lambda self, value, param, ctx: Path(value))
        station = {"model": "part.onnx", "source": ["0"]}
        patch.setattr("edgeseg.cli.stream_command.read_station", lambda *_: station)
        while isinstance(command, click.Group):
            name, *words = words
            found = command.get_command(context, name)
            assert found is not None, f"no command {name}"
            command = found
            if not isinstance(command, click.Group):
                command.make_context(name, list(words), parent=context)
