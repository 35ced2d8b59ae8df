"""Several processes, as torchrun starts them: joining, summing, and ending together.

`torchrun --nproc-per-node 2 -m edgeseg fit ...`: gloo between processes; each may embed on a GPU.
"""

import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import FrameType
from typing import Any, TypeVar

import torch
import torch.distributed as dist

# Loaded before there is a group: its functions would keep one as a default, and with it gloo's
# threads, which abort a process whose interpreter ends while they let go of a tensor.
import torch.distributed.nn
from numpy.typing import NDArray

from edgeseg.base.errors import EdgesegError
from edgeseg.base.messages import Sentence, Setting
from edgeseg.fitting.parallel.silence import notice_silence
from edgeseg.fitting.process_group import ALONE, CHUNK_BYTES, ProcessGroup
from edgeseg.model.parallel import THREADS_VARIABLE

Value = TypeVar("Value")

# A process that dies closes its connections and is noticed at once. This is for one that hangs;
# the slowest shard may keep the others waiting this long.
TIMEOUT = timedelta(hours=2)
_PATIENCE_S = 10.0  # until torchrun has noticed which process is gone
_FAILURE = "failure"
_ELSEWHERE = "a rank on another host ended before the others, or its host does not answer"


class OtherFailed(EdgesegError):
    """The failure of another process, which has said why: this one ends silently."""


class _Lost(Exception):
    """The loss of a connection to another process, or a signal to stop."""


class Processes(ProcessGroup):
    """One process of several."""

    def __init__(self, store: Any, *, rank: int, size: int) -> None:
        self.store, self.rank, self.size = store, rank, size

    def sum_(self, values: NDArray[Any]) -> NDArray[Any]:
        """Sum over all processes, in place, a bounded part at a time."""
        # The same memory; a copy would lose the result: refuse what is not contiguous.
        flat = torch.from_numpy(values).view(-1)
        step = CHUNK_BYTES // flat.element_size()
        for start in range(0, len(flat), step):
            self._together(lambda part: dist.all_reduce(part), flat[start : start + step])
        return values

    def gather(self, value: Value) -> list[Value]:
        """Return a plain value of every process, in the order of ranks."""
        values: list[Any] = [None] * self.size
        self._together(lambda own: dist.all_gather_object(values, own), value)
        return values

    def check(self) -> None:
        """Stop if another process has failed."""
        if self._failure() is not None:
            raise _Lost

    def _together(self, call: Callable[[Any], Any], value: Any) -> None:
        self.check()
        try:
            call(value)
        except RuntimeError as error:
            raise _Lost(str(error)) from None

    def _failure(self) -> str | None:
        try:
            return self.store.get(_FAILURE).decode() if self.store.check([_FAILURE]) else None
        except RuntimeError:  # the process that held the store is gone
            return None

    def first_to_say(self, reason: str) -> bool:
        """Leave the reason for the others; only the first process tells the user."""
        try:
            return bool(self.store.compare_set(_FAILURE, "", reason).decode() == reason)
        except RuntimeError:
            return True

    def find_lost(self) -> str:
        """Name the process that ended without a word, as far as this host can see."""
        try:
            pids = [self.store.get(f"pid{rank}").decode().split() for rank in range(self.size)]
        except RuntimeError:  # the store went with it
            return _ELSEWHERE
        here = {rank: int(pid) for rank, (host, pid) in enumerate(pids) if host == _host()}
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline:
            gone = [str(rank) for rank, pid in here.items() if not _runs(pid)]
            if gone:
                return f"rank {' and '.join(gone)} ended before the others"
            if len(here) < self.size:
                return _ELSEWHERE
            time.sleep(0.1)
        return "this job was stopped from outside"


@contextmanager
def processes() -> Iterator[ProcessGroup]:
    """Yield the group that torchrun has started this process in, or this process alone."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield ALONE
        return
    group = _join(int(os.environ["RANK"]), size)
    before = signal.signal(signal.SIGTERM, _stop)
    try:
        yield group
    except Exception as error:
        # torchrun ends the others as soon as it sees one gone; the reason comes first.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        ending = _explain(group, error)
        raise ending from (None if isinstance(ending, EdgesegError) else error.__cause__)
    finally:
        signal.signal(signal.SIGTERM, before)
    dist.destroy_process_group()


def choose_device() -> str:
    """Return this process's GPU, or the CPU where there is none."""
    if not torch.cuda.is_available():
        return "cpu"
    # Ten bits of mantissa are no float32, and the same fit should give the same bytes.
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.deterministic = True
    device = f"cuda:{int(os.environ.get('LOCAL_RANK', '0'))}"
    torch.cuda.set_device(device)
    return device


def _join(rank: int, size: int) -> Processes:
    local = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if os.environ.get(THREADS_VARIABLE) == "1":  # torchrun's own default, for want of a better
        threads = max(1, (os.cpu_count() or 1) // local)
        torch.set_num_threads(threads)
        os.environ[THREADS_VARIABLE] = str(threads)
    from torch.distributed import PrefixStore  # type: ignore[attr-defined]
    from torch.distributed.rendezvous import rendezvous

    try:
        store, _, _ = next(rendezvous("env://", timeout=TIMEOUT))
        dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=TIMEOUT)
    except (RuntimeError, ValueError) as error:
        raise EdgesegError(
            f"rank {rank} of {size} cannot reach the others ({str(error).splitlines()[0]}); start "
            "all with torchrun, on several hosts with the same --rdzv-endpoint"
        ) from None
    notice_silence()
    shared = PrefixStore("edgeseg", store)
    shared.set(f"pid{rank}", f"{_host()} {os.getpid()}")
    return Processes(shared, rank=rank, size=size)


def _explain(group: Processes, error: Exception) -> Exception:
    """Return the error that this process should end with: one process tells for all of them."""
    again = Setting("resume", True)
    if isinstance(error, _Lost):
        if group._failure() is not None:
            return OtherFailed("another process has failed")
        reason = Sentence(
            f"{group.find_lost()}: killed, or out of memory; start again with ", again
        )
    elif isinstance(error, OSError) and error.strerror:
        reason = Sentence(f"rank {group.rank}: {error.filename or 'a file'}: {error.strerror}")
    elif isinstance(error, MemoryError):
        reason = Sentence(f"rank {group.rank}: out of memory; try fewer processes, with ", again)
    else:
        reason = Sentence(f"rank {group.rank}: ", error)
    if not group.first_to_say(reason):
        return OtherFailed("another process has failed")
    if not isinstance(error, EdgesegError | OSError | MemoryError | _Lost):
        return error  # a bug keeps its traceback
    explained = EdgesegError(reason)
    explained.exit_code = getattr(error, "exit_code", 1)
    return explained


def _stop(number: int, frame: FrameType | None) -> None:
    """End on SIGTERM, which torchrun sends to the others when one process has ended."""
    raise _Lost("SIGTERM")


def _host() -> str:
    return socket.gethostname()


def _runs(pid: int) -> bool:
    with contextlib.suppress(OSError):
        os.kill(pid, 0)  # asks, and sends nothing
        return True
    return False
