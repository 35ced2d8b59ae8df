"""Scored frames and run states with known values, for tests of sinks and of the page."""

import time

import numpy as np
from numpy.typing import NDArray

from edgeseg.decision.judgement import Verdict
from edgeseg.decision.prediction import Prediction, Region
from edgeseg.runtime.drift.watch import DriftState
from edgeseg.runtime.events.records import (
    STAGES,
    FrameResult,
    PipelineSnapshot,
    SourceState,
    StageSummary,
    StageTimes,
)

THRESHOLD = 10.0


def make_result(
    *,
    score: float = 5.0,
    frame_hwc: NDArray[np.uint8] | None = None,
    map_hw: NDArray[np.float32] | None = None,
    grid_hw: NDArray[np.float32] | None = None,
    regions: tuple[Region, ...] = (),
    alarm_started: bool = False,
    alarm: bool | None = None,
    source_index: int = 0,
    frame_index: int = 0,
    wall_s: float | None = None,
    p_value: float | None = None,
    good_parts: int = 159,
) -> FrameResult:
    """One scored frame; its verdict follows from its score."""
    frame = np.full((48, 64, 3), 90, np.uint8) if frame_hwc is None else frame_hwc
    verdict: Verdict = "good" if score <= THRESHOLD else "defect"
    if not np.isfinite(score):
        verdict = "invalid"
    if map_hw is None:
        map_hw = np.full((32, 32), min(score, 4.0), np.float32)
    return FrameResult(
        source=f"camera {source_index}",
        source_index=source_index,
        frame_index=frame_index,
        frame_name="",
        wall_s=time.time() if wall_s is None else wall_s,
        monotonic_s=time.monotonic(),
        frame_hwc=frame,
        roi_xy=(0, 0),
        prediction=Prediction(map_hw=map_hw, score=score, grid_hw=grid_hw),
        threshold_score=THRESHOLD,
        threshold_pixel=THRESHOLD,
        verdict=verdict,
        p_value=p_value,
        good_parts=None if p_value is None else good_parts,
        alarm=alarm_started if alarm is None else alarm,
        alarm_started=alarm_started,
        regions=regions,
        region_count=len(regions),
        times=StageTimes(capture_age=1.0, queue=0.2, pre=0.4, infer=9.0, post=0.6, end_to_end=11.0),
    )


def passing_part(index: int) -> NDArray[np.uint8]:
    """A frame of a line that runs: a faint bar somewhere else each time."""
    frame = np.tile(np.arange(64, dtype=np.uint8)[None, :, None] * 2, (48, 1, 3))
    left = index * 11 % 56
    frame[:, left : left + 8] += 15
    return frame


def make_drift_state(ratio_hw: NDArray[np.float32]) -> DriftState:
    """A quiet state with a given map."""
    return DriftState(
        level="ok",
        kind="none",
        frames=100,
        ratio=1.0,
        median_ratio=1.0,
        median_limit=1.3,
        moved_share=0.0,
        share_limit=0.3,
        anomalous_share=0.0,
        ratio_hw=ratio_hw,
        brightness=None,
        movement=None,
        parts=None,
        sharpness=None,
        headline="",
        message="",
        advice="",
    )


class FakeView:
    """A run whose numbers a test sets."""

    def __init__(self, sources: int = 1) -> None:
        self.last_scored_s: float | None = time.monotonic()
        self.uptime_s = 125.0
        self.errors: dict[str, int] = {}
        self.connected = True
        self.alarm = False
        self.on_demand = False
        self.names = [f"camera {index}" for index in range(sources)]

    def snapshot(self) -> PipelineSnapshot:
        """The state now."""
        summary = StageSummary(count=900, mean=9.5, p50=9.1, p95=10.4, p99=12.25, max=31.0)
        return PipelineSnapshot(
            model="bottle",
            backend="onnxruntime cpu",
            threshold_score=THRESHOLD,
            uptime_s=self.uptime_s,
            fps_in=30.1,
            fps_out=29.8,
            sources=tuple(self._source(name) for name in self.names),
            stages={stage: summary for stage in STAGES},
            errors=self.errors,
            last_scored_monotonic_s=self.last_scored_s,
            on_demand=self.on_demand,
        )

    def _source(self, name: str) -> SourceState:
        return SourceState(
            name=name,
            live=True,
            connected=self.connected,
            ended=False,
            frames_in=1000,
            scored=900,
            dropped={"overwritten": 100},
            verdicts={"good": 880, "defect": 20},
            reconnects=0,
            alarm=self.alarm,
            size_hw=(48, 64),
        )
