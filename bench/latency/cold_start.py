"""Cold start of a model in a fresh process: seconds to the first answer, and memory.

Run as `python -m edgeseg.bench.latency.cold_start MODEL BACKEND HEIGHT WIDTH THREADS SPIN`; prints
JSON.
"""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from edgeseg.base.errors import EdgesegError, RuntimeFailure
from edgeseg.bench.harness.machine import peak_mb
from edgeseg.bench.harness.processes import last_line
from edgeseg.runtime.backends.session_options import SessionOptions

_STARTED = time.perf_counter()
_TIMEOUT_S = 600


def cold_start(
    path: Path,
    *,
    backend: str,
    options: SessionOptions,
    size_hw: tuple[int, int],
    repeats: int = 3,
) -> dict[str, float]:
    """Start a process `repeats` times and take the medians of its own report."""
    numbers = (*size_hw, options.thread_count, int(options.spin))
    runs = [_fresh_process([str(path), backend, *map(str, numbers)]) for _ in range(repeats)]
    names = runs[0].keys()
    return {name: sorted(run[name] for run in runs)[len(runs) // 2] for name in names}


def _fresh_process(words: list[str]) -> dict[str, float]:
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "edgeseg.bench.latency.cold_start", *words],
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        reason = last_line(done.stderr)
        raise RuntimeFailure(f"{words[0]}: a fresh process cannot run it ({reason})")
    report: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    # From the start of Python to its end; `edgeseg stream` shows its first frame after as long.
    return report | {"process_s": time.perf_counter() - started}


def measure(words: list[str]) -> dict[str, Any]:
    """Load and run once, inside the fresh process."""
    import numpy as np

    from edgeseg.bench.latency.runners import open_runner

    path, backend, *numbers = words
    height, width, threads, spin = map(int, numbers)
    before_mb = peak_mb()
    opened = time.perf_counter()
    runner = open_runner(
        Path(path),
        backend=backend,
        options=SessionOptions(threads=threads, spin=bool(spin)),
        size_hw=(height, width),
    )
    loaded = time.perf_counter()
    feed = runner.prepare(np.full((*runner.size_hw, 3), 128, np.uint8))
    first = time.perf_counter()
    runner.run(feed)
    answered = time.perf_counter()
    return {
        "load_s": loaded - opened,  # with the import of the backend
        "first_run_ms": (answered - first) * 1e3,
        "to_first_answer_s": answered - _STARTED,
        "memory_mb": peak_mb() - before_mb,
        "peak_mb": peak_mb(),
    }


if __name__ == "__main__":
    try:
        print(json.dumps(measure(sys.argv[1:])))
    except EdgesegError as error:
        sys.exit(str(error))
