"""Files that are either whole or absent: write beside the target, then rename."""

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic_path(target: Path) -> Iterator[Path]:
    """Yield a temporary path in the target's folder; rename it over the target on success."""
    target = Path(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(
        dir=target.parent, prefix=f".{target.stem}-", suffix=target.suffix
    )
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        # mkstemp makes private files; the result should have the permissions of any other file.
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def check_writable(target: Path) -> None:
    """Fail now rather than after a long computation: the target's folder must take a file."""
    with atomic_path(target.parent / f".{target.name}.check") as temporary:
        temporary.touch()
    (target.parent / f".{target.name}.check").unlink(missing_ok=True)


def write_text(target: Path, text: str) -> None:
    """Write text in one step: readers see the old file or the new one."""
    with atomic_path(target) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(target: Path, value: object) -> None:
    """Write JSON in one step, with a stable order of keys."""
    write_text(target, json.dumps(value, indent=2, sort_keys=True, allow_nan=False) + "\n")


def file_sha256(path: Path) -> str:
    """The hash of a file, read in pieces: a plan can be larger than a small device's memory."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def size_text(size_bytes: int) -> str:
    """Bytes as people read them."""
    size = float(size_bytes)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.2f} GB"
