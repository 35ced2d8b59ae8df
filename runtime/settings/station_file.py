"""Read a station file: every option of `edgeseg stream` by its name, checked as a whole.

line3.toml --read_toml--> keys and values --the options' own types--> defaults of the command line
"""

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from edgeseg.base.errors import UsageError
from edgeseg.base.files import home_path, is_there
from edgeseg.base.toml_file import read_toml
from edgeseg.runtime.settings.options import (
    OptionValues,
    StreamOptions,
    option_kinds,
    own_values,
    stream_options,
)


def read_station(path: Path, ctx: click.Context) -> OptionValues:
    """Read the file's values by the names of options; all mistakes are in one error."""
    options = {option.name: option for option in stream_options()}
    values: OptionValues = {}
    mistakes = []
    for key, value in read_toml(path).items():
        name = key.replace("-", "_")
        option = options.get(name)
        if option is None:
            mistakes.append(_unknown(key, [str(known) for known in options]))
            continue
        try:
            values[name] = _value(option, value, path.parent, ctx)
        except (UsageError, click.BadParameter) as error:
            message = error.message if isinstance(error, click.BadParameter) else str(error)
            mistakes.append(f"{key}: {message.rstrip('.')}")
    mistakes += _refusals(values)
    if mistakes:
        count = "1 mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
        raise UsageError(f"{path}: {count}: {'; '.join(mistakes)}")
    return values


def _unknown(key: str, known: list[str]) -> str:
    near = difflib.get_close_matches(key.replace("-", "_"), known, n=1, cutoff=0.0)
    return f"{key}: unknown, expected an option of the stream; the nearest is {near[0]}"


def _value(option: click.Option, value: Any, folder: Path, ctx: click.Context) -> Any:
    """Convert a value of the file to a default that click takes."""
    if isinstance(value, dict):
        raise UsageError("a table, expected a value; the file has none")
    if option.multiple:
        return [_single(option, item, folder, ctx) for item in _items(value)]
    if isinstance(value, list):
        raise UsageError(f"{value}, expected one value")
    return _single(option, value, folder, ctx)


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _single(option: click.Option, value: Any, folder: Path, ctx: click.Context) -> Any:
    kind = option.type
    if option.is_flag:
        if not isinstance(value, bool):
            raise UsageError(f"{value!r}, expected true or false")
        return value
    if isinstance(kind, click.types.IntParamType | click.types.FloatParamType):
        whole = isinstance(kind, click.types.IntParamType)
        if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
            raise UsageError(f"{value!r}, expected a {'whole ' if whole else ''}number")
        return value
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise UsageError(f"{value!r}, expected text")
    text = str(value)
    # What the file names stands beside it, wherever the command is started from.
    if isinstance(kind, click.Path):
        return folder / home_path(text)
    if option.name == "source" and text and not text.isdigit() and is_there(folder / text):
        return str(folder / text)
    kind.convert(text, option, ctx)
    return text


def _refusals(values: Mapping[str, Any]) -> list[str]:
    """List what the option records refuse of the values of this file alone."""
    refusals = []
    for record in dict.fromkeys(kind.record for kind in option_kinds()):
        try:
            record(**own_values(record, _as_typed(values)))
        except UsageError as error:
            refusals.append(str(error))
    try:
        model = {} if "recipes" in values else {"model": Path()}
        stand_in = {**model, "source": ("0",), **_as_typed(values)}
        StreamOptions(**{**own_values(StreamOptions, stand_in), "trigger": StreamOptions.trigger})
    except UsageError as error:
        refusals.append(str(error))
    return refusals


def _as_typed(values: Mapping[str, Any]) -> OptionValues:
    return {
        name: tuple(value) if isinstance(value, list) else value for name, value in values.items()
    }
