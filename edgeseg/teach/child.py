"""The process beside the service: reads one job, works at low priority, tells how far it is.

stdin   {"job": "fit", "project": FOLDER, "folder": FOLDER}; its end ends the process
stdout  {"share": 0.4, "sentence": ...} again and again, then {"done": ...} or {"failed": ...}
"""

import json
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TextIO, TypeVar

from edgeseg.errors import EdgesegError
from edgeseg.extras import install_command
from edgeseg.memory_limit import out_of_memory
from edgeseg.teach.jobs import JOBS
from edgeseg.teach.priority import give_way
from edgeseg.teach.project import Project

Item = TypeVar("Item")
_LOOPS_END = 0.85  # of the way: what comes after the loops of a fit
_ORPHANED = 3


class Teller:
    """Tells the service how far the job is; takes the progress and the notes of a fit."""

    def __init__(self, out: TextIO) -> None:
        self._out, self._share = out, 0.0
        self._lock = threading.Lock()

    def tell(self, **facts: Any) -> None:
        """One line."""
        with self._lock:
            self._out.write(json.dumps(facts) + "\n")
            self._out.flush()

    def at(self, share: float, sentence: str) -> None:
        """So far."""
        self._share = share
        self.tell(share=round(share, 3), sentence=sentence)

    def note(self, text: str) -> None:
        """A line about what is going on."""
        self.tell(share=round(self._share, 3), sentence=text)

    def progress(self, items: Iterable[Item], *, length: int, label: str) -> Iterator[Item]:
        """A loop of the fit; how many there will be nobody knows, the first is the longest."""
        begin = self._share
        span = 0.6 * (_LOOPS_END - begin)
        for done, item in enumerate(items):
            part = min(1.0, done / max(1, length))
            self.at(begin + span * part, f"{label}: {done} of {length}")
            yield item
        self.at(begin + span, f"{label}: {length} of {length}")


def work(job: dict[str, Any], teller: Teller) -> int:
    """Do one job; its exit code."""
    try:
        project, folder = Project.opened(Path(job["project"])), Path(job["folder"])
        done = JOBS[job["job"]](project, folder, teller)
        teller.tell(done=done)
        return 0
    except EdgesegError as error:
        teller.tell(failed=str(error))
    except ModuleNotFoundError as error:
        install = install_command(error.name or "") or f"pip install {error.name}"
        teller.tell(failed=f"{error.name} is not installed here; run: {install}")
    except Exception as error:
        if not out_of_memory(error):
            raise
        teller.tell(failed="not enough memory; close other programs, or take fewer pictures")
    return 1


def main(do: Callable[[dict[str, Any], Teller], int] = work) -> int:
    """Read the job from standard input."""
    give_way()
    # Libraries may print what they like: it goes to the log, and not between our lines.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    job = json.loads(sys.stdin.readline())
    ended = threading.Event()
    threading.Thread(target=_end_with_the_service, args=(ended,), daemon=True).start()
    try:
        return do(job, Teller(out))
    finally:
        ended.set()


def _end_with_the_service(ended: threading.Event) -> None:
    """Nobody would take the result of a service that is gone."""
    sys.stdin.read()
    if not ended.is_set():
        os._exit(_ORPHANED)


if __name__ == "__main__":
    sys.exit(main())
