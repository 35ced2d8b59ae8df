"""What the child process can be asked to do."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from edgeseg.teach.fit_job import Telling, fit
from edgeseg.teach.learning import next_version
from edgeseg.teach.project import Project

JOBS: dict[str, Callable[[Project, Path, Telling], dict[str, Any]]] = {
    "fit": fit,
    "next": next_version,
}
