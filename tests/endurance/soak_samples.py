"""A process seen from outside, again and again, and what its memory does over time."""

import contextlib
import re
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import numpy as np

SETTLING = 0.2  # share of the time in which caches fill and threads start
_BLOCKS = 12  # of the rest: neighbouring samples are not independent, their blocks nearly are
# Of Student's t at 97.5 %, by degrees of freedom.
_T = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26, 10: 2.23}
_P99 = re.compile(
    r'edgeseg_stage_seconds\{[^}]*quantile="0.99"[^}]*stage="end_to_end"[^}]*\} (\S+)'
)


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A process at one moment."""

    seconds: float
    memory_mb: float  # its own, without files that are mapped
    threads: int
    descriptors: int
    p99_ms: float  # end to end, of the last frames; NaN before the first


@dataclass(frozen=True, kw_only=True)
class Slope:
    """Megabytes an hour, with 95 % confidence."""

    mb_per_hour: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mb_per_hour:+.1f} ({self.low:+.1f} to {self.high:+.1f})"


def sample(pid: int, page: int, begin_s: float) -> Sample:
    """Look at a process; it may have just ended."""
    folder = Path(f"/proc/{pid}")
    lines = (folder / "status").read_text("utf-8").splitlines()
    status = dict(line.split(":", 1) for line in lines)
    p99 = float("nan")
    with contextlib.suppress(OSError, urllib.error.URLError):
        with urllib.request.urlopen(f"http://127.0.0.1:{page}/metrics", timeout=10) as answer:
            found = _P99.search(answer.read().decode())
        p99 = p99 if found is None else float(found[1]) * 1000
    return Sample(
        seconds=time.monotonic() - begin_s,
        memory_mb=int(status["RssAnon"].split()[0]) / 1000,
        threads=int(status["Threads"]),
        descriptors=len(list((folder / "fd").iterdir())),
        p99_ms=p99,
    )


def settled(samples: list[Sample]) -> list[Sample]:
    """Those after the beginning."""
    return [one for one in samples if one.seconds >= SETTLING * samples[-1].seconds]


def slope(samples: list[Sample]) -> Slope:
    """A line through the medians of blocks of the settled samples."""
    blocks = np.array_split(np.array([(one.seconds, one.memory_mb) for one in samples]), _BLOCKS)
    points = np.array([np.median(block, axis=0) for block in blocks if len(block)])
    hours, memory = points[:, 0] / 3600, points[:, 1]
    if len(points) < 3 or np.ptp(hours) == 0:
        return Slope(mb_per_hour=0.0, low=-np.inf, high=np.inf)
    spread = hours - hours.mean()
    rate = float(spread @ memory / (spread @ spread))
    residuals = memory - memory.mean() - rate * spread
    free = len(points) - 2
    error = float(np.sqrt(residuals @ residuals / free / (spread @ spread)))
    margin = _T[min(free, max(_T))] * error
    return Slope(mb_per_hour=rate, low=rate - margin, high=rate + margin)


def quarters(samples: list[Sample]) -> list[float]:
    """The median p99 of each quarter of the time, in milliseconds."""
    parts = np.array_split(np.array([one.p99_ms for one in samples]), 4)
    return [float(np.median(part)) for part in parts if len(part)]
