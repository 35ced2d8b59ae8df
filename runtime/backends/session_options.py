"""Options for opening a model; the command line reads the defaults here, so it loads little."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Setting
from edgeseg.modelfile.file_reading import DISK, Files

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

AUTO = "auto"
# The half of a split model that runs elsewhere: uint8 frames (N, H, W, 3) to its taps, float32
# (N, C, h, w), by name or in their order.
RunBackbone = Callable[["NDArray[np.uint8]"], "Mapping[str, NDArray[Any]] | Sequence[NDArray[Any]]"]


@dataclass(frozen=True, kw_only=True)
class SessionOptions:
    """All options of `open_session`, for verification, benchmark, `predict`, check and stream."""

    backend: str = AUTO  # or a key of BACKENDS
    threads: int | None = None  # of the processor; None: all cores that this process may use
    # Idle threads of ONNX Runtime watch for the next run instead of sleeping; OpenVINO has no such
    # option. That saves half a millisecond to two of a frame, for 1.6 to 7 times the processor's
    # time of a streamed one, and a large model pays beside a second camera: resnet18 on two cores
    # takes 1.8 times as long. So it is off; see bench/results/precision/spin.md.
    spin: bool = False
    # Public keys: only files that one of them has signed are opened. None: whatever is there.
    trust: tuple[Path, ...] = ()
    allow_random_weights: bool = False
    backbone: RunBackbone | None = None  # of a split model; None: the file beside its head
    # How the model is read; `open_session` gives what was checked, each file read once.
    files: Files = DISK

    def __post_init__(self) -> None:
        if self.threads is not None and self.threads < 1:
            raise UsageError(Setting("threads", self.threads), ": expected at least 1")

    @property
    def thread_count(self) -> int:
        """The number of threads for a library; their own defaults differ."""
        return self.threads or available_cores()

    @property
    def helper_cores(self) -> tuple[int, ...]:
        """A core for each helper thread of ONNX Runtime, where they are to use all cores.

        ONNX Runtime pins its threads only when it chooses their number itself. Without a core of
        its own, a thread that is woken for a frame may run beside the one that woke it, and half of
        the computer is idle: `spin` measures that too, as the difference of streamed and back to
        back.
        """
        cores = _cores()
        return cores[1:] if self.thread_count == len(cores) else ()


DEFAULTS = SessionOptions()


def available_cores() -> int:
    """Count the cores this process may use: containers and systemd may limit them."""
    return len(_cores()) or os.cpu_count() or 1


def _cores() -> tuple[int, ...]:
    """List the numbers of these cores; none where the system does not tell."""
    return tuple(sorted(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else ()
