"""A line whose truth is known: which part lay under the camera when each frame was exposed.

    python -m tests.meaning.simulated_line --triggers 100000 --seed 7 --out bench/results/meaning

Captures, reader, intakes, station and its sink are the product's; drivers, servers, links and the
clock are simulated. Links and the process stand still, frames come in bursts, late, twice, in
another order or not at all, and cameras freeze. A trigger is wrong if it is answered `good` by a
frame that was exposed before it; where a frame is the trigger, if the answer comes later than the
time-out after the exposure of that frame.
"""

import argparse
import json
import sys
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgeseg.runtime.capture.captures import Capture, Wait
from edgeseg.runtime.capture.frame_buffer import Frame, FrameBuffer
from edgeseg.runtime.capture.frame_tap import FrameTap
from edgeseg.runtime.capture.intake import Intake
from edgeseg.runtime.capture.reader import Reader
from edgeseg.runtime.capture.sources import SourceSpec
from edgeseg.runtime.events.records import SourceEvent
from edgeseg.runtime.station.records import StationResult, TriggerEvent
from edgeseg.runtime.station.station import Station
from edgeseg.runtime.triggers.intakes import HardwareIntake, SoftwareIntake
from edgeseg.runtime.triggers.part import make_intake
from edgeseg.runtime.triggers.station_sink import StationSink
from tests.meaning.captures import OPENERS, ORDERED, draw, shown, simulated_time
from tests.meaning.world import CALM, ROUGH, Shot, Sim, Troubles, Wire
from tests.support.scored_frames import make_result

KINDS = ("software", "hardware", "part")
TIMEOUT_S = 2.0
STALL_S = 5.0
DELAY_S = 0.05  # from exposure to arrival, at least
DECLARED_S = 0.06  # as --camera-delay tells it
_SLACK_S = 0.02  # a late verdict is seen between two frames


@dataclass(kw_only=True)
class Tally:
    """What became of the triggers of one source and one kind of trigger."""

    source: str
    trigger: str
    disturbed: bool
    triggers: int = 0
    good: int = 0
    defect: int = 0
    no_inspection: int = 0
    wrong: int = 0
    frames: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    lost: int = 0  # times that the source was lost

    @property
    def inspected(self) -> float:
        """Share of the triggers that were."""
        return (self.good + self.defect) / max(1, self.triggers)


class _Stop:
    """Stands for the event that ends a run; waiting for it takes simulated time."""

    def __init__(self, sim: Sim) -> None:
        self._sim, self._set = sim, False

    def set(self) -> None:
        self._set = True

    def is_set(self) -> bool:
        return self._set

    def wait(self, seconds: float) -> bool:
        self._sim.advance(self._sim.monotonic() + seconds)
        return self._set


class _Scored(FrameBuffer):
    """A buffer that is scored some milliseconds after each frame that comes in."""

    def __init__(self, line: "SimulatedLine") -> None:
        super().__init__(["queue"], queue_size=8)
        self._line = line

    def put(self, frame: Frame) -> None:
        super().put(frame)
        sim = self._line.sim
        if frame.trigger_id is not None:
            self._line.made_by[frame.trigger_id] = self._line.newest
        sim.at(sim.monotonic() + sim.random.uniform(0.005, 0.03), self._line.score)


class _Watched(FrameTap):
    """Notes which frame the intake looks at: with `part` another one than it chooses."""

    def __init__(self, line: "SimulatedLine", intake: Intake) -> None:
        super().__init__(intake)
        self._line = line

    def put(self, frame: Frame) -> None:
        self._line.newest = shown(frame.image_hwc)
        super().put(frame)


class SimulatedLine:
    """One source and one kind of trigger, until so many triggers are answered."""

    def __init__(
        self, source: str, trigger: str, *, triggers: int, seed: int, troubles: Troubles
    ) -> None:
        self.sim = Sim(seed)
        self.tally = Tally(source=source, trigger=trigger, disturbed=troubles != CALM)
        self._wanted, self._open = triggers, OPENERS[source]
        if source in ORDERED:
            troubles = replace(troubles, reordered=0.0)
        self.wire = Wire(self.sim, fps=20.0, delay_s=DELAY_S, jitter_s=0.004, troubles=troubles)
        self._stop = _Stop(self.sim)
        self.newest = 0  # frame that the intake has seen
        self.made_by: dict[int, int] = {}  # the frame in which a trigger was seen or answered
        self.station = Station(timeout_s=TIMEOUT_S, depth=8, clock_ns=self.sim.monotonic_ns)
        self.station.events.subscribe(StationResult, self._take, name="test")
        self.buffer = _Scored(self)
        self._sink = StationSink(self.station, sources=1)
        spec = SourceSpec(
            kind="network", text="sim", name="sim", live=True, reconnects=True, delay_s=DECLARED_S
        )
        self._reader = Reader(
            spec,
            0,
            buffer=_Watched(self, self._intake(trigger)),
            stop=self._stop,  # type: ignore[arg-type]
            on_event=self._on_event,
            stall_timeout_s=STALL_S,
            opener=self._opened,
        )

    def _intake(self, trigger: str) -> Intake:
        if trigger == "software":
            return SoftwareIntake(self.buffer, self.station)
        if trigger == "hardware":
            return HardwareIntake(self.buffer, self.station)
        return make_intake(self.buffer, self.station, roi=None, area=0.1, votes=(1, 1), empty=None)

    def _opened(self, spec: SourceSpec, *, wait: Wait, timeout_s: float) -> Capture:
        return self._open(self.wire, wait, timeout_s, self._draw)

    def _draw(self, shot: Shot) -> NDArray[np.uint8]:
        """With `part`, something lies there for a second of two."""
        if self.tally.trigger != "part":
            return draw(shot)
        image = draw(shot, (24, 32))
        if self.wire.exposed[shot.number] % 2.0 > 1.0:
            image[6:18, 8:24] = 200
        return image

    def run(self) -> Tally:
        """In this thread, by the simulated clock."""
        with simulated_time(self.sim):
            self.station.start()
            if self.tally.trigger == "software":
                self.sim.at(self.sim.monotonic() + 3.0, self._trigger)
            self._reader._run()
        counters = self.buffer.counters(0)
        self.tally.frames = counters.frames_in
        self.tally.dropped = dict(counters.dropped)
        accounted = counters.scored + counters.dropped.total() + len(self.buffer._lanes[0].waiting)
        if self.tally.trigger != "part" and accounted != counters.frames_in:
            raise AssertionError(f"{counters.frames_in} frames in, {accounted} accounted for")
        return self.tally

    def _on_event(self, event: SourceEvent) -> None:
        self.tally.lost += event.kind == "source_lost"
        self._sink.on_source(event)

    def _trigger(self) -> None:
        """A part comes to rest and the PLC triggers; the part stays until it has its result."""
        self.sim.at(self.sim.monotonic() + TIMEOUT_S, self.station.tick)
        self.station.trigger(origin="plc")

    def _take(self, result: StationResult) -> None:
        tally = self.tally
        tally.triggers += 1
        number = self.made_by.pop(result.trigger.trigger_id, 0)
        if result.inspection is None:
            tally.no_inspection += 1
        else:
            tally.good += result.verdict == "good"
            tally.defect += result.verdict == "defect"
            tally.wrong += result.verdict == "good" and self._is_wrong(result.trigger, number)
        if tally.triggers >= self._wanted:
            self._stop.set()
        elif tally.trigger == "software":
            pause_s = self.sim.random.choice((0.001, 0.05, 0.3, 1.0)) * self.sim.random.random()
            self.sim.at(self.sim.monotonic() + pause_s, self._trigger)

    def _is_wrong(self, trigger: TriggerEvent, number: int) -> bool:
        exposed_s = self.wire.exposed[number]
        if self.tally.trigger == "software":
            return exposed_s <= trigger.monotonic_ns / 1e9
        return self.sim.monotonic() - exposed_s > TIMEOUT_S + DECLARED_S + _SLACK_S

    def score(self) -> None:
        """The oldest frame that waits: half of the parts are good."""
        for frame, _ in self.buffer.take(1, timeout_s=0.0):
            number = shown(frame.image_hwc)
            bad = number % 2 == 1
            result = replace(
                make_result(score=20.0 if bad else 5.0, frame_hwc=frame.image_hwc),
                trigger_id=frame.trigger_id,
            )
            self._sink.decide(result)
            self.buffer.count_scored(0)


def run_lines(triggers: int, seed: int) -> list[Tally]:
    """Every kind of source and trigger, calm and disturbed; `triggers` in all."""
    cases = [
        (source, trigger, troubles)
        for source in OPENERS
        for trigger in KINDS
        for troubles in (CALM, ROUGH)
    ]
    # Triggers of a PLC are the ones that an older frame could answer: most are theirs.
    shares = [{"software": 10, "hardware": 4, "part": 1}[trigger] for _, trigger, _ in cases]
    return [
        SimulatedLine(
            source,
            trigger,
            triggers=-(-triggers * share // sum(shares)),
            seed=seed + place,
            troubles=troubles,
        ).run()
        for place, ((source, trigger, troubles), share) in enumerate(
            zip(cases, shares, strict=True)
        )
    ]


def report_text(tallies: list[Tally]) -> str:
    """A table and a last line."""
    rows = [
        f"{'source':<24}{'trigger':<10}{'disturbed':<10}{'triggers':>9}{'good':>8}{'defect':>8}"
        f"{'no insp.':>9}{'inspected':>10}{'lost':>6}{'wrong':>6}"
    ]
    for each in tallies:
        rows.append(
            f"{each.source:<24}{each.trigger:<10}{'yes' if each.disturbed else 'no':<10}"
            f"{each.triggers:>9}{each.good:>8}{each.defect:>8}{each.no_inspection:>9}"
            f"{each.inspected:>10.1%}{each.lost:>6}{each.wrong:>6}"
        )
    totals = Counter[str]()
    for each in tallies:
        totals.update(triggers=each.triggers, good=each.good, wrong=each.wrong)
    rows.append(
        f"{totals['triggers']} triggers, {totals['good']} good, {totals['wrong']} of them for a "
        "part that was not exposed after its trigger"
    )
    return "\n".join(rows) + "\n"


def main() -> int:
    """Run, print, and write what was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--triggers", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--out", type=Path, help="folder for simulated_line.json and .txt")
    options = parser.parse_args()
    tallies = run_lines(options.triggers, options.seed)
    text = report_text(tallies)
    print(text, end="")
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        values = {
            "triggers": options.triggers,
            "seed": options.seed,
            "lines": [{**asdict(each), "inspected": round(each.inspected, 4)} for each in tallies],
        }
        (options.out / "simulated_line.json").write_text(json.dumps(values, indent=1) + "\n")
        (options.out / "simulated_line.txt").write_text(text)
    return int(any(each.wrong for each in tallies))


if __name__ == "__main__":
    sys.exit(main())
