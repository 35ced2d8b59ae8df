"""Work in a process of its own, whose time and memory are then its own, and what it said."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from edgeseg.errors import EdgesegError
from edgeseg.files import write_json


def last_line(stderr: str) -> str:
    """The line in which a failed process says why."""
    lines = stderr.strip().splitlines()
    return lines[-1] if lines else "no message"


def in_process(module: str, request: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Run a module that answers a request; its figures."""
    name = module.rpartition(".")[2]
    request_path, result_path = folder / f"{name}-request.json", folder / f"{name}-result.json"
    write_json(request_path, request | {"result": str(result_path)})
    done = subprocess.run(
        [sys.executable, "-m", module, str(request_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        reason = last_line(done.stderr)
        raise EdgesegError(f"{name} of {request['data']} failed in its process: {reason}")
    figures: dict[str, Any] = json.loads(result_path.read_text(encoding="utf-8"))
    return figures
