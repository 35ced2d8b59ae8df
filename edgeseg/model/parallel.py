"""Work on many small matrices on all cores: chunks in threads, one BLAS thread each.

BLAS's own threads make small eigenproblems slower, up to forty times on a busy machine; numpy lets
other threads run while it computes.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any

# A chunk of float64 work space: 64 MB holds 800 locations of k=100, and bounds Wide ResNet-50-2
# with k=300 as well.
CHUNK_BYTES = 64 << 20
THREADS_VARIABLE = "OMP_NUM_THREADS"


def worker_threads() -> int:
    """Return as many threads as the user allows, or as this process has cores."""
    wish = os.environ.get(THREADS_VARIABLE, "")
    if wish.isdecimal() and int(wish) > 0:
        return int(wish)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_parallel(fill: Callable[[int, int], None], count: int, *, bytes_each: int) -> None:
    """Run `fill` on spans of `count` things, which need so many bytes of work space each."""
    threads = worker_threads()
    step = max(1, min(count // (4 * threads) + 1, CHUNK_BYTES // max(bytes_each, 1)))
    spans = [(start, min(start + step, count)) for start in range(0, count, step)]
    with one_blas_thread():
        if threads == 1 or len(spans) == 1:
            for span in spans:
                fill(*span)
            return
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(lambda span: fill(*span), spans))


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let BLAS compute in the calling thread, if threadpoolctl is installed."""
    controller = _blas()
    if controller is None:
        yield
        return
    with controller.limit(limits=1):
        yield


@cache
def _blas() -> Any:
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return None
    return ThreadpoolController().select(user_api="blas")
