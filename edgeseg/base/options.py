"""What options of commands share: types of values, options that many have, and who listens.

How an option is declared stands in typed_options.py. Below the command line errors name settings
(`max_bad=2`); `say_options` writes them as they are typed (`--max-bad 2`).
"""

import shlex
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from edgeseg.base.messages import Say, Setting
from edgeseg.base.progress import Note, Progress, bar, ignore, silent
from edgeseg.base.typed_options import option_of, typed

PATH = click.Path(path_type=Path)
FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)


class Numbers(click.ParamType):  # type: ignore[type-arg]  # generic in later versions alone
    """Whole numbers with a sign between them, such as 1,2,3."""

    def __init__(self, form: str, *, sign: str, counts: Container[int], expected: str) -> None:
        self.name, self.sign, self.counts, self.expected = form, sign, counts, expected

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """Return the placeholder for the help."""
        return self.name

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """Convert a text to numbers; a default is numbers already."""
        if isinstance(value, tuple):
            return value
        parts = [part.strip() for part in str(value).lower().split(self.sign)]
        if len(parts) not in self.counts or not all(part.isdecimal() for part in parts):
            self.fail(f"{value!r}: expected {self.expected}", param, ctx)
        return tuple(int(part) for part in parts)

    def text(self, numbers: Iterable[object]) -> str:
        """Write the numbers as a user types them."""
        return self.sign.join(map(str, numbers))


class Size(Numbers):
    """HEIGHTxWIDTH, or one number for a square: 704x256, 256."""

    def __init__(self) -> None:
        expected = "HEIGHTxWIDTH such as 704x256, or one number"
        super().__init__("HxW", sign="x", counts=(1, 2), expected=expected)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        """Convert a text to height and width."""
        numbers = super().convert(value, param, ctx)
        return numbers[0], numbers[-1]


class Names(click.ParamType):  # type: ignore[type-arg]
    """Names with commas between them."""

    def __init__(self, form: str) -> None:
        self.name = form

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """Return the placeholder for the help."""
        return self.name

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Convert a text to names; a default is names already."""
        return value if isinstance(value, tuple) else tuple(filter(None, value.split(",")))

    def text(self, names: Iterable[object]) -> str:
        """Write the names as a user types them."""
        return ",".join(map(str, names))


class RegistryName(click.Choice):  # type: ignore[type-arg]
    """The name of an entry of a registry, entries that are added later included."""

    def __init__(self, registry: Mapping[str, object]) -> None:
        self.registry = registry
        super().__init__(tuple(registry))

    choices = property(lambda self: tuple(self.registry), lambda self, _: None)


SIZE = Size()


@dataclass(frozen=True, kw_only=True)
class Shared:
    """Options that many commands have."""

    trust: tuple[Path, ...] = typed(
        (),
        "Public key (.pub): refuse files that none of these keys has signed; see `edgeseg sign`. "
        "May be repeated.",
        kind=FILE,
        envvar="EDGESEG_TRUST",
    )
    group_by: str = typed(
        "auto",
        "Which pictures show the same part. auto: those that look nearly alike. none: every "
        "picture shows another part. folder: those of one folder. name:SIGN: those with the same "
        "name before the last SIGN, such as part7_1.png with name:_. match:REGEX: those with the "
        "same text where REGEX matches.",
        group="the threshold",
    )
    quiet: bool = typed(False, "Print no progress and no notes.", flags=("--quiet", "-q"))
    as_json: bool = typed(False, "Print JSON.", flags=("--json",))
    backbone_graph: Path | None = typed(
        None,
        "File of `edgeseg export-backbone` to compute with, instead of torch.  "
        "[default: the one at hand, where torch is not installed]",
        kind=FILE,
        flags=("--graph",),
        group="the method",
    )


trust_option = option_of(Shared, "trust")
group_by_option = option_of(Shared, "group_by")
quiet_option = option_of(Shared, "quiet")
graph_option = option_of(Shared, "backbone_graph")
json_option = option_of(Shared, "as_json")


def note(text: str) -> None:
    """Print a line about progress to stderr; stdout is for data."""
    click.echo(text, err=True)


def command_line(*words: object) -> str:
    """Return a command to type next; paths with blanks are quoted."""
    return f"edgeseg {shlex.join(map(str, words))}"


def listeners(*, quiet: bool) -> tuple[Note, Progress]:
    """Return the receivers of a command's notes and of its progress."""
    return (ignore, silent) if quiet else (note, bar)


def was_typed(name: str) -> bool:
    """Return whether an option of the running command was typed, even with its default value."""
    source = click.get_current_context().get_parameter_source(name)
    return source not in (None, click.core.ParameterSource.DEFAULT)


def say_options(params: Iterable[click.Parameter]) -> Say:
    """Return how a command writes settings: `max_bad=2` is `--max-bad 2`.

    A setting that cannot be typed there stays as it is.
    """
    options = {param.name: param for param in params if isinstance(param, click.Option)}

    def say(setting: Setting) -> str:
        option, value = options.get(setting.name), setting.value
        if option is None:
            return str(setting)
        names = option.secondary_opts if value is False else option.opts
        if not names:
            return str(setting)
        name = max(names, key=len)
        if value == "" or (option.is_flag and isinstance(value, bool)):
            return name
        if isinstance(value, tuple):
            kind = option.type
            value = kind.text(value) if isinstance(kind, Numbers) else ",".join(map(str, value))
        return f"{name} {value}"

    return say
