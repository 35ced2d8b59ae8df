"""The computer: its name for reports, and whether it has NVIDIA's driver."""

import ctypes
import platform
import sys
from functools import cache
from pathlib import Path

_BOARD = Path("/proc/device-tree/model")  # Jetson, Raspberry Pi
_PROCESSORS = Path("/proc/cpuinfo")


def processor_name() -> str:
    """Return the name of the board and of the processor, as far as they are known."""
    board = _text(_BOARD).strip("\0 \n")
    lines = _text(_PROCESSORS).splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    name = names[0] if names else platform.processor() or platform.machine()
    return ", ".join(filter(None, [board, name]))


@cache
def has_cuda() -> bool:
    """Return whether NVIDIA's driver is here, without which no CUDA library starts."""
    try:
        ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return False
    return True


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
