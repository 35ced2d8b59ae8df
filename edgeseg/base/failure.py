"""The reason why a command failed, in a file for the process that started it.

EDGESEG_FAILURE_FILE=FILE edgeseg export-backbone ...    {"failed": sentence}, where it fails
"""

import json
import os
from contextlib import suppress
from pathlib import Path

from edgeseg.base.plain import Malformed, parse_object, read_bounded

FAILURE_FILE = "EDGESEG_FAILURE_FILE"


def write_failure(sentence: str) -> None:
    """Write the sentence to the file that the environment names, if it names one."""
    name = os.environ.get(FAILURE_FILE)
    if name:
        with suppress(OSError):  # the sentence is printed too
            Path(name).write_text(json.dumps({"failed": sentence}), encoding="utf-8")


def read_failure(path: Path) -> str | None:
    """Read what the command wrote; None if it wrote nothing."""
    try:
        return str(parse_object(read_bounded(path))["failed"])
    except (OSError, Malformed, KeyError):
        return None
