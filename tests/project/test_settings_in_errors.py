"""Errors of the library name settings (`max_bad=2`); the command line says them as options."""

import ast
import re
from collections.abc import Iterator

from tests.support.house import BY_NAME, modules, room_of

# The command line and the benchmarks are where options are typed.
BELOW = {
    name: path
    for name, path in modules().items()
    if name not in BY_NAME and room_of(name) not in ("cli", "bench")
}
COMMAND = re.compile(r"`[^`]*`|--rdzv-endpoint")  # to be typed as it stands, or torchrun's own


def flags_in_errors(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Raise) or node.exc is None:
            continue
        pieces = [
            piece.value
            for piece in ast.walk(node.exc)
            if isinstance(piece, ast.Constant) and isinstance(piece.value, str)
        ]
        yield from re.findall(r"(?<![\w-])--[a-z][\w-]*", COMMAND.sub("", "".join(pieces)))


def test_errors_of_the_library_name_no_options():
    found = {
        name: flags
        for name, path in BELOW.items()
        if (flags := list(flags_in_errors(path.read_text(encoding="utf-8"))))
    }
    assert found == {}


def test_the_reader_of_errors():
    assert list(flags_in_errors('raise E(f"give --max-bad {n}, or " "--resume")')) == [
        "--max-bad",
        "--resume",
    ]
    assert list(flags_in_errors('raise E(f"make one with `edgeseg fit --out {path}`")')) == []
    assert list(flags_in_errors('option("--max-bad"); raise E("max_bad=2")')) == []
