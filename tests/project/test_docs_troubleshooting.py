"""docs/troubleshooting.md quotes messages that the code can print."""

import ast
import re
from collections.abc import Iterator

import pytest

from edgeseg.base.messages import sentences, write
from edgeseg.base.options import say_options
from tests.support.documents import REPO, text_of
from tests.support.sentences import command_params, errors_in, fixed_text, sentence_of

PARTS = ("edgeseg", "export", "runtime")
SPEAKERS = [say_options(params) for params in command_params().values()]


def templates() -> Iterator[str]:
    """Every string and error of the source, with `...` for what is put in while it runs."""
    for sentence in sentences().values():
        yield re.sub(r"\{[^}]*\}", "...", sentence)
    for part in PARTS:
        for path in (REPO / part).rglob("*.py"):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            yield from map(sentence_of, errors_in(tree))
            for node in ast.walk(tree):
                if isinstance(node, ast.JoinedStr) or (
                    isinstance(node, ast.Constant) and isinstance(node.value, str)
                ):
                    yield fixed_text(node)


def typed(template: str) -> set[str]:
    """As a Python program has it, and as every command that knows its settings says it."""
    return {template, *(write(template, say) for say in SPEAKERS)}


def quoted(text: str) -> list[str]:
    """Block quotes as one line each."""
    blocks = re.findall(r"(?:^> .*\n)+", text, re.M)
    return [" ".join(line.removeprefix("> ") for line in block.splitlines()) for block in blocks]


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
