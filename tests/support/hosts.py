"""Several hosts on this computer: namespaces for the network, the name and the processes.

A host is reached by its link alone and sees its own processes only. Discs are shared, as storage is
that all hosts see.
"""

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

LINK = "eth0"
NEEDS = ("ip", "tc", "unshare", "hostname")


@dataclass(frozen=True, kw_only=True)
class Host:
    """One host, and the other end of its cable."""

    name: str  # of its namespace and, to its programs, its own
    names: Path  # the file in which it looks up the names of all
    address: str
    switch: str  # the namespace of the switch
    port: str  # of the switch

    def start(self, command: Sequence[object], **streams: int) -> "subprocess.Popen[str]":
        """A program on this host; all that it starts ends with it."""
        begin = 'hostname "$0" && mount --bind "$1" /etc/hosts && shift && exec "$@"'
        spaces = ["unshare", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]
        entered = ["ip", "netns", "exec", self.name, *spaces, "sh", "-c", begin]
        started: subprocess.Popen[str] = subprocess.Popen(
            [*entered, self.name, str(self.names), *map(str, command)],
            # As many threads however many processes share a host: one would be torchrun's default,
            # instead of which edgeseg divides the processors among them.
            env=os.environ | {"OMP_NUM_THREADS": "2", "GLOO_SOCKET_IFNAME": LINK},
            text=True,
            **streams,  # type: ignore[call-overload]
        )
        return started

    def cable(self, *, plugged: bool) -> None:
        """Pull the cable, or put it back: nobody is told of what is lost meanwhile."""
        ip("-n", self.switch, "link", "set", self.port, "up" if plugged else "down")

    def slow_down(self, megabits: int) -> None:
        """Let so many megabits a second pass, each way."""
        limit = f"rate {megabits}mbit burst 64kb latency 200ms".split()
        for place, device in ((self.name, LINK), (self.switch, self.port)):
            run("tc", "-n", place, "qdisc", "add", "dev", device, "root", "tbf", *limit)

    def sent_bytes(self) -> int:
        """All that has left this host, as its network card counts."""
        (link,) = json.loads(ip("-n", self.name, "-s", "-j", "link", "show", LINK))
        return int(link["stats64"]["tx"]["bytes"])


def run(*command: str) -> str:
    """What it printed; CalledProcessError has what it complained of."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def ip(*words: str) -> str:
    """The command of iproute2."""
    return run("ip", *words)


@contextmanager
def hosts(count: int) -> Iterator[list[Host]]:
    """So many hosts at one switch; whatever still runs on them is ended with them."""
    made: list[Host] = []
    names = Path(tempfile.mkdtemp(prefix="edgeseg-")) / "hosts"
    base = names.parent.name.replace("_", "-")
    switch = f"{base}-switch"
    try:
        ip("netns", "add", switch)
        ip("-n", switch, "link", "add", "br0", "type", "bridge")
        ip("-n", switch, "link", "set", "br0", "up")
        for place in range(count):
            name, port = f"{base}-{place}", f"port{place}"
            made.append(
                Host(
                    name=name,
                    names=names,
                    address=f"10.77.0.{place + 1}",
                    switch=switch,
                    port=port,
                )
            )
            ip("netns", "add", name)
            pair = ["type", "veth", "peer", "name", port, "netns", switch]
            ip("-n", name, "link", "add", LINK, *pair)
            ip("-n", switch, "link", "set", port, "master", "br0", "up")
            ip("-n", name, "address", "add", f"{made[-1].address}/24", "dev", LINK)
            for device in ("lo", LINK):
                ip("-n", name, "link", "set", device, "up")
        lines = ["127.0.0.1 localhost", *(f"{host.address} {host.name}" for host in made)]
        names.write_text("\n".join(lines) + "\n")
        yield made
    finally:
        for name in (*(host.name for host in made), switch):
            _end_all(name)
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
        shutil.rmtree(names.parent)


def _end_all(name: str) -> None:
    found = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True).stdout
    for pid in found.split():
        try:
            os.kill(int(pid), signal.SIGKILL)
        except ProcessLookupError:
            continue


@cache
def why_no_hosts() -> str | None:
    """The reason why this computer can have none; None where it can."""
    absent = [name for name in NEEDS if shutil.which(name) is None]
    if absent:
        return f"needs {', '.join(absent)} (Debian: iproute2, util-linux, hostname)"
    try:
        with hosts(1) as (host,):
            host.slow_down(100)
            ended = host.start(["true"], stderr=subprocess.PIPE)
            complaint = ended.communicate()[1]
    except subprocess.CalledProcessError as error:
        return f"no network namespaces here: {error.stderr.strip() or error}"
    return f"no namespaces here: {complaint.strip()}" if ended.returncode else None
