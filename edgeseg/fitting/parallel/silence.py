"""Notice that another host is gone: without power, or behind a cable that nobody puts back."""

import os
import socket
from pathlib import Path

# A host that is gone closes nothing. Kernels answer each other however busy a process is, so one
# that has not answered for so long is gone; a cable that is back sooner is no loss.
SILENCE_S = 75


def notice_silence(seconds: int = SILENCE_S) -> None:
    """Let the kernel end every connection of this process to a host that does not answer.

    Libraries that open connections, such as gloo, have no setting for it.
    """
    every_s = max(1, seconds // 5)
    wanted = {"TCP_KEEPIDLE": every_s, "TCP_KEEPINTVL": every_s, "TCP_KEEPCNT": 4}
    wanted["TCP_USER_TIMEOUT"] = 1000 * seconds  # of what was sent and not acknowledged
    known = {getattr(socket, name): wanted[name] for name in wanted if hasattr(socket, name)}
    for path in Path("/dev/fd").iterdir():
        if not path.is_socket():
            continue
        with socket.socket(fileno=os.dup(int(path.name))) as connection:
            if connection.family in (socket.AF_INET, socket.AF_INET6):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                for option, value in known.items():
                    connection.setsockopt(socket.IPPROTO_TCP, option, value)
