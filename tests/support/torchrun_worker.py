"""`edgeseg`, in which one process dies: torchrun torchrun_worker.py RANK BATCHES COMMAND...

What ends by itself says which threads are left then.
"""

import atexit
import os
import signal
import sys
import time
from pathlib import Path

from edgeseg.cli.group import main
from edgeseg.fitting.checkpoint import Checkpoint, Collected

doomed, batches = int(sys.argv[1]), int(sys.argv[2])
sys.argv[1:] = sys.argv[3:]
save = Checkpoint.save_if_due


def save_and_die(self: Checkpoint, collected: Collected) -> None:
    """The power fails right after a checkpoint."""
    save(self, collected)
    if int(os.environ["RANK"]) == doomed and collected.batches == batches:
        while len(list(self.path.parent.glob("*.moments"))) < int(os.environ["WORLD_SIZE"]):
            time.sleep(0.01)  # until the others are on their way, too
        os.kill(os.getpid(), signal.SIGKILL)


def tell_threads() -> None:
    """Of this process and its libraries, as the kernel names them."""
    names = sorted(path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm"))
    # In one write: several processes talk at once, and print may write the end of a line apart.
    os.write(2, f"threads left: {' '.join(names)}\n".encode())


Checkpoint.save_if_due = save_and_die  # type: ignore[method-assign]
atexit.register(tell_threads)
main()
