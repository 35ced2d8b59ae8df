"""A whole station at full speed: four sources, three viewers, an MQTT and a Modbus client.

    python -m edgeseg.bench.studies.line.soak_line --model part.onnx --minutes 60

The stream is a process of its own; its memory, threads and descriptors are read from outside, its
p99 from /metrics as it goes. In the end every frame must be accounted for: in = scored + dropped,
and every scored frame is a result that the MQTT client has got. Needs mosquitto for MQTT.
"""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click
import numpy as np

from edgeseg.bench.studies.line.plc import ModbusPlc
from edgeseg.bench.studies.trust.report import OUT, markdown, write_rows
from edgeseg.errors import RuntimeFailure
from edgeseg.files import temporary_folder
from edgeseg.options import note
from edgeseg.runtime.adapters.modbus_map import STATUS

SETTLING = 0.2  # share of the time in which caches fill and threads start
LEAK_MB_PER_HOUR = 10.0
_P99 = re.compile(
    r'edgeseg_stage_seconds\{[^}]*quantile="0.99"[^}]*stage="end_to_end"[^}]*\} (\S+)'
)


@dataclass(frozen=True, kw_only=True)
class Sample:
    """The process at one moment."""

    seconds: float
    memory_mb: float
    threads: int
    descriptors: int
    p99_ms: float  # end to end, of the last frames; NaN before the first


@dataclass(kw_only=True)
class Clients:
    """What clients have seen."""

    pictures: list[int]  # of each viewer
    mqtt_results: int = 0
    modbus_reads: int = 0
    errors: list[str] = field(default_factory=list)


def free_port() -> int:
    """One that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def sample(pid: int, page: int, begin_s: float) -> Sample:
    """Look at the process from outside."""
    folder = Path(f"/proc/{pid}")
    status = dict(
        line.split(":", 1) for line in (folder / "status").read_text("utf-8").splitlines()
    )
    p99 = float("nan")
    with contextlib.suppress(OSError, urllib.error.URLError):
        with urllib.request.urlopen(f"http://127.0.0.1:{page}/metrics", timeout=10) as answer:
            found = _P99.search(answer.read().decode())
        p99 = p99 if found is None else float(found[1]) * 1000
    return Sample(
        seconds=time.monotonic() - begin_s,
        memory_mb=int(status["VmRSS"].split()[0]) / 1000,
        threads=int(status["Threads"]),
        descriptors=len(list((folder / "fd").iterdir())),
        p99_ms=p99,
    )


def view(page: int, index: int, clients: Clients, stop: threading.Event) -> None:
    """A browser that looks at one source."""
    while not stop.is_set():
        try:
            address = f"http://127.0.0.1:{page}/stream.mjpg?source={index}"
            with urllib.request.urlopen(address, timeout=30) as pictures:
                while not stop.is_set() and (part := pictures.read1(1 << 16)):
                    clients.pictures[index] += part.count(b"Content-Length")
        except OSError:
            stop.wait(0.2)  # not yet listening, or already closed


def poll(port: int, clients: Clients, stop: threading.Event) -> None:
    """A PLC that reads its registers twenty times a second."""
    while not stop.is_set():
        try:
            plc = ModbusPlc("127.0.0.1", port)  # the newest result, none waits for it
            while not stop.wait(0.05):
                plc.read(STATUS, 30)
                clients.modbus_reads += 1
        except (OSError, RuntimeFailure):
            stop.wait(0.2)


@contextlib.contextmanager
def broker(folder: Path, clients: Clients) -> Iterator[str | None]:
    """mosquitto and a client that counts results; None where it is not installed."""
    program = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")
    if program is None:
        note("mosquitto is not installed: no MQTT client")
        yield None
        return
    from paho.mqtt.client import Client
    from paho.mqtt.enums import CallbackAPIVersion

    port = free_port()
    settings = folder / "mosquitto.conf"
    settings.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\n")
    running = subprocess.Popen([program, "-c", str(settings)], stderr=subprocess.DEVNULL)
    client = Client(CallbackAPIVersion.VERSION2)

    def count(*_: Any) -> None:
        clients.mqtt_results += 1

    def subscribe(*_: Any) -> None:
        client.subscribe("soak/result", qos=1)

    client.on_message = count
    client.on_connect = subscribe
    try:
        for _ in range(100):
            with contextlib.suppress(OSError):
                client.connect("127.0.0.1", port)
                break
            time.sleep(0.1)
        client.loop_start()
        yield f"mqtt://127.0.0.1:{port}/soak"
        time.sleep(2.0)  # the last messages are under way
        client.loop_stop()
    finally:
        running.terminate()
        running.wait()


def slope_per_hour(samples: list[Sample]) -> float:
    """Megabytes an hour, by least squares after the beginning has settled."""
    settled = [one for one in samples if one.seconds >= SETTLING * samples[-1].seconds]
    if len(settled) < 2:
        return 0.0
    times = [one.seconds / 3600 for one in settled]
    return float(np.polyfit(times, [one.memory_mb for one in settled], 1)[0])


def judged(samples: list[Sample], report: dict[str, Any], clients: Clients) -> dict[str, Any]:
    """The run in one row."""
    sources = report["sources"]
    frames, scored = (sum(one[key] for one in sources) for key in ("frames_in", "scored"))
    dropped = sum(sum(one["dropped"].values()) for one in sources)
    settled = samples[int(SETTLING * len(samples)) :]
    quarter = max(1, len(settled) // 4)
    first, last = settled[:quarter], settled[-quarter:]
    p99 = [float(np.median([one.p99_ms for one in part])) for part in (first, last)]
    return {
        "minutes": samples[-1].seconds / 60,
        "in": frames,
        "scored": scored,
        "dropped": dropped,
        "not accounted for": frames - scored - dropped,
        "MQTT results": clients.mqtt_results,
        "Modbus reads": clients.modbus_reads,
        "pictures": sum(clients.pictures),
        "memory MB": settled[-1].memory_mb,
        "MB per hour": slope_per_hour(samples),
        "threads": f"{first[0].threads} to {last[-1].threads}",
        "descriptors": f"{first[0].descriptors} to {last[-1].descriptors}",
        "p99 ms, first and last quarter": f"{p99[0]:.1f}, {p99[1]:.1f}",
    }


def failures(row: dict[str, Any], *, mqtt: bool) -> Iterator[str]:
    """What may not be."""
    if row["not accounted for"] != 0:
        yield "in is not scored + dropped"
    if mqtt and row["MQTT results"] != row["scored"]:
        yield f"{row['MQTT results']} MQTT results of {row['scored']} scored frames"
    hours = row["minutes"] / 60
    if hours >= 0.5 and row["MB per hour"] > LEAK_MB_PER_HOUR:
        yield f"memory grows by {row['MB per hour']:.1f} MB an hour"


@click.command(context_settings={"show_default": True})
@click.option("--model", type=click.Path(exists=True, path_type=Path), required=True)
@click.option("--minutes", type=click.FloatRange(0.05), default=60.0)
@click.option("--sources", type=click.IntRange(1), default=4)
@click.option("--viewers", type=click.IntRange(0), default=3)
@click.option("--fps", type=click.FloatRange(1), default=30.0, help="Of each source.")
@click.option("--allow-random-weights", is_flag=True, help="Run a model that was never trained.")
@click.option("--out", type=click.Path(path_type=Path), default=OUT, help="Folder of the report.")
def main(
    model: Path,
    minutes: float,
    sources: int,
    viewers: int,
    fps: float,
    allow_random_weights: bool,
    out: Path,
) -> None:
    """Run a station for as long as you like, and fail on a leak or a lost frame."""
    clients = Clients(pictures=[0] * sources)
    page, modbus = free_port(), free_port()
    with temporary_folder(out, name="soak") as folder, broker(folder, clients) as mqtt:
        words = [sys.executable, "-m", "edgeseg", "stream", "--model", str(model)]
        for index in range(sources):
            words += ["--source", f"synthetic:fps={fps:g},defects=0.1,seed={index}"]
        words += ["--duration", f"{minutes * 60:g}", "--serve", str(page)]
        words += ["--modbus", str(modbus), "--events", str(folder / "events.jsonl")]
        words += ["--report", str(folder / "report.json"), "--status-every", "0"]
        words += ["--allow-random-weights"] if allow_random_weights else []
        words += [] if mqtt is None else ["--mqtt", mqtt]
        samples = watched(words, clients, page=page, modbus=modbus, viewers=viewers)
        report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    row = judged(samples, report, clients)
    click.echo(markdown([row]))
    write_rows(out, "soak", title="A station at full speed", rows=[row])
    note(f"{len(samples)} samples; the last: {asdict(samples[-1])}")
    if broken := list(failures(row, mqtt=mqtt is not None)):
        raise SystemExit(f"FAILED: {'; '.join(broken)}")


def watched(
    words: list[str], clients: Clients, *, page: int, modbus: int, viewers: int
) -> list[Sample]:
    """Run the stream with all its clients until it ends by itself."""
    stop, begin_s, samples = threading.Event(), time.monotonic(), list[Sample]()
    running = subprocess.Popen(words, stdout=subprocess.DEVNULL, env=os.environ)
    threads = [
        threading.Thread(target=view, args=(page, index % len(clients.pictures), clients, stop))
        for index in range(viewers)
    ]
    threads.append(threading.Thread(target=poll, args=(modbus, clients, stop)))
    for thread in threads:
        thread.daemon = True
        thread.start()
    while running.poll() is None:
        with contextlib.suppress(OSError, KeyError):  # it has just ended
            samples.append(sample(running.pid, page, begin_s))
        time.sleep(2.0)
    stop.set()
    # Before the first frame and while it closes the page does not answer.
    steady = [one for one in samples if np.isfinite(one.p99_ms)]
    if running.returncode != 0 or not steady:
        raise SystemExit(f"FAILED: the stream ended with {running.returncode}")
    return steady


if __name__ == "__main__":
    main()
