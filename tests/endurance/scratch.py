"""A folder for files that are written and read thousands of times, in memory where there is one."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_IN_MEMORY = Path("/dev/shm")


@contextmanager
def scratch(name: str) -> Iterator[Path]:
    """Removed at the end."""
    parent = _IN_MEMORY if _IN_MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix=f"edgeseg-{name}-", dir=parent) as place:
        yield Path(place)
