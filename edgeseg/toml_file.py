"""TOML files to plain values; Python 3.10 has no reader of its own and takes tomli."""

import importlib
import sys
from pathlib import Path
from typing import Any

from edgeseg.errors import UsageError

MAX_BYTES = 1_000_000  # people write these by hand
_READER = "tomllib" if sys.version_info >= (3, 11) else "tomli"


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a file."""
    reader = importlib.import_module(_READER)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise UsageError(f"{path}: more than {MAX_BYTES} bytes, expected a file of settings")
        values: dict[str, Any] = reader.loads(data.decode("utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read ({error})") from None
    except (reader.TOMLDecodeError, RecursionError, ValueError) as error:
        raise UsageError(f"{path}: not TOML ({str(error)[:200]})") from None
    return values
