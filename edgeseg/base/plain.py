"""Plain JSON values to frozen dataclasses; each value is checked against the type of its field.

A file may be damaged or come from anywhere. What does not fit is refused here, and the error names
its place. A whole number may stand where any number is expected.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from edgeseg.base.errors import EdgesegError
from edgeseg.base.messages import Message

Record = TypeVar("Record")
JsonObject = dict[str, Any]  # a JSON object, parsed or to be written
LONGEST_JSON = 32_000_000  # bytes; the statistics of a frame of 2160x3840 are 2 MB of text
_DEEPEST = 32  # lists and mappings inside each other; ours have six
_DIGITS = 20  # of a whole number, its sign among them
_LARGEST = 2**63  # and its size: what arrays can hold


class Malformed(ValueError):
    """Values that are not what their place expects; the message begins with that place.

    Everything that reads a file raises this error. Its caller adds the file's name and what to do.
    """


def read_bounded(path: Path) -> bytes:
    """Read a JSON file, unless it is far too long to be one of ours."""
    with path.open("rb") as file:
        data = file.read(LONGEST_JSON + 1)
    if len(data) > LONGEST_JSON:
        raise Malformed(f"over {LONGEST_JSON} bytes of JSON")
    return data


def parse_json(text: str | bytes) -> Any:
    """Parse JSON text; anything that is not JSON is Malformed."""
    if len(text) > LONGEST_JSON:
        raise Malformed(f"not JSON (over {LONGEST_JSON} bytes)")
    try:
        values = json.loads(text, parse_constant=_no_number, parse_int=_whole, parse_float=_real)
    except RecursionError:
        raise Malformed("not JSON (nested too deeply)") from None
    except ValueError as error:  # also of other encodings
        raise Malformed(f"not JSON ({str(error)[:200]})") from None
    _check_nesting(values)
    return values


def finite(value: float | None) -> float | None:
    """Return a number as JSON can hold it, which has no NaN and no infinity."""
    return value if value is not None and math.isfinite(value) else None


def parse_object(text: str | bytes) -> JsonObject:
    """Parse JSON text that has to be one object."""
    values = parse_json(text)
    if not isinstance(values, dict):
        raise Malformed(f"{_short(values)}, expected named values")
    return values


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number")


def _whole(digits: str) -> int:
    if len(digits) > _DIGITS:
        raise ValueError(f"a whole number of {len(digits)} digits")
    value = int(digits)
    if not -_LARGEST <= value < _LARGEST:
        raise ValueError(f"the whole number {value}, expected 64 bits")
    return value


def _real(digits: str) -> float:
    value = float(digits)
    return value if math.isfinite(value) else _no_number(digits[:_DIGITS])


def _check_nesting(values: Any) -> None:
    """Refuse too deep a nesting, and text that no terminal and no file can show."""
    level = [values]
    for _ in range(_DEEPEST):
        below: list[Any] = []
        for value in level:
            if isinstance(value, str):
                _check_letters(value)
            elif isinstance(value, dict):
                for name in value:
                    _check_letters(name)
                below.extend(value.values())
            elif isinstance(value, list):
                below.extend(value)
        if not below:
            return
        level = below
    raise Malformed("not JSON (nested too deeply)")


def _check_letters(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Malformed("not JSON (half of a letter)") from None


def record(kind: type[Record], values: Any, *, place: str = "") -> Record:
    """Make a dataclass from a mapping; `place` names the mapping in errors."""
    if not isinstance(values, Mapping):
        raise Malformed(f"{place or 'it'}: {_short(values)}, expected named values")
    types = _types(kind)  # type: ignore[arg-type]
    required = {
        item.name
        for item in fields(kind)  # type: ignore[arg-type]
        if item.default is MISSING and item.default_factory is MISSING
    }
    unknown, missing = sorted(set(values) - set(types)), sorted(required - set(values))
    if unknown or missing:
        lists = (("unknown", unknown), ("missing", missing))
        words = " and ".join(
            f"{kind_of} keys {str(names)[:200]}" for kind_of, names in lists if names
        )
        raise Malformed(f"{place}: {words}" if place else words)
    inside = f"{place}." if place else ""
    checked = {
        name: _value(types[name], value, f"{inside}{name}") for name, value in values.items()
    }
    try:
        return kind(**checked)
    except (ValueError, EdgesegError) as error:
        raise Malformed(f"{inside}{error}") from None


@cache
def _types(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {item.name: hints[item.name] for item in fields(kind)}


def _value(expected: Any, value: Any, place: str) -> Any:
    """Return a value as its field wants it: lists become tuples, mappings become records."""
    if expected is Any:
        return value
    origin = get_origin(expected)
    if origin in (Union, UnionType):
        return _one_of(get_args(expected), value, place)
    if origin is Literal:
        if isinstance(value, str | int) and value in get_args(expected):
            return value
        raise Malformed(f"{place}: {_short(value)}, expected one of {list(get_args(expected))}")
    if origin is tuple:
        return _tuple(get_args(expected), value, place)
    if origin is dict:
        return _mapping(get_args(expected)[1], value, place)
    if expected is Message:
        return _message(value, place)
    if is_dataclass(expected) and isinstance(expected, type):
        return record(expected, value, place=place)
    return _scalar(expected, value, place)


def _message(value: Any, place: str) -> Message:
    try:
        return Message.from_json(value)
    except KeyError as error:
        raise Malformed(f"{place}: {error.args[0]}") from None


def _one_of(choices: tuple[Any, ...], value: Any, place: str) -> Any:
    refusals = []
    for choice in choices:
        try:
            return _value(choice, value, place)
        except Malformed as error:
            if choice is not NoneType:
                refusals.append(error)
    raise refusals[-1]


def _tuple(kinds: tuple[Any, ...], value: Any, place: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise Malformed(f"{place}: {_short(value)}, expected a list")
    if kinds[-1] is Ellipsis:
        kinds = (kinds[0],) * len(value)
    if len(value) != len(kinds):
        raise Malformed(f"{place}: {len(value)} values, expected {len(kinds)}")
    pairs = enumerate(zip(kinds, value, strict=True))
    return tuple(_value(kind, item, f"{place}[{index}]") for index, (kind, item) in pairs)


def _mapping(kind: Any, value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise Malformed(f"{place}: {_short(value)}, expected named values")
    return {str(name): _value(kind, item, f"{place}.{name}") for name, item in value.items()}


_WORDS = {str: "text", int: "a whole number", float: "a finite number", bool: "true or false"}


def _scalar(kind: Any, value: Any, place: str) -> Any:
    if kind is NoneType:
        fits = value is None
    elif kind in (int, float):
        numeric = isinstance(value, int if kind is int else int | float)
        fits = numeric and not isinstance(value, bool) and _fits_float(value)
    else:
        fits = isinstance(value, kind)
    if not fits:
        raise Malformed(f"{place}: {_short(value)}, expected {_WORDS.get(kind, kind)}")
    return value


def _fits_float(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond all floating point
        return False


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
