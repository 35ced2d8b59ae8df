"""Run something in a forked process that may be killed at any moment.

The parent imports and never computes: a fork then has neither threads nor locks of another's, and
a command costs its own time only, not that of loading libraries.
"""

import json
import mmap
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Before one of these the process is killed: where a file could be left half done.
_OPERATIONS = frozenset(
    {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link"}
)


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a process ended."""

    code: int  # negative: the signal that killed it
    seconds: float
    operations: int  # on files
    said: str

    @property
    def killed(self) -> bool:
        """By us, before its end."""
        return self.code == -signal.SIGKILL


def run_forked(
    action: Callable[[], object],
    *,
    folder: Path,
    kill_after_s: float | None = None,
    kill_at: int | None = None,
) -> Ended:
    """Run it to its end, or kill it after a time or at its n-th operation on files."""
    log, count = folder / "said.txt", mmap.mmap(-1, 8)
    begin_s = time.monotonic()
    pid = os.fork()
    if pid == 0:
        _child(action, log=log, count=count, kill_at=kill_at)
    if kill_after_s is not None:
        time.sleep(kill_after_s)
        os.kill(pid, signal.SIGKILL)  # a process that has ended is not yet buried: no other's
    _, status = os.waitpid(pid, 0)
    return Ended(
        code=os.waitstatus_to_exitcode(status),
        seconds=time.monotonic() - begin_s,
        operations=int.from_bytes(count[:8], "little"),
        said=log.read_text(encoding="utf-8", errors="replace") if log.exists() else "",
    )


def answer_forked(question: Callable[[], Any], *, folder: Path) -> Any:
    """What a function returns, as plain JSON, from a process of its own."""
    target = folder / "answer.json"
    ended = run_forked(lambda: target.write_text(json.dumps(question())), folder=folder)
    if ended.code != 0:
        raise RuntimeError(ended.said.strip()[-2000:])
    answer = json.loads(target.read_text(encoding="utf-8"))
    target.unlink()
    return answer


def prepared(make: Callable[[Path], object], bench: Path | None, scratch: Path) -> Path:
    """A folder that commands begin with, made in a process of its own unless it is there."""
    folder = scratch / "bench" if bench is None else bench
    if not folder.exists():
        folder.mkdir()
        made = run_forked(lambda: make(folder), folder=scratch)
        if made.code != 0:
            raise SystemExit(f"the bench could not be made: {made.said[-2000:]}")
    return folder


def _child(
    action: Callable[[], object], *, log: Path, count: mmap.mmap, kill_at: int | None
) -> None:
    code = 70
    try:
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        os.close(descriptor)
        sys.stdout = os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", closefd=False)
        tempfile.tempdir = str(log.parent)

        def count_operation(event: str, arguments: Any) -> None:
            if event in _OPERATIONS and (event != "open" or _writes(arguments)):
                number = int.from_bytes(count[:8], "little")
                if number == kill_at:
                    os.kill(os.getpid(), signal.SIGKILL)
                count[:8] = (number + 1).to_bytes(8, "little")

        sys.addaudithook(count_operation)
        action()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _writes(arguments: Any) -> bool:
    flags = arguments[2] if len(arguments) > 2 else 0
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
