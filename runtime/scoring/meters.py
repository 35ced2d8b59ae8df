"""The numbers of a run: latency per stage, rates, verdicts."""

import time
from collections import Counter

from edgeseg.runtime.records import STAGES, StageSummary, Verdict
from edgeseg.runtime.scoring.latency import Histogram, RateMeter

SINKS = "sinks"  # after the verdict, so in no frame's own times; it limits the rate all the same


class Meters:
    """Written by the scoring thread, read by any."""

    def __init__(self, source_count: int) -> None:
        self.verdicts: list[Counter[str]] = [Counter() for _ in range(source_count)]
        self.scored = 0
        self.started_s = time.monotonic()
        self.ended_s: float | None = None
        self.last_scored_s: float | None = None
        self._stages = {stage: Histogram() for stage in (*STAGES, SINKS)}
        # In the order of STAGES, bound once: this runs for every frame.
        self._records = tuple(self._stages[stage].record for stage in STAGES)
        self._in, self._out = RateMeter(), RateMeter()

    def record_frame(self, source_index: int, verdict: Verdict, times_ns: tuple[int, ...]) -> None:
        """Take one scored frame; times in the order of STAGES."""
        for record, value_ns in zip(self._records, times_ns, strict=True):
            record(value_ns)
        self.verdicts[source_index][verdict] += 1
        self.scored += 1
        self.last_scored_s = time.monotonic()

    def record_sinks(self, value_ns: int) -> None:
        """Take the time that all sinks needed for one frame."""
        self._stages[SINKS].record(value_ns)

    def update_rates(self, frames_in: int) -> None:
        """Call about once a second."""
        now_s = time.monotonic()
        self._in.update(now_s, frames_in)
        self._out.update(now_s, self.scored)

    def rates(self) -> tuple[float, float]:
        """Frames per second in and out, over the last few seconds."""
        return self._in.rate(), self._out.rate()

    def stages(self) -> dict[str, StageSummary]:
        """Percentiles of every stage."""
        return {stage: histogram.summary() for stage, histogram in self._stages.items()}
