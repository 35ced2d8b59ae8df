"""The machine, the time and the versions of a measurement."""

import os
import platform
import resource
import shlex
import shutil
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

from edgeseg import __version__
from edgeseg.base.computer import processor_name
from edgeseg.base.extras import versions
from edgeseg.runtime.backends.session_options import available_cores

PACKAGES = (
    *("edgeseg", "torch", "torchvision", "onnx", "onnxruntime", "onnxruntime-gpu", "openvino"),
    *("tensorrt", "tensorrt-rtx", "numpy", "opencv-python-headless", "anomalib"),
)
BUSY = 0.1  # share of the cores; more, and times are not to be quoted
_SOURCE = Path(__file__).resolve().parent.parent  # bench/


def describe(*, threads: int, seeds: tuple[int, ...] = ()) -> dict[str, Any]:
    """Collect the facts beside every result: machine, versions, commit, seeds and command."""
    return {
        "processor": processor_name(),
        "cores": available_cores(),
        "threads": threads,
        "memory_gb": round(_memory_bytes() / 1e9, 1),
        "gpu": _gpu(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "versions": versions(PACKAGES),
        "commit": commit(),
        "seeds": list(seeds),
        "command": command(),
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
    }


class CoreWatch:
    """Measures how much of the cores others used meanwhile: `with CoreWatch() as cores: ...`.

    A load average would count this process too, and what it did in the minute before.
    """

    others: float = 0.0  # share of the cores that other processes took
    stolen: float = 0.0  # share that the host of a virtual machine kept for itself

    def __enter__(self) -> "CoreWatch":
        self._before = (time.perf_counter(), time.process_time(), *_core_seconds())
        return self

    def __exit__(self, *_: object) -> None:
        now = (time.perf_counter(), time.process_time(), *_core_seconds())
        elapsed, own, busy, stolen = (b - a for a, b in zip(self._before, now, strict=True))
        whole = max(elapsed * available_cores(), 1e-9)
        self.others, self.stolen = max(0.0, busy - own) / whole, stolen / whole

    @property
    def warning(self) -> str | None:
        """Sentence about a machine that was too busy for timing; None if it was not."""
        return disturbance(others=self.others, stolen=self.stolen)


def disturbance(*, others: float, stolen: float) -> str | None:
    """Say that others used too much of the cores; None if they did not."""
    if others + stolen < BUSY:
        return None
    return (
        f"the machine was busy (other processes took {others:.0%} of the cores, the host of a "
        f"virtual machine {stolen:.0%}): times come out too long, and ratios uncertain"
    )


def busy_warning(*, seconds: float = 0.5) -> str | None:
    """Look shortly whether the machine is too busy for timing, and say so; None if it is not."""
    with CoreWatch() as cores:
        time.sleep(seconds)
    return cores.warning


@cache
def commit() -> str:
    """Find the commit of the code, marked if files differ from it; a release has a version only.

    Asked once: the code of a running process does not change with its checkout.
    """
    head = _output("git", "-C", str(_SOURCE), "rev-parse", "--short=12", "HEAD")
    if not head:
        return f"release {__version__}"
    tracked = ("status", "--porcelain", "--untracked-files=no")
    changed = _output("git", "-C", str(_SOURCE), *tracked, "--", "..", ":!../bench/results")
    return f"{head} with changes" if changed else head


def command() -> str:
    """Return the command line that was typed: `edgeseg ...`, or a module by `python -m`."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    module = "" if spec is None else spec.name.removesuffix(".__main__")
    ours = module.startswith(("edgeseg.", "tests."))
    return shlex.join([*(("python", "-m", module) if ours else ("edgeseg",)), *sys.argv[1:]])


def peak_mb() -> float:
    """Return the largest resident size of this process so far, in megabytes."""
    for line in _read(Path("/proc/self/status")).splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024 / 1e6
    # Elsewhere the kernel's own figure, which on Linux would count the parent's memory too.
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def _core_seconds() -> tuple[float, float]:
    """Seconds that our cores have been busy, and that a host has taken from them, since boot."""
    names = {f"cpu{n}" for n in os.sched_getaffinity(0)} if hasattr(os, "sched_getaffinity") else ()
    busy = stolen = 0.0
    for line in _read(Path("/proc/stat")).splitlines():
        name, *ticks = line.split()
        if name in names:
            user, nice, system, _idle, _iowait, irq, softirq, steal = map(float, ticks[:8])
            busy, stolen = busy + user + nice + system + irq + softirq, stolen + steal
    tick = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 1
    return busy / tick, stolen / tick


def _gpu() -> str | None:
    if shutil.which("nvidia-smi") is None:
        return None
    return _output("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader") or None


def _memory_bytes() -> int:
    for line in _read(Path("/proc/meminfo")).splitlines():
        if line.startswith("MemTotal"):
            return int(line.split()[1]) * 1024
    return 0


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _output(*words: str) -> str:
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
