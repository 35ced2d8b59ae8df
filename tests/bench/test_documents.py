"""Benchmarks and endurance runs that documents show as `python -m`: they exist, with options."""

import importlib
import re
import shlex

import click
import pytest

from tests.support.documents import DOCUMENTS

COMMAND = re.compile(r"python -m ((?:edgeseg\.bench|tests\.endurance)\.[^`\n]+)")


def lines() -> list[str]:
    shown = (COMMAND.findall(path.read_text(encoding="utf-8")) for path in DOCUMENTS)
    return sorted({line for each in shown for line in each})


@pytest.mark.parametrize("line", lines())
def test_the_command_is_there(line: str) -> None:
    name, *words = shlex.split(line)
    module = importlib.import_module(name)
    if hasattr(module, "__path__"):  # a folder, run by its __main__
        name = f"{name}.__main__"
        module = importlib.import_module(name)
    (command,) = [
        value
        for value in vars(module).values()
        if isinstance(value, click.Command) and value.callback.__module__ == name
    ]
    known = {option for param in command.params for option in param.opts}
    assert {word for word in words if word.startswith("-")} <= known
    for param in command.params:
        # Without words behind it, it is the study's name and no command to type.
        if words and param.required and isinstance(param, click.Option):
            assert set(param.opts) & set(words), f"{line}: needs {param.opts[0]}"


def test_the_reader_finds_them() -> None:
    assert len(lines()) >= 8
