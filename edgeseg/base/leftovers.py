"""Names of temporary files that tell their process, so that files of killed runs can be removed.

    .NAME~PID-START-BOOT-PLACE-RANDOM.SUFFIX

START is the time at which the process began, BOOT identifies the boot of the computer, PLACE the
computer and its container. PID alone does not do: the number is given to another process later.
"""

import contextlib
import hashlib
import os
import re
import secrets
import shutil
import socket
import time
from functools import cache
from pathlib import Path

_FOREIGN_S = 24 * 3600  # of another computer or container: whether it runs cannot be told
_LONGEST_STEM = 60  # characters kept of the target's name; a file name has 255 bytes
_UNKNOWN = "0"  # a process that is no more, or a system that does not tell
_NAME = re.compile(
    r"\..*~(?P<pid>\d+)-(?P<start>\d+)-(?P<boot>[0-9a-f]{8})-(?P<place>[0-9a-f]{8})-[0-9a-f]{8}"
    r"(?:\.[^~]*)?",
    re.DOTALL,
)
_swept: set[Path] = set()  # folders


def temporary_name(stem: str, suffix: str) -> str:
    """Make a name beside a target; the suffix stays, since encoders choose the format by it."""
    mine = f"{os.getpid()}-{_start_ticks(os.getpid())}-{_boot()}-{_place()}"
    return f".{stem[:_LONGEST_STEM]}~{mine}-{secrets.token_hex(4)}{suffix}"


def sweep(folder: Path) -> None:
    """Remove what killed runs have left in a folder; done once per folder and process."""
    if folder in _swept:
        return
    _swept.add(folder)
    with contextlib.suppress(OSError):  # whoever cannot look there cannot write there either
        for path in [*folder.iterdir()]:
            if _is_left(path):
                remove(path)


def _is_left(path: Path) -> bool:
    """Return whether a temporary file is one of ours and its process has ended."""
    name = _NAME.fullmatch(path.name)
    if name is None:
        return False
    stat = path.lstat()
    # Another user's processes may be hidden from us.
    hidden = os.geteuid() not in (0, stat.st_uid)
    if hidden or name["place"] != _place() or name["start"] == _UNKNOWN:
        return time.time() - stat.st_mtime > _FOREIGN_S
    return name["boot"] != _boot() or _start_ticks(int(name["pid"])) != name["start"]


def remove(path: Path) -> None:
    """Remove a file, a link or a folder with all that is in it; what cannot be removed stays."""
    with contextlib.suppress(OSError):  # someone else may sweep at the same time
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _start_ticks(pid: int) -> str:
    """Return the time at which a process began, in ticks since boot."""
    # The second field is a name in parentheses, which may hold anything.
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return fields[19] if fields and fields[0] not in "ZX" else _UNKNOWN


@cache
def _boot() -> str:
    return _digest(_read("/proc/sys/kernel/random/boot_id"))


@cache
def _place() -> str:
    """Identify the computer and container within which process numbers can be compared."""
    try:
        numbers = str(Path("/proc/self/ns/pid").stat().st_ino)
    except OSError:
        numbers = ""
    return _digest(f"{socket.gethostname()}\0{_read('/etc/machine-id')}\0{numbers}")


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
