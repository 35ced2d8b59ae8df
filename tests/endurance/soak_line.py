"""A whole line at full speed: four cameras, three viewers, PLCs that trigger over Modbus and MQTT.

    python -m tests.endurance.soak_line --model part.onnx --minutes 60

Three streams run beside each other, each a process: one with free-running cameras, whose results
go to an MQTT client and whose registers a PLC reads, and one camera each whose parts a PLC
triggers over Modbus and over MQTT, as fast as it gets results. Memory, threads and descriptors are
read from outside, p99 from /metrics as it goes. In the end every frame must be accounted for, in =
scored + dropped, and every trigger must have one result, with its part id. Needs mosquitto.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click
import numpy as np

from edgeseg.base.errors import EdgesegError, RuntimeFailure
from edgeseg.base.files import temporary_folder
from edgeseg.base.options import note
from edgeseg.runtime.adapters.modbus_map import STATUS
from tests.doubles.broker import Broker
from tests.doubles.clients import Client, ModbusClient, MqttClient
from tests.doubles.plc import ModbusPlc
from tests.doubles.server_process import free_port
from tests.endurance.report import OUT, markdown, write_rows
from tests.endurance.soak_samples import Sample, quarters, sample, settled, slope

LEAK_MB_PER_HOUR = 10.0
DECIDES_MINUTES = 30  # before that nothing is a leak
_EVERY_S = 2.0  # between samples
_KEPT = 240  # samples in the report
_START_S, _END_S = 120.0, 60.0


@dataclass(kw_only=True)
class Heard:
    """What the clients of a stream have seen."""

    pictures: int = 0
    reads: int = 0
    triggers: int = 0
    results: int = 0
    wrong: list[str] = field(default_factory=list)


@dataclass(kw_only=True)
class Stream:
    """One process of the line and its clients."""

    name: str
    words: list[str]
    folder: Path
    page: int = field(default_factory=free_port)
    modbus: int = field(default_factory=free_port)
    heard: Heard = field(default_factory=Heard)
    samples: list[Sample] = field(default_factory=list)
    process: "subprocess.Popen[bytes] | None" = None

    def start(self) -> None:
        """The page tells its figures."""
        more = ["--serve", str(self.page), "--modbus", str(self.modbus), "--status-every", "0"]
        more += ["--events", str(self.folder / f"{self.name}.jsonl")]
        more += ["--report", str(self.folder / f"{self.name}.json")]
        self.process = subprocess.Popen([*self.words, *more], stdout=subprocess.DEVNULL)

    def look(self, begin_s: float) -> None:
        """One sample, if it runs and has scored a frame."""
        with contextlib.suppress(OSError, KeyError):
            if self.process is not None:
                seen = sample(self.process.pid, self.page, begin_s)
                self.samples += [seen] if np.isfinite(seen.p99_ms) else []

    def end(self) -> dict[str, Any]:
        """Ask it to stop; its report."""
        if self.process is None:
            raise RuntimeFailure(f"{self.name}: not started")
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(_END_S)
        if code != 0:
            raise SystemExit(f"FAILED: the stream {self.name} ended with {code}")
        path = self.folder / f"{self.name}.json"
        report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return report


def streams(
    model: Path, folder: Path, broker: int, *, sources: int, fps: float, threads: int, random: bool
) -> list[Stream]:
    """One that runs freely with all cameras but two, and two that are triggered."""
    words = [sys.executable, "-m", "edgeseg", "stream", "--model", str(model)]
    words += ["--threads", str(threads), *(["--allow-random-weights"] if random else [])]
    cameras = [f"synthetic:fps={fps:g},defects=0.1,seed={index}" for index in range(sources)]
    free = [word for camera in cameras[2:] for word in ("--source", camera)]
    made = {"free": free}
    for name, camera in zip(("modbus", "mqtt"), cameras, strict=False):
        made[name] = ["--source", camera, "--trigger", name]
    return [
        Stream(
            name=name,
            words=[*words, *own, "--mqtt", f"mqtt://127.0.0.1:{broker}/{name}"],
            folder=folder,
        )
        for name, own in made.items()
    ]


def view(stream: Stream, index: int, stop: threading.Event) -> None:
    """A browser that looks at one source."""
    address = f"http://127.0.0.1:{stream.page}/stream.mjpg?source={index}"
    while not stop.is_set():
        try:
            with urllib.request.urlopen(address, timeout=30) as pictures:
                while not stop.is_set() and (part := pictures.read1(1 << 16)):
                    stream.heard.pictures += part.count(b"Content-Length")
        except OSError:
            stop.wait(0.2)  # not yet listening, or already closed


def poll(stream: Stream, stop: threading.Event) -> None:
    """A PLC that reads its registers twenty times a second."""
    while not stop.is_set():
        try:
            plc = ModbusPlc("127.0.0.1", stream.modbus)  # the newest result, none waits for it
            while not stop.wait(0.05):
                plc.read(STATUS, 30)
                stream.heard.reads += 1
        except (OSError, RuntimeFailure):
            stop.wait(0.2)


def trigger(stream: Stream, client: Client, stop: threading.Event) -> None:
    """A PLC that asks for the next part as soon as it has the result of the last."""
    heard, last = stream.heard, 0
    while not stop.is_set():
        part = f"{stream.name}-{heard.triggers}"
        heard.triggers += 1
        try:
            result = client.inspect(part)
        except (OSError, EdgesegError) as error:
            heard.wrong.append(f"{part}: {error}")
            continue
        heard.results += 1
        if result["part_id"] != part or result["trigger_id"] <= last:
            heard.wrong.append(f"{part}: {result}")
        last = result["trigger_id"]


def count_results(stream: Stream, broker: int) -> Any:
    """An MQTT client that counts what a stream publishes."""
    from paho.mqtt.client import Client as Paho
    from paho.mqtt.enums import CallbackAPIVersion

    def count(*_: Any) -> None:
        stream.heard.results += 1

    client = Paho(CallbackAPIVersion.VERSION2)
    client.on_message = count
    client.on_connect = lambda each, *_: each.subscribe(f"{stream.name}/result", qos=1)
    client.connect("127.0.0.1", broker)
    client.loop_start()
    return client


def client_of(stream: Stream, broker: int) -> Client:
    """Whoever triggers a stream, once it can be."""
    deadline_s = time.monotonic() + _START_S
    while True:
        try:
            if stream.name == "mqtt":
                return MqttClient(broker, stream.name)
            return ModbusClient(stream.modbus)
        except OSError:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(0.2)


def judged(stream: Stream, report: dict[str, Any]) -> dict[str, Any]:
    """A stream in one row."""
    sources, station = report["sources"], report.get("station") or {}
    frames, scored = (sum(one[key] for one in sources) for key in ("frames_in", "scored"))
    dropped = sum(sum(one["dropped"].values()) for one in sources)
    calm = settled(stream.samples)
    heard = stream.heard
    return {
        "stream": stream.name,
        "minutes": stream.samples[-1].seconds / 60,
        "in": frames,
        "scored": scored,
        "dropped": dropped,
        "not accounted for": frames - scored - dropped,
        "triggers": heard.triggers if station else 0,
        "taken": station.get("triggers", 0),
        "answered": station.get("results", scored),
        "received": heard.results,
        "wrong": heard.wrong,
        "register reads": heard.reads,
        "pictures": heard.pictures,
        "memory MB": calm[-1].memory_mb,
        "MB per hour": str(slope(calm)),
        "threads": f"{min(o.threads for o in calm)} to {max(o.threads for o in calm)}",
        "descriptors": f"{min(o.descriptors for o in calm)} to {max(o.descriptors for o in calm)}",
        "p99 ms by quarter": ", ".join(f"{value:.0f}" for value in quarters(calm)),
        "samples": [asdict(one) for one in stream.samples[:: 1 + len(stream.samples) // _KEPT]],
    }


def failures(stream: Stream, row: dict[str, Any]) -> Iterator[str]:
    """What may not be."""
    name = row["stream"]
    if row["not accounted for"] != 0:
        yield f"{name}: in is not scored + dropped"
    if row["wrong"]:
        yield f"{name}: {len(row['wrong'])} wrong results, the first: {row['wrong'][0]}"
    if row["triggers"] != row["taken"]:
        yield f"{name}: {row['triggers']} triggers, and the station took {row['taken']}"
    wanted = row["triggers"] or row["scored"]
    if not row["answered"] == row["received"] == wanted:
        given = f"{row['answered']} given, {row['received']} received"
        yield f"{name}: {wanted} results wanted, {given}"
    if row["minutes"] >= DECIDES_MINUTES:
        yield from grown(name, settled(stream.samples))


def grown(name: str, calm: list[Sample]) -> Iterator[str]:
    """What a process takes more of as it goes on."""
    growth = slope(calm)
    if growth.low > LEAK_MB_PER_HOUR:
        yield f"{name}: memory grows by {growth} MB an hour"
    quarter = max(1, len(calm) // 4)
    for kind in ("threads", "descriptors"):
        counts = [getattr(one, kind) for one in calm]
        most, least = max(counts[:quarter]), min(counts[-quarter:])
        if least > most:  # a connection more or less comes and goes
            yield f"{name}: {kind} grow from at most {most} to at least {least}"


@contextlib.contextmanager
def running(
    made: list[Stream], broker: int, stop: threading.Event, *, viewers: int
) -> Iterator[None]:
    """Everything started, and stopped in the order in which nothing is under way."""
    threads = [threading.Thread(target=poll, args=(made[0], stop), daemon=True)]
    threads += [
        threading.Thread(target=view, args=(made[index % len(made)], 0, stop), daemon=True)
        for index in range(viewers)
    ]
    clients = []
    try:
        for stream in made:
            stream.start()
        for stream in made[1:]:
            clients.append(client_of(stream, broker))
            arguments = (stream, clients[-1], stop)
            threads.append(threading.Thread(target=trigger, args=arguments, daemon=True))
        for thread in threads:
            thread.start()
        yield
    finally:
        stop.set()
        for thread in threads:
            if thread.ident is not None:
                thread.join(_END_S)
        for client in clients:
            client.close()


@click.command(context_settings={"show_default": True})
@click.option("--model", type=click.Path(exists=True, path_type=Path), required=True)
@click.option("--minutes", type=click.FloatRange(0.05), default=60.0)
@click.option("--sources", type=click.IntRange(3), default=4, help="Two of them are triggered.")
@click.option("--viewers", type=click.IntRange(0), default=3)
@click.option("--fps", type=click.FloatRange(1), default=30.0, help="Of each source.")
@click.option("--threads", type=click.IntRange(1), default=1, help="Of each model.")
@click.option("--allow-random-weights", is_flag=True, help="Run a model that was never trained.")
@click.option("--out", type=click.Path(path_type=Path), default=OUT, help="Folder of the report.")
def main(
    model: Path,
    minutes: float,
    sources: int,
    viewers: int,
    fps: float,
    threads: int,
    allow_random_weights: bool,
    out: Path,
) -> None:
    """Run a line for as long as you like, and fail on a leak, a lost frame or a lost trigger."""
    stop, begin_s = threading.Event(), time.monotonic()
    with temporary_folder(out, name="soak") as folder, Broker(folder) as broker:
        made = streams(
            model,
            folder,
            broker.port,
            sources=sources,
            fps=fps,
            threads=threads,
            random=allow_random_weights,
        )
        counter = count_results(made[0], broker.port)
        try:
            with running(made, broker.port, stop, viewers=viewers):
                while time.monotonic() - begin_s < 60 * minutes:
                    for stream in made:
                        stream.look(begin_s)
                    time.sleep(_EVERY_S)
            # Whoever triggers has its last result before the streams are asked to end.
            reports = [stream.end() for stream in made]
            time.sleep(_EVERY_S)  # the last messages are under way
            counter.loop_stop()
        finally:
            for stream in made:
                if stream.process is not None and stream.process.poll() is None:
                    stream.process.kill()
    rows = [judged(stream, report) for stream, report in zip(made, reports, strict=True)]
    click.echo(markdown(rows))
    write_rows(out, "soak", title="A line at full speed", rows=rows)
    note(f"{os.getloadavg()[0]:.1f} processes wanted to run at the end")
    broken = [what for one, row in zip(made, rows, strict=True) for what in failures(one, row)]
    if broken:
        raise SystemExit(f"FAILED: {'; '.join(broken)}")


if __name__ == "__main__":
    main()
