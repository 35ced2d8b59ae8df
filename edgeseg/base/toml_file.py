"""TOML files to plain values; Python 3.10 has no reader of its own and uses tomli."""

import importlib
import sys
from pathlib import Path
from typing import Any, BinaryIO

from edgeseg.base.errors import UsageError

MAX_BYTES = 1_000_000  # people write these by hand
_READER = "tomllib" if sys.version_info >= (3, 11) else "tomli"


def read_toml(path: Path) -> dict[str, Any]:
    """Read the tables of a file."""
    try:
        with path.open("rb") as file:
            return parse_toml(file, name=path)
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error})") from None


def parse_toml(file: BinaryIO, *, name: Path) -> dict[str, Any]:
    """Read the tables of an open file."""
    reader = importlib.import_module(_READER)
    data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise UsageError(f"{name}: more than {MAX_BYTES} bytes, expected a file of settings")
    try:
        values: dict[str, Any] = reader.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise UsageError(f"{name}: cannot be read ({error})") from None
    except (reader.TOMLDecodeError, RecursionError, ValueError) as error:
        raise UsageError(f"{name}: not TOML ({str(error)[:200]})") from None
    return values
