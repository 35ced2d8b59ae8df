"""docs/troubleshooting.md quotes messages that the code can print."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.support.documents import REPO, text_of

PARTS = ("edgeseg", "export", "runtime")


def templates() -> Iterator[str]:
    """Every string of the source, with `...` for what is put in while it runs."""
    for part in PARTS:
        for path in (REPO / part).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.JoinedStr):
                    text = "".join(_fixed(piece) for piece in node.values)
                    yield f"{text}\n{_typed(text)}"
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield f"{node.value}\n{_typed(node.value)}"


def typed(template: str) -> str:
    """As the command line says it: `max_bad=2` is `--max-bad 2`, `resume=True` is `--resume`."""
    return re.sub(r"(?<![^\s(])([a-z_]+)=(True)?", _flag, template)


def _flag(setting: re.Match[str]) -> str:
    name = "--" + setting[1].replace("_", "-")
    return name if setting[2] else f"{name} "


def _fixed(piece: ast.expr) -> str:
    return str(piece.value) if isinstance(piece, ast.Constant) else "..."


def _typed(text: str) -> str:
    """Settings as options, which is how the command line says them: `roi=...` is `--roi ...`."""

    def flag(setting: re.Match[str]) -> str:
        name = f"--{setting[1].replace('_', '-')}"
        return name if setting[2] else f"{name} "

    return re.sub(r"(?<![^\s(])([a-z]\w*)=(True\b)?", flag, text)


def quoted(text: str) -> list[str]:
    """Block quotes as one line each."""
    found = re.findall(r"(?:^> .*\n)+", text, re.M)
    return [" ".join(line.removeprefix("> ") for line in block.splitlines()) for block in found]


SOURCE = "\n".join(text for template in templates() for text in (template, typed(template)))
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
