"""Why a command has failed, for the process that started it: a file beside its exit code.

EDGESEG_FAILURE_FILE=FILE edgeseg export-backbone ...    {"failed": sentence}, where it fails
"""

import json
import os
from contextlib import suppress
from pathlib import Path

from edgeseg.base.plain import Malformed, parse_object, read_bounded

FAILURE_FILE = "EDGESEG_FAILURE_FILE"


def write_failure(sentence: str) -> None:
    """Write the sentence for whoever has asked for it."""
    name = os.environ.get(FAILURE_FILE)
    if name:
        with suppress(OSError):  # the sentence is printed too
            Path(name).write_text(json.dumps({"failed": sentence}), encoding="utf-8")


def read_failure(path: Path) -> str | None:
    """Read what the command has written; None: it ended without a word."""
    try:
        return str(parse_object(read_bounded(path))["failed"])
    except (OSError, Malformed, KeyError):
        return None
