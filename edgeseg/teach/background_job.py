"""A job in a child process of low priority: progress, cancel, and one clear end.

    BackgroundJob.start --stdin {"job": "fit", "project": FOLDER, "folder": FOLDER}--> child: main
    ProgressWriter --stdout {"share": 0.4, "sentence": ...}, then {"done": ...} or {"failed": ...}
    GivingWay      --stdout {"core": 0.1}: the share of a core that it gets

A sentence is a message, {"key", "values"}, or words without a key; what failed is an error's parts.

The child works in a folder that nobody else looks at. What it made takes its place in the project
only after it has ended well; a child that fails, is cancelled or killed leaves what was there. The
end of its standard input ends the child.
"""

import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import IO, Any

from edgeseg.base.errors import EdgesegError, UsageError, words_of
from edgeseg.base.extras import install_command
from edgeseg.base.files import temporary_folder
from edgeseg.base.memory_limit import out_of_memory
from edgeseg.base.messages import Message, Setting, Words, read_words
from edgeseg.base.plain import Malformed, parse_object
from edgeseg.teach.giving_way import GivingWay, give_way_here
from edgeseg.teach.job_progress import ProgressWriter, TimeLeft
from edgeseg.teach.project import Project

CHILD = (sys.executable, "-m", "edgeseg.teach.background_job")
# The jobs of a child: (Project, folder, JobProgress) -> its last message; each loads its own needs.
JOBS = {"fit": "edgeseg.teach.fit_job:fit", "next": "edgeseg.teach.learning:next_version"}
_GRACE_S = 3.0  # between asking and killing
_TAIL = 4000  # characters of what a crashed child said last
_ORPHANED = 3  # exit code
_NOTHING: AbstractContextManager[None] = nullcontext()

Finish = Callable[[Path, dict[str, Any]], Words]  # takes the folder and the result; a sentence


class BackgroundJob:
    """One kind of job, at most one at a time."""

    def __init__(self, project: Project, *, command: Sequence[str] = CHILD) -> None:
        self._project, self._command = project, tuple(command)
        self._lock = threading.Lock()
        self._state, self._share = "none", 0.0
        self._core: float | None = None  # share of a core that the child got of late
        self._left = TimeLeft()
        self._sentence: Words = ""
        self._setting: Setting | None = None  # that a failure is about
        self._process: subprocess.Popen[str] | None = None
        self._thread: threading.Thread | None = None
        self._cancelled = self._by_child = False

    @property
    def running(self) -> bool:
        """Whether a job is under way."""
        return self._state == "running"

    def facts(self) -> dict[str, Any]:
        """Facts of the job for `state`."""
        with self._lock:
            named, running = self._setting, self.running
            return {
                "state": self._state,
                "share": self._share,
                "sentence": self._sentence,
                "setting": None
                if named is None
                else {"name": named.name, "value": str(named.value)},
                "left_s": self._left.seconds() if running else None,
                "core": self._core if running else None,
            }

    def start(
        self,
        job: str,
        *,
        finish: Finish,
        sentence: Words,
        around: AbstractContextManager[None] = _NOTHING,
    ) -> None:
        """Start a job in a child, within `around`; UsageError while another is under way."""

        def through_child() -> Words:
            with around, temporary_folder(self._project.folder, name=job) as folder:
                return finish(folder, self._through(job, folder))

        self._start(through_child, sentence=sentence, by_child=True)

    def start_here(self, do: Callable[[], Words], *, sentence: Words) -> None:
        """Start a job in a thread of this process; it returns a sentence, or raises."""
        self._start(do, sentence=sentence, by_child=False)

    def _start(self, do: Callable[[], Words], *, sentence: Words, by_child: bool) -> None:
        with self._lock:
            if self._state == "running":
                raise UsageError(Message("work_busy", what=self._sentence))
            self._state, self._share, self._sentence = "running", 0.0, sentence
            self._cancelled, self._by_child, self._setting = False, by_child, None
            self._core, self._left = None, TimeLeft()
        self._thread = threading.Thread(target=self._run, args=(do,), name="job", daemon=True)
        self._thread.start()

    def cancel(self) -> None:
        """Cancel the job of a child; nothing of it stays."""
        with self._lock:
            if self._state != "running":
                raise UsageError(Message("work_none"))
            if not self._by_child:
                raise UsageError(Message("work_last_step"))
            self._cancelled = True
            process = self._process
        if process is not None:
            _end(process)
        self.wait(2 * _GRACE_S)

    def close(self) -> None:
        """Cancel the job, or wait for one that takes seconds."""
        with suppress(UsageError):
            self.cancel()
        self.wait(2 * _GRACE_S)

    def wait(self, timeout_s: float | None = None) -> None:
        """Wait until the job has ended."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)

    def _run(self, do: Callable[[], Words]) -> None:
        if not self._by_child:  # which would inherit it, and may not come back
            give_way_here()
        try:
            self._end_as("done", do())
        except EdgesegError as error:
            state = "cancelled" if self._cancelled else "failed"
            self._end_as(state, words_of(error), setting=error.setting)
        except OSError as error:
            self._end_as("failed", f"{error.filename or self._project.folder}: {error.strerror}")
        except Exception as error:  # a defect of the program: nothing stays under way for ever
            kind = type(error).__name__
            self._end_as("failed", Message("work_defect", kind=kind, what=str(error)))
            raise

    def _end_as(self, state: str, sentence: Words, *, setting: Setting | None = None) -> None:
        with self._lock:
            self._process = None
            self._share = 1.0 if state == "done" else self._share
            self._sentence, self._setting = sentence, setting
            self._state = state  # last: whoever sees it finds the rest

    def _through(self, job: str, folder: Path) -> dict[str, Any]:
        """Run the child; return its last message."""
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log:
            process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,  # ended with all that it has started
            )
            with self._lock:
                self._process = process
                cancelled = self._cancelled
            if cancelled:
                _end(process)
            last = self._listen(
                process, {"job": job, "project": str(self._project.folder), "folder": str(folder)}
            )
            code = process.wait()
            if self._cancelled:
                raise EdgesegError(Message("work_cancelled"))
            if "failed" in last:
                raise EdgesegError.from_json(last["failed"])
            if code or "done" not in last:
                raise EdgesegError(_why(code, log))
            done = last["done"]
            return done if isinstance(done, dict) else {}

    def _listen(self, process: "subprocess.Popen[str]", job: dict[str, str]) -> dict[str, Any]:
        assert process.stdin is not None
        assert process.stdout is not None  # both are pipes
        last: dict[str, Any] = {}
        try:
            process.stdin.write(json.dumps(job) + "\n")
            process.stdin.flush()
            for line in process.stdout:
                with suppress(Malformed):
                    last = parse_object(line)
                    self._follow(last)
        except OSError:
            pass  # it has died: its exit code says how
        finally:
            with suppress(OSError):
                process.stdin.close()
            process.stdout.close()
        return last

    def _follow(self, told: dict[str, Any]) -> None:
        share, core = told.get("share"), told.get("core")
        with self._lock:
            if isinstance(core, int | float):
                self._core = float(core)
            if isinstance(share, int | float) and "sentence" in told:
                self._share = max(self._share, min(1.0, float(share)))
                self._sentence = read_words(told["sentence"])
                self._left.note(self._share)


def _end(process: "subprocess.Popen[str]") -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        try:
            process.wait(_GRACE_S)
            return
        except subprocess.TimeoutExpired:
            continue


def _why(code: int, log: IO[str]) -> Message:
    """Say why a child ended without a message, by its exit code and its last line."""
    if code == -signal.SIGKILL:
        return Message("work_killed")
    if code < 0:
        return Message("work_signal", n=-code)
    log.seek(0, os.SEEK_END)
    log.seek(max(0, log.tell() - _TAIL))
    lines = log.read().strip().splitlines()
    said = lines[-1][:300] if lines else f"exit code {code}"
    return Message("work_failed", why=said)


def _job(name: str) -> Callable[[Project, Path, ProgressWriter], dict[str, Any]]:
    module, _, function = JOBS[name].partition(":")
    found: Callable[[Project, Path, ProgressWriter], dict[str, Any]]
    found = getattr(importlib.import_module(module), function)
    return found


def do_job(job: dict[str, Any], writer: ProgressWriter) -> int:
    """Do one job; return its exit code."""
    try:
        project, folder = Project.open(Path(job["project"])), Path(job["folder"])
        done = _job(job["job"])(project, folder, writer)
        writer.tell(done=done)
        return 0
    except EdgesegError as error:
        writer.fail(error)
    except ModuleNotFoundError as error:
        install = install_command(error.name or "") or f"pip install {error.name}"
        message = Message("work_not_installed", name=error.name, command=install)
        writer.fail(EdgesegError(message))
    except Exception as error:
        if not out_of_memory(error):
            raise
        writer.fail(EdgesegError(Message("work_memory")))
    return 1


def main() -> int:
    """Read the job from standard input."""
    # Libraries may print what they like: it goes to the log, and not between our lines.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    job = json.loads(sys.stdin.readline())
    ended, writer = threading.Event(), ProgressWriter(out)
    priority = GivingWay(lambda share: writer.tell(core=round(share, 3)))
    for watch in (_end_with_the_service, priority.watch):
        threading.Thread(target=watch, args=(ended,), daemon=True).start()
    try:
        return do_job(job, writer)
    finally:
        ended.set()


def _end_with_the_service(ended: threading.Event) -> None:
    """End this process when the service is gone."""
    sys.stdin.read()
    if not ended.is_set():
        os._exit(_ORPHANED)


if __name__ == "__main__":
    sys.exit(main())
