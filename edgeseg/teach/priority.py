"""Work beside a running station gives way to it: the station must not lose a frame."""

import os
import sys
import threading
from contextlib import suppress
from pathlib import Path

_LOWEST = 19


def give_way() -> None:
    """Of this process, which is a session of its own."""
    with suppress(OSError):
        os.nice(_LOWEST)
    # Linux shares processors among sessions first: within its session a niceness weighs nothing
    # against the station.
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text(f"{_LOWEST}\n", encoding="ascii")


def give_way_here() -> None:
    """Of this thread, and of what it starts, such as the session of a golden check."""
    if sys.platform == "linux":  # where a thread has a niceness of its own
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOWEST)
