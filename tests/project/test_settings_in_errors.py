"""Errors name settings as values (`max_bad=2`), which the command line says as options."""

import ast
import re
from collections.abc import Iterator

import click

from tests.support.house import BY_NAME, modules, room_of
from tests.support.sentences import command_params, errors_in, words_in

# The command line and the benchmarks are where options are typed.
BELOW = {
    name: path
    for name, path in modules().items()
    if name not in BY_NAME and room_of(name) not in ("cli", "bench")
}
OPTIONS = {
    param.name
    for params in command_params().values()
    for param in params
    if isinstance(param, click.Option)
}
# Module -> what it names that no option says: keys of recipe.toml and of the text of a source, and
# the settings of a study, which prints its errors itself. `...` is a name that is put in.
KEYS = {
    "edgeseg.bench.choices.__main__": {"..."},
    "edgeseg.runtime.capture.aravis.camera": {"trigger"},
    "edgeseg.runtime.capture.aravis.settings": {"trigger", "..."},
    "edgeseg.runtime.capture.reader": {"trigger"},
    "edgeseg.runtime.capture.synthetic_camera": {"defects", "..."},
    "edgeseg.runtime.recipes.recipe": {"number"},
    "edgeseg.runtime.recipes.store": {"number"},
    "edgeseg.runtime.recipes.versions": {"model"},
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


def settings_in_words(text: str) -> set[str]:
    """Names of options that an error has as words, where a Setting is expected."""
    return {
        name
        for call in errors_in(ast.parse(text))
        for part in call.args
        for words in words_in(part)
        for name in re.findall(r"(?<![^\s(])(\w+|\.\.\.)=(?!=)", words)
        if name in OPTIONS or name == "..."
    }


def test_errors_name_options_by_settings():
    found = {
        name: names
        for name, path in modules().items()
        if (names := settings_in_words(path.read_text(encoding="utf-8")))
    }
    assert found == KEYS, "expected Setting(name, value) as a part of the error"


def test_the_reader_of_settings():
    assert settings_in_words('raise UsageError(f"k={k}: expected more")') == {"k"}
    assert settings_in_words('return DatasetError(error, "; skip it with (max_bad=N)")') == {
        "max_bad"
    }
    assert settings_in_words('reason = Sentence(f"{name}={value}: too small")') == {"..."}
    assert settings_in_words('BackendUnavailable("" if a else "add k=")') == {"k"}
    assert settings_in_words('raise UsageError(Setting("k", f"k={k}"), ": expected more")') == set()
    assert settings_in_words('raise UsageError(f"no_option={k}, /data/k=3/x.png, k == 3")') == set()


def test_the_reader_of_errors():
    assert list(flags_in_errors('raise E(f"give --max-bad {n}, or " "--resume")')) == [
        "--max-bad",
        "--resume",
    ]
    assert list(flags_in_errors('raise E(f"make one with `edgeseg fit --out {path}`")')) == []
    assert list(flags_in_errors('option("--max-bad"); raise E("max_bad=2")')) == []
