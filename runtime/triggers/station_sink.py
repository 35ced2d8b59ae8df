"""Pass the pipeline's events to the station: verdicts, lost cameras and unscored frames."""

import sys
from collections.abc import Mapping
from types import MappingProxyType

from edgeseg.base.errors import EdgesegError
from edgeseg.runtime.events.codes import ErrorCode, Refusal
from edgeseg.runtime.events.records import FrameResult, SourceEvent, UnscoredFrame
from edgeseg.runtime.station.records import Inspection, Job
from edgeseg.runtime.station.station import Station


def inspection_of(result: FrameResult, *, job: Job | None = None) -> Inspection:
    """Make an inspection of a scored frame, with boxes in pixels of the captured frame."""
    largest = max(result.regions, key=lambda region: region.area_px, default=None)
    box = None
    if largest is not None:
        (x0, y0), (x, y, w, h) = result.roi_xy, largest.box_xywh
        box = (x + x0, y + y0, w, h)
    return Inspection(
        verdict=result.verdict,
        score=result.prediction.score,
        threshold=result.threshold_score,
        region_count=result.region_count,
        box_xywh=box,
        source_index=result.source_index,
        frame_index=result.frame_index,
        doubt=result.doubt,
        job=job,
        trace=None if result.trace is None else result.trace.facts(),
        pose=result.pose,
        variant=result.prediction.variant,
        parts=result.parts,
        strongest=result.strongest,
    )


def end_station(station: Station, error: BaseException | None) -> None:
    """Set the station offline, because the run ended or failed."""
    if error is None:
        station.stop()
        return
    what = str(error) if isinstance(error, EdgesegError) else type(error).__name__
    station.stop(ErrorCode.CRASHED, what)


class StationSink:
    """A sink that decides before all others: a PLC waits, and they carry the decision."""

    name = "station"

    def __init__(
        self, station: Station, *, sources: int, jobs: Mapping[str, Job] = MappingProxyType({})
    ) -> None:
        self._station, self._sources, self._jobs = station, sources, jobs
        self._away = set(range(sources))
        station.lose_source("no camera has delivered yet")

    def decide(self, result: FrameResult) -> Refusal | None:
        """Answer the frame's trigger; return why its verdict does not count, or None.

        A frame without a trigger counts as its own.
        """
        recipe = None if result.trace is None else result.trace.recipe
        inspection = inspection_of(result, job=self._jobs.get(recipe or ""))
        if result.trigger_id is None:
            return self._station.free(inspection, at_ns=int(result.monotonic_s * 1e9))
        self._station.tick()  # a verdict after the time-out is too late, also between two looks
        return self._station.complete(result.trigger_id, inspection)

    def on_frame(self, result: FrameResult) -> None:
        """Do nothing: `decide` has handled the frame."""

    def on_source(self, event: SourceEvent) -> None:
        """Go offline when no camera is left, and online with the first."""
        if event.kind in ("source_lost", "source_end"):
            self._away.add(event.source_index)
            if len(self._away) == self._sources:
                self._station.lose_source(event.reason or "the camera is lost")
        elif event.kind in ("source_open", "source_back"):
            self._away.discard(event.source_index)
            self._station.restore_source()

    def on_unscored(self, frame: UnscoredFrame) -> None:
        """Answer the trigger of a frame that cannot be scored."""
        if frame.trigger_id is not None:
            self._station.fail(frame.trigger_id, ErrorCode.INCOMPLETE_FRAME, frame.reason)

    def close(self) -> None:
        """Answer open triggers while the other sinks still listen."""
        end_station(self._station, sys.exc_info()[1])  # that the run ends with, if it does
