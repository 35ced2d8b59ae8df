"""Options that stand in the record that takes them: one row each, with default and help.

modbus: str | None = typed(None, "Modbus TCP server for a PLC.", metavar="PORT")
"""

from dataclasses import field, fields
from typing import Any

import click


def typed(
    default: Any,
    help: str,  # noqa: A002
    *,
    kind: Any = None,
    metavar: str | None = None,
) -> Any:
    """A field of a frozen record; a tuple as default: the option may be given several times."""
    told: dict[str, Any] = {"help": help, "metavar": metavar, "multiple": default == ()}
    if kind is not None:
        told["type"] = kind
    elif isinstance(default, int | float):
        told["type"] = type(default)
    if default not in (None, ()):
        told["default"] = default
    return field(default=default, metadata={"option": told})


def options_of(record: type) -> tuple[click.Option, ...]:
    """What a record's fields are on the command line, by the same names."""
    return tuple(
        click.Option([f"--{item.name.replace('_', '-')}"], **item.metadata["option"])
        for item in fields(record)
    )
