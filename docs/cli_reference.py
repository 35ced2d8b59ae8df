"""Writes docs/cli.md from the commands themselves (`make docs`). Not part of the package."""

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from edgeseg.base.files import write_text
from edgeseg.base.typed_options import GroupedCommand
from edgeseg.cli.group import GROUPS, cli

HEAD = """# Commands

Made from the commands by `make docs`; do not edit. A test compares it with the code.
Every command ends with exit code 0, with 2 for a mistake in what was asked, or with 1 for anything
else that went wrong, and then says so in one sentence: see [troubleshooting](troubleshooting.md).

"""


def reference() -> str:
    """The whole document."""
    root = click.Context(cli, info_name="edgeseg", **cli.context_settings)
    pages = list(_commands(cli, root))
    return HEAD + _list(pages) + "\n\n" + "\n".join(_page(command, ctx) for command, ctx in pages)


def _list(pages: list[tuple[click.Command, click.Context]]) -> str:
    """All commands, in the groups of `edgeseg --help`."""
    parts = []
    for title, own in GROUPS.items():
        lines = [
            f"- [`{ctx.command_path}`](#{_anchor(ctx)}): {command.get_short_help_str(limit=200)}"
            for command, ctx in pages
            if ctx.command_path.split()[1] in own
        ]
        parts.append("\n".join([f"{title}:", "", *lines]))
    return "\n\n".join(parts)


def _commands(
    group: click.Group, ctx: click.Context
) -> Iterator[tuple[click.Command, click.Context]]:
    """Every command below a group in the order of its help; a group comes before its own."""
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        if command is None:
            raise SystemExit(f"`{ctx.command_path} {name}` is listed and cannot be loaded")
        below = click.Context(command, info_name=name, parent=ctx, **command.context_settings)
        yield command, below
        if isinstance(command, click.Group):
            yield from _commands(command, below)


def _anchor(ctx: click.Context) -> str:
    return ctx.command_path.replace(" ", "-")


def _page(command: click.Command, ctx: click.Context) -> str:
    usage = " ".join([ctx.command_path, *command.collect_usage_pieces(ctx)])
    parts = [f"## {ctx.command_path}", f"```\n{usage}\n```", *_help(command)]
    for title, options in _options(command, ctx).items():
        rows = [
            f"| `{record[0].replace('|', chr(92) + '|')}` | {_cell(record[1])} |"
            for option in options
            if "--help" not in option.opts and (record := option.get_help_record(ctx))
        ]
        if rows:
            parts.append("\n".join([f"| {title.lower()} | |", "| --- | --- |", *rows]))
    return "\n\n".join(parts) + "\n"


def _options(command: click.Command, ctx: click.Context) -> dict[str, list[click.Option]]:
    """By the parts of the command's help; arguments stand in the line above."""
    if isinstance(command, GroupedCommand):
        return command.option_groups(ctx)
    return {"option": [each for each in command.get_params(ctx) if isinstance(each, click.Option)]}


def _help(command: click.Command) -> Iterator[str]:
    r"""Paragraphs; those behind \b are examples."""
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        marked, example = paragraph.strip().startswith("\b"), paragraph.strip("\b\n ")
        if example:
            yield f"```\n{example}\n```" if marked else " ".join(example.split())


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "\\<")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(f"usage: {sys.argv[0]} FILE")
    write_text(Path(sys.argv[1]), reference())
