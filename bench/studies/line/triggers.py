"""Every trigger gets one result: ten thousand through each adapter, and while things are cut.

    python -m edgeseg.bench.studies.line.triggers --out bench/results/line

A camera of grey frames shows a good or a bad part, chosen at random before each trigger; a real
graph scores it. The other end of each adapter, a thread of this process, triggers, waits for the
result and goes on. Then the same while the camera, the broker or the connection is cut at random
moments. Held for every trigger: one result, in order, none twice, the verdict of the part that was
shown, and no "good" that no scored frame, grabbed after the trigger, answers for.
"""

import contextlib
import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import numpy as np

from edgeseg.bench.harness.machine import CoreWatch, describe
from edgeseg.bench.studies.line.broker import Broker, free_port
from edgeseg.bench.studies.line.clients import (
    Client,
    HttpClient,
    ModbusClient,
    MqttClient,
    OpcUaClient,
)
from edgeseg.bench.studies.line.rig import Rig, RigCamera
from edgeseg.errors import RuntimeFailure
from edgeseg.files import write_json, write_text
from edgeseg.options import FILE, FOLDER, note
from edgeseg.runtime.backends.base import Session
from edgeseg.runtime.backends.choose import open_session
from edgeseg.runtime.backends.session_options import SessionOptions
from edgeseg.runtime.records import FrameResult, SourceEvent
from edgeseg.runtime.station.codes import ErrorCode, VerdictCode
from edgeseg.tables import aligned

MODEL = Path("tests/kept/0.1.0/part-fp32.onnx")
FPS = 500.0
PREFIX = "study/line"
_PAUSE_S = 0.005  # between triggers while something is cut: a lost camera answers at once


class Witness:
    """A sink that remembers which frames were really scored."""

    name = "witness"

    def __init__(self) -> None:
        self.verdicts: dict[int, str] = {}
        self.grabbed_s: dict[int, float] = {}

    def on_frame(self, result: FrameResult) -> None:
        """Note a trigger's frame."""
        if result.trigger_id is not None:
            self.verdicts[result.trigger_id] = result.verdict
            self.grabbed_s[result.trigger_id] = result.monotonic_s

    def on_source(self, event: SourceEvent) -> None:
        """Nothing to note."""

    def close(self) -> None:
        """Nothing is held."""


@dataclass(kw_only=True)
class Tally:
    """What one phase came to."""

    adapter: str
    phase: str
    cuts: int = 0
    triggers: int = 0
    results: int = 0
    lost: int = 0  # triggers without a result
    doubled: int = 0
    out_of_order: int = 0
    other_part: int = 0  # results with another part's id
    wrong_verdict: int = 0  # not the part that was shown
    good_without_inspection: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    latency_ms: list[float] = field(default_factory=list)
    model_ms: float = 0.0
    seconds: float = 0.0

    def percentile(self, share: float) -> float:
        """Of the time from a trigger to its result, at the other end."""
        return float(np.percentile(self.latency_ms, share)) if self.latency_ms else float("nan")

    @property
    def whole(self) -> bool:
        """Whether every trigger got its own result, and no good was made up."""
        wrong = (
            self.lost, self.doubled, self.out_of_order, self.other_part, self.wrong_verdict,
            self.good_without_inspection,
        )  # fmt: skip
        return self.results == self.triggers and not any(wrong)


@dataclass(frozen=True, kw_only=True)
class Levels:
    """Two greys that the model tells apart, and the threshold between them."""

    good: int
    bad: int
    threshold: float


def find_levels(session: Session) -> Levels:
    """Score plain greys, and take the two farthest from each other."""
    greys = range(10, 251, 40)
    scores = {}
    for level in greys:
        frame = np.full((1, *session.metadata.size_hw, 3), level, np.uint8)
        scores[level] = session.infer(frame)[0].score
    good, bad = min(scores, key=scores.__getitem__), max(scores, key=scores.__getitem__)
    if not scores[good] < scores[bad]:
        raise RuntimeFailure("the model gives every grey the same score; try another model")
    return Levels(good=good, bad=bad, threshold=(scores[good] + scores[bad]) / 2)


@contextlib.contextmanager
def open_line(
    adapter: str, session: Session, levels: Levels, folder: Path
) -> Iterator[tuple[Rig, Client, Broker | None]]:
    """A running line with a client at its other end, and the broker if there is one."""
    values: dict[str, Any] = {"trigger": adapter, "threshold": levels.threshold}
    values["trigger_timeout"] = 2.0
    camera = RigCamera(size_hw=session.metadata.size_hw, fps=FPS, level=levels.good)
    with contextlib.ExitStack() as stack:
        broker = stack.enter_context(Broker(folder)) if adapter == "mqtt" else None
        if broker is not None:
            values["mqtt"] = f"mqtt://127.0.0.1:{broker.port}/{PREFIX}"
        elif adapter == "opcua":
            values["opcua"] = str(free_port())
        else:
            values[adapter] = "0"
        rig = stack.enter_context(Rig(session, values, camera=camera))
        client = _client(adapter, rig, broker)
        stack.callback(client.close)
        yield rig, client, broker


def _client(adapter: str, rig: Rig, broker: Broker | None) -> Client:
    if adapter == "mqtt" and broker is not None:
        connected = rig.adapter("mqtt")._client.is_connected
        rig.wait(connected, "the broker")
        return MqttClient(broker.port, PREFIX)
    if adapter == "opcua":
        return OpcUaClient(rig.adapter("opcua").url, "urn:edgeseg:station")
    kinds: dict[str, Callable[[int], Client]] = {"modbus": ModbusClient, "http": HttpClient}
    return kinds[adapter](rig.adapter(adapter).port)


def run_phase(
    rig: Rig,
    client: Client,
    tally: Tally,
    levels: Levels,
    *,
    more: Callable[[int], bool],
    seed: int,
) -> None:
    """Trigger as long as there are `more`, and hold every result against what was shown."""
    chance = random.Random(seed)
    first = rig.station.words().triggers
    shown: dict[int, bool] = {}
    begin_s = time.monotonic()
    while more(tally.triggers):
        good = chance.random() < 0.5
        rig.camera.level = levels.good if good else levels.bad
        part_id = f"{tally.adapter}-{seed}-{tally.triggers}"
        _wait_ready(rig, tally)
        begin_ns = time.monotonic_ns()
        result = client.inspect(part_id)
        tally.latency_ms.append((time.monotonic_ns() - begin_ns) / 1e6)
        tally.triggers += 1
        _judge(tally, result, part_id, good, shown)
        if tally.cuts:
            time.sleep(_PAUSE_S)
    tally.seconds = time.monotonic() - begin_s
    tally.lost += rig.station.words().triggers - first - tally.triggers


def _wait_ready(rig: Rig, tally: Tally) -> None:
    """As a client that looks at trigger ready; a lost camera is triggered all the same."""
    deadline_s = time.monotonic() + 1.0
    while not rig.station.words().trigger_ready and time.monotonic() < deadline_s:
        if tally.cuts and not rig.station.words().online:
            return
        time.sleep(0.0002)


def _judge(
    tally: Tally, result: dict[str, Any], part_id: str, good: bool, shown: dict[int, bool]
) -> None:
    number = result["trigger_id"]
    tally.results += 1
    tally.doubled += number in shown
    tally.out_of_order += bool(shown) and number <= next(reversed(shown))
    tally.other_part += result["part_id"] != part_id
    shown[number] = good
    code = VerdictCode(result["code"])
    if code == VerdictCode.NO_INSPECTION:
        tally.outcomes[f"no inspection: {ErrorCode(result['error_code']).name.lower()}"] += 1
        return
    tally.outcomes[code.name.lower()] += 1
    tally.wrong_verdict += code != (VerdictCode.GOOD if good else VerdictCode.DEFECT)


def count_made_up(rig: Rig, witness: Witness) -> int:
    """Results that say good although no frame, grabbed after the trigger, was scored good."""
    made_up = 0
    for result in rig.results:
        number = result.trigger.trigger_id
        if result.code == VerdictCode.GOOD:
            inspected = witness.verdicts.get(number) == "good"
            after = witness.grabbed_s.get(number, 0.0) * 1e9 > result.trigger.monotonic_ns - 1
            made_up += not (inspected and after)
    return made_up


class Cutter:
    """Cuts something so many times at random moments, in a thread of its own."""

    def __init__(self, cut: Callable[[random.Random], None], tally: Tally, *, seed: int) -> None:
        self._cut, self._tally = cut, tally
        self._random = random.Random(seed)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        for _ in range(self._tally.cuts):
            due = self._tally.triggers + self._random.randint(1, 10)
            while self._tally.triggers < due:
                time.sleep(0.001)
            time.sleep(self._random.uniform(0.0, 0.02))  # anywhere in the next one
            self._cut(self._random)

    def under_way(self, _: int = 0) -> bool:
        """Whether there are cuts to come."""
        return self._thread.is_alive()


def cut_camera(rig: Rig) -> Callable[[random.Random], None]:
    """Out, and in again after a moment; then until it delivers."""

    def cut(chance: random.Random) -> None:
        rig.camera.plugged = False
        rig.wait(lambda: not rig.station.words().online, "the loss")
        time.sleep(chance.uniform(0.0, 0.05))
        rig.camera.plugged = True
        rig.wait(lambda: rig.station.words().online, "the return")

    return cut


def cut_broker(rig: Rig, broker: Broker) -> Callable[[random.Random], None]:
    """Killed, and started again; then until the station is back."""

    def cut(chance: random.Random) -> None:
        broker.kill()
        time.sleep(chance.uniform(0.0, 0.05))
        broker.start()
        rig.wait(rig.adapter("mqtt")._client.is_connected, "the broker")

    return cut


def study(
    adapter: str, session: Session, levels: Levels, folder: Path, *, triggers: int, cuts: int
) -> list[Tally]:
    """All phases of one adapter."""
    tallies = []
    with open_line(adapter, session, levels, folder) as (rig, client, broker):
        witness = Witness()
        rig.pipeline.add_sink(witness)
        tally = Tally(adapter=adapter, phase="nothing cut")
        run_phase(rig, client, tally, levels, more=lambda done: done < triggers, seed=1)
        tallies.append(tally)
        things: dict[str, Callable[[random.Random], None]] = {
            "camera cut": cut_camera(rig),
            "connection cut": lambda chance: client.cut(),
        }
        if broker is not None:
            things["broker killed"] = cut_broker(rig, broker)
        for seed, (phase, cut) in enumerate(things.items() if cuts else (), 2):
            tally = Tally(adapter=adapter, phase=phase, cuts=cuts)
            cutter = Cutter(cut, tally, seed=seed)
            run_phase(rig, client, tally, levels, more=cutter.under_way, seed=seed)
            tallies.append(tally)
            note(f"{adapter}, {phase}: {tally.triggers} triggers, {dict(tally.outcomes)}")
        infer = rig.pipeline.meters.stages()["infer"]
        made_up = count_made_up(rig, witness)
    for tally in tallies:
        tally.model_ms = infer.p50
    tallies[-1].good_without_inspection = made_up
    return tallies


def report_text(tallies: list[Tally]) -> str:
    """As a table."""
    head = (
        "adapter", "phase", "cuts", "triggers", "results", "lost", "doubled", "out of order",
        "wrong", "made-up good", "p50 ms", "p99 ms", "model ms", "answers",
    )  # fmt: skip
    rows = [head]
    for tally in tallies:
        answers = ", ".join(f"{name} {count}" for name, count in sorted(tally.outcomes.items()))
        rows.append(
            (
                tally.adapter,
                tally.phase,
                str(tally.cuts),
                str(tally.triggers),
                str(tally.results),
                str(tally.lost),
                str(tally.doubled),
                str(tally.out_of_order),
                str(tally.wrong_verdict + tally.other_part),
                str(tally.good_without_inspection),
                f"{tally.percentile(50):.2f}",
                f"{tally.percentile(99):.2f}",
                f"{tally.model_ms:.2f}",
                answers,
            )
        )
    return "\n".join(aligned(rows)) + "\n"


@click.command(help=__doc__)
@click.option("--adapters", default="modbus,mqtt,http,opcua", show_default=True)
@click.option("--triggers", default=10_000, show_default=True)
@click.option("--opcua-triggers", default=1000, show_default=True, help="It is slow.")
@click.option("--cuts", default=50, show_default=True)
@click.option("--model", type=FILE, default=MODEL, show_default=True)
@click.option("--out", type=FOLDER, help="Where the report goes.")
def main(
    adapters: str, triggers: int, opcua_triggers: int, cuts: int, model: Path, out: Path | None
) -> None:
    """Run, print and write."""
    tallies: list[Tally] = []
    options = SessionOptions(backend="cpu", threads=1, allow_random_weights=True)
    watch = CoreWatch()
    for adapter in adapters.split(","):
        number = opcua_triggers if adapter == "opcua" else triggers
        with (
            watch,
            tempfile.TemporaryDirectory() as folder,
            open_session(model, options) as session,
        ):
            levels = find_levels(session)
            tallies += study(adapter, session, levels, Path(folder), triggers=number, cuts=cuts)
        if out is not None:  # after each: the next one may fail
            facts = {
                "fps": FPS,
                "machine": describe(threads=1, seeds=(1, 2, 3, 4)),
                "cores_used_by_others": round(watch.others, 2),
                "tallies": _facts(tallies),
            }
            write_text(out / "triggers.txt", report_text(tallies))
            write_json(out / "triggers.json", facts)
    click.echo(report_text(tallies), nl=False)


def _facts(tallies: list[Tally]) -> list[dict[str, Any]]:
    """Without the raw times."""
    facts = []
    for tally in tallies:
        values = {**vars(tally), "outcomes": dict(tally.outcomes), "whole": tally.whole}
        del values["latency_ms"]
        values |= {f"p{share}_ms": tally.percentile(share) for share in (50, 95, 99, 100)}
        facts.append(values)
    return facts


if __name__ == "__main__":
    main()
