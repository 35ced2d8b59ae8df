"""docs/troubleshooting.md quotes messages that the code can print."""

import ast
import re
from collections.abc import Iterator

import click
import pytest

from edgeseg.base.options import in_flags
from edgeseg.cli.group import COMMANDS, cli
from tests.support.documents import REPO, text_of

PARTS = ("edgeseg", "export", "runtime")


def templates() -> Iterator[str]:
    """Every string of the source, with `...` for what is put in while it runs."""
    for part in PARTS:
        for path in (REPO / part).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.JoinedStr):
                    yield "".join(_fixed(piece) for piece in node.values)
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value


def _fixed(piece: ast.expr) -> str:
    return str(piece.value) if isinstance(piece, ast.Constant) else "..."


def typed(template: str) -> Iterator[str]:
    """As it stands in the source, and as every command that knows its settings says it."""
    yield template
    if "=" in template:
        values = template.replace("...", "\0")  # dots would end a sentence
        yield from {in_flags(values, params).replace("\0", "...") for params in PARAMS}


def _params() -> Iterator[list[click.Parameter]]:
    context = click.Context(cli)
    for name in COMMANDS:
        command = cli.get_command(context, name)
        yield command.get_params(click.Context(command))


def quoted(text: str) -> list[str]:
    """Block quotes as one line each."""
    blocks = re.findall(r"(?:^> .*\n)+", text, re.M)
    return [" ".join(line.removeprefix("> ") for line in block.splitlines()) for block in blocks]


PARAMS = list(_params())
SOURCE = "\n".join(text for template in templates() for text in typed(template))
MESSAGES = quoted(text_of("docs/troubleshooting.md"))


def pattern_of(message: str) -> str:
    """Fixed words in order, with anything on the same line between them."""
    return ".*".join(re.escape(piece) for piece in message.strip(". ").split("..."))


def test_enough_messages():
    assert len(MESSAGES) >= 25
    assert len(set(MESSAGES)) == len(MESSAGES)


@pytest.mark.parametrize("message", MESSAGES)
def test_every_quoted_message_is_in_the_source(message):
    fixed = "".join(message.split("..."))
    assert len(fixed.split()) >= 3, "too few words to recognise"
    assert re.search(pattern_of(message), SOURCE), "renamed in the source, or never there"


def test_a_renamed_message_is_noticed():
    assert not re.search(pattern_of("...: no such directory; look elsewhere"), SOURCE)


def test_every_message_has_a_remedy():
    """Prose follows each quote before the next quote or heading."""
    blocks = re.split(r"\n\n", text_of("docs/troubleshooting.md"))
    for block, following in zip(blocks, [*blocks[1:], ""], strict=True):
        if block.startswith("> "):
            assert following, block
            assert not following.startswith((">", "#")), block
