"""Command-line options, declared as fields of the record that takes them.

    threads: int | None = typed(None, "Processor threads; default: all cores.", group="the run")

    fields of a record --options_of--> click options --takes--> the record, as one argument

A field has the default, the type and the help. Its name is the key in a station file, and its
annotation is the type on the command line.
"""

import difflib
import types
import typing
from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, field, fields
from functools import cache, wraps
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])
Decorator = Callable[[Command], Command]

REQUIRED: Any = MISSING  # as a default: the option must be given


def typed(
    default: Any,
    help: str,  # noqa: A002
    *,
    kind: Any = None,
    flags: tuple[str, ...] = (),
    metavar: str | None = None,
    envvar: str | None = None,
    alone: str | None = None,
    group: str = "",
) -> Any:
    """Declare a field of a frozen record that is an option too.

    kind: a click type, where the annotation does not say enough. flags: what is typed, where it is
    not the field's name; a single `--no-...` turns a field off that is on. alone: what the option
    means without a value. group: the section of the help, see `GroupedCommand`. A tuple of any
    length is an option that may be repeated, unless its kind reads all values from one text.
    """
    settings: dict[str, Any] = {
        "help": help,
        "metavar": metavar,
        "envvar": envvar,
        "show_envvar": envvar is not None,
        "group": group,
    }
    if alone is not None:
        settings |= {"is_flag": False, "flag_value": alone}
    metadata = {"option": settings, "kind": kind, "flags": flags}
    return field(default=default, metadata=metadata)


def same_as(record: type, name: str, *, default: Any = None, group: str | None = None) -> Any:
    """Declare a field as the option of another record, with another default or help section."""
    of = _field(record, name)
    settings = of.metadata["option"] | ({} if group is None else {"group": group})
    metadata = {**of.metadata, "option": settings, "annotation": of.type}
    return field(default=of.default if default is None else default, metadata=metadata)


class Option(click.Option):
    """An option that knows its section of the help."""

    def __init__(self, names: list[str], *, group: str = "", **settings: Any) -> None:
        super().__init__(names, show_default=True, **settings)
        self.group = group


@cache
def options_of(record: type, group: str = "") -> tuple[Option, ...]:
    """Return the click options of a record's fields, in their order.

    `group` is the help section of options that name none.
    """
    return tuple(_option(item, group) for item in fields(record) if "option" in item.metadata)


def option_of(record: type, name: str) -> Decorator[Any]:
    """Return one option of a record, for a command that takes it as an argument."""
    return _declare([next(option for option in options_of(record) if option.name == name)])


def takes(
    name: str, record: type, made: Callable[..., Any] | None = None, *, group: str = ""
) -> Callable[[Command], Command]:
    """Give a command the options of a record, which reach it as one argument, `name`.

    `made` makes the argument from the values instead of the record itself.
    """
    options = options_of(record, group)

    def decorate(command: Command) -> Command:
        @wraps(command)
        def call(**values: Any) -> Any:  # as click calls every command
            own = {str(option.name): values.pop(option.name) for option in options}
            return command(**values, **{name: (made or record)(**own)})

        return _declare(options)(call)  # type: ignore[no-any-return]

    return decorate


def _declare(options: Iterable[click.Option]) -> Decorator[Any]:
    """Add options to a command; like `click.option`, in reverse, since click reverses the list."""

    def decorate(command: Any) -> Any:
        before = getattr(command, "__click_params__", [])
        command.__click_params__ = [*before, *reversed(list(options))]
        return command

    return decorate


def _field(record: type, name: str) -> "Field[Any]":
    return next(item for item in fields(record) if item.name == name)


def _option(item: "Field[Any]", group: str) -> Option:
    settings = {**item.metadata["option"], "group": item.metadata["option"]["group"] or group}
    flags = item.metadata["flags"] or (f"--{item.name.replace('_', '-')}",)
    annotation, several = _parts(item.metadata.get("annotation", item.type))
    kind = item.metadata["kind"]
    as_text = getattr(kind, "text", None)  # such as 256x256 of (256, 256)
    settings["multiple"] = several and as_text is None
    default = item.default
    if annotation is bool and kind is None:
        settings["is_flag"] = True
        if default is True and len(flags) == 1 and flags[0].startswith("--no-"):
            default, settings["callback"] = False, _negate
    else:
        settings["type"] = kind or _kind(annotation)
    if default is MISSING:
        settings["required"] = True
    elif default is not None and not (settings["multiple"] and default == ()):
        settings["default"] = as_text(default) if as_text and default else default
    return Option([*flags, item.name], **settings)


def _negate(ctx: click.Context, option: click.Parameter, value: bool) -> bool:
    return not value


def _parts(annotation: Any) -> tuple[Any, bool]:
    """Return X of `X | None` or `tuple[X, ...]`, and whether it was such a tuple."""
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        annotation = next(each for each in typing.get_args(annotation) if each is not type(None))
    if typing.get_origin(annotation) is tuple:
        first, *_, last = typing.get_args(annotation)
        return first, last is Ellipsis
    return annotation, False


def _kind(annotation: Any) -> Any:
    if typing.get_origin(annotation) is typing.Literal:
        return click.Choice(typing.get_args(annotation))
    if annotation is Path:
        return click.Path(path_type=Path)
    return annotation if annotation in (int, float) else str


class GroupedCommand(click.Command):
    """A command whose help has a section for each group of options."""

    def __init__(self, *arguments: Any, groups: tuple[str, ...] = (), **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.groups = groups

    def option_groups(self, ctx: click.Context) -> dict[str, list[click.Option]]:
        """Return the options by the title of their section; those without a section come last."""
        parts: dict[str, list[click.Option]] = {group: [] for group in (*self.groups, "")}
        for param in self.get_params(ctx):
            if isinstance(param, click.Option):
                group = getattr(param, "group", "")
                parts[group if group in parts else ""].append(param)
        titled = {group[:1].upper() + group[1:] or "Options": own for group, own in parts.items()}
        return {title: own for title, own in titled.items() if own}

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a section for each group."""
        for title, options in self.option_groups(ctx).items():
            records = [record for option in options if (record := option.get_help_record(ctx))]
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class NearestGroup(click.Group):
    """A group that suggests its nearest command when the typed one does not exist."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the first word names."""
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            near = difflib.get_close_matches(name, self.list_commands(ctx), n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            ctx.fail(f"No such command {name!r}.{hint}")
        return super().resolve_command(ctx, args)
