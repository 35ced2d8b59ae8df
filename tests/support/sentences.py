"""What the source says, read off it: errors with their parts, and the options of every command."""

import ast
import re
from collections.abc import Iterator
from functools import cache

import click

from edgeseg.base.messages import Sentence, Setting
from edgeseg.cli.group import COMMANDS, cli
from tests.support.house import modules

VALUE = "..."  # stands for what is put in while it runs
_CLASS = re.compile(r"^class (\w+)\((\w+)\):", re.M)


@cache
def error_names() -> set[str]:
    """Every class of errors, those that stand in a room of their own included."""
    names = {"EdgesegError"}
    found = [pair for path in modules().values() for pair in _CLASS.findall(path.read_text())]
    while more := {name for name, base in found if base in names} - names:
        names |= more
    return names


def errors_in(tree: ast.Module) -> Iterator[ast.Call]:
    """Every making of an error or of a sentence that one may have a part of."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _name(node.func) in {*error_names(), "Sentence"}:
            yield node


def sentence_of(call: ast.Call) -> Sentence:
    """An error as it will be said, with VALUE for what the source does not tell."""
    return Sentence(*map(_part, call.args))


def words_in(node: ast.AST) -> Iterator[str]:
    """The texts in a part of an error that is no setting."""
    if isinstance(node, ast.JoinedStr | ast.Constant):
        yield fixed_text(node)
    elif not (isinstance(node, ast.Call) and _name(node.func) == "Setting"):
        for child in ast.iter_child_nodes(node):
            yield from words_in(child)


def fixed_text(node: ast.AST) -> str:
    """A string of the source, with VALUE for what is put in."""
    if isinstance(node, ast.JoinedStr):
        return "".join(map(fixed_text, node.values))
    return str(node.value) if isinstance(node, ast.Constant) else VALUE


def command_params() -> dict[str, list[click.Parameter]]:
    """What every command takes, by its name; a group takes what the commands in it take."""
    context = click.Context(cli)
    return {name: list(_params(cli.get_command(context, name))) for name in COMMANDS}


def _params(command: click.Command) -> Iterator[click.Parameter]:
    yield from command.get_params(click.Context(command))
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            yield from _params(inner)


def _part(node: ast.expr) -> object:
    if isinstance(node, ast.Call) and _name(node.func) == "Setting":
        name, *value = node.args
        return Setting(fixed_text(name), *(_value(each) for each in value))
    return fixed_text(node)


def _value(node: ast.expr) -> object:
    return node.value if isinstance(node, ast.Constant) else fixed_text(node)


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""
