"""What can run out or change under a running command, each as a way to begin one.

A new fault is an entry of FAULTS.
"""

import contextlib
import datetime
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Need:
    """What an undisturbed run takes."""

    seconds: float
    disk_bytes: int  # beyond what lay there before
    address_bytes: int  # beyond what the process has at its beginning
    descriptors: int


@dataclass(frozen=True, kw_only=True)
class Fault:
    """An entry of FAULTS; `share` is how far the run comes, from 0 to 1."""

    in_child: Callable[[Need, float], None] = lambda need, share: None
    disk: Callable[[Need, float], int | None] = lambda need, share: None  # bytes that are free
    read_only: bool = False
    succeeds: bool = False  # the command must not care at all


def _no_descriptors(need: Need, share: float) -> None:
    limit = 3 + int(share * need.descriptors)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))


def _no_memory(need: Need, share: float) -> None:
    limit = address_bytes() + int(share * need.address_bytes)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _clock(step_s: float) -> Callable[[Need, float], None]:
    def begin(need: Need, share: float) -> None:
        """Step the clock of this process in the middle of its work."""
        offset = [0.0]
        real, real_ns, local, utc = time.time, time.time_ns, time.localtime, time.gmtime
        time.time = lambda: real() + offset[0]
        time.time_ns = lambda: real_ns() + int(offset[0] * 1e9)
        time.localtime = lambda at=None: local(time.time() if at is None else at)
        time.gmtime = lambda at=None: utc(time.time() if at is None else at)
        _step_dates()
        alarm = threading.Timer(share * need.seconds, lambda: offset.__setitem__(0, step_s))
        alarm.daemon = True
        alarm.start()

    return begin


def _step_dates() -> None:
    """Let `datetime.now` of our modules go by the clock above; the type itself takes no patch."""

    class Stepped(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> "Stepped":
            return cls.fromtimestamp(time.time(), tz)

    for name, module in list(sys.modules.items()):
        if name.startswith("edgeseg.") and vars(module).get("datetime") is datetime.datetime:
            module.datetime = Stepped  # type: ignore[attr-defined]


FAULTS: dict[str, Fault] = {
    "disk full": Fault(disk=lambda need, share: int(share * need.disk_bytes)),
    "read-only": Fault(read_only=True),
    "no descriptors": Fault(in_child=_no_descriptors),
    "no memory": Fault(in_child=_no_memory),
    "clock back a day": Fault(in_child=_clock(-86_400.0), succeeds=True),
    "clock on a year": Fault(in_child=_clock(31_536_000.0), succeeds=True),
}


def address_bytes() -> int:
    """Address space of this process."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    return pages * resource.getpagesize()


def descriptors() -> int:
    """Files that this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def can_mount(folder: Path) -> bool:
    """Whether this process may make disks of its own: root, and not in every container."""
    try:
        with small_disk(folder / "disk"):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """A disk of its own for a folder, in memory; needs root."""
    folder.mkdir()
    try:
        _system("mount", "-t", "tmpfs", "-o", "size=2g", "tmpfs", str(folder))
        try:
            yield
        finally:
            _system("umount", "-l", str(folder))
    finally:
        folder.rmdir()


@contextmanager
def disturbed_disk(folder: Path, fault: Fault, need: Need, share: float) -> Iterator[None]:
    """Let a small disk have too little room, or take nothing, for as long as this lasts."""
    free = fault.disk(need, share)
    options = []
    if free is not None:
        used = sum(_pages(path) for path in folder.rglob("*"))
        options = [f"size={used + _pages_of(free)}"]
    if fault.read_only:
        options = ["ro"]
    if options:
        _system("mount", "-o", ",".join(["remount", *options]), str(folder))
    try:
        yield
    finally:
        with contextlib.suppress(subprocess.CalledProcessError):
            _system("mount", "-o", "remount,rw,size=2g", str(folder))


def _pages_of(size: int) -> int:
    page = resource.getpagesize()
    return -(-size // page) * page


def _pages(path: Path) -> int:
    return _pages_of(path.lstat().st_size) if path.is_file() else 0


def _system(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)
