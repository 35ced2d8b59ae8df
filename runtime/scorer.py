"""Captured frames to results: crop, resize or tile, infer, judge."""

import time
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from edgeseg.errors import RuntimeFailure
from edgeseg.prediction import Prediction
from edgeseg.runtime.framebuffer import Frame
from edgeseg.runtime.meters import Meters
from edgeseg.runtime.modelfile import thresholds
from edgeseg.runtime.result import FrameResult, StageTimes
from edgeseg.runtime.session import Session
from edgeseg.runtime.tiling import Roi, Tiling, fit_into
from edgeseg.runtime.verdict import Alarm, Debounce, find_regions, judge


@dataclass(frozen=True, kw_only=True)
class ScorerConfig:
    """How frames are cut and judged."""

    roi: Roi | None = None
    tile_overlap: float | None = None  # None: the frame is resized to the model's input
    threshold: float | None = None  # None: the model's own
    debounce: Debounce = field(default_factory=Debounce)


@dataclass(frozen=True, kw_only=True)
class Marks:
    """Moments in nanoseconds that all frames of a batch share."""

    begin: int
    ready: int
    inferred: int


class Scorer:
    """Holds what lasts from frame to frame: the input array and the alarms."""

    def __init__(
        self, session: Session, names: list[str], *, config: ScorerConfig, meters: Meters
    ) -> None:
        self._session, self._names, self._config, self._meters = session, names, config, meters
        self._channels = session.metadata.input["channels"]
        self.threshold_score, self.threshold_pixel = thresholds(
            session.metadata, asked=config.threshold
        )
        self.alarms = [Alarm(config.debounce) for _ in names]
        self._input_nhwc = np.empty((0, *session.metadata.size_hw, 3), np.uint8)

    def check(self, size_hw: tuple[int, int], *, source: str) -> None:
        """Refuse a frame size that the region of interest or the tiles do not fit."""
        roi = self._config.roi
        if roi is not None and not roi.fits(size_hw):
            raise RuntimeFailure(
                f"{source}: frames of {size_hw[1]}x{size_hw[0]} do not hold --roi {roi}; "
                "expected x+w and y+h within the frame"
            )
        self._tiling(self._cropped_hw(size_hw))

    def tiles_per_frame(self, size_hw: tuple[int, int]) -> int:
        """How often the model runs for one frame of that size."""
        tiling = self._tiling(self._cropped_hw(size_hw))
        return 1 if tiling is None else len(tiling.corners_yx())

    def score(self, taken: list[tuple[Frame, int]]) -> list[FrameResult]:
        """Score frames as one batch; each comes with the moment it entered the buffer."""
        begin_ns = time.monotonic_ns()
        crops = [self._crop(frame) for frame, _ in taken]
        tilings = [self._tiling(crop.shape[:2]) for crop in crops]
        parts = [
            [crop] if tiling is None else tiling.cut(crop)
            for crop, tiling in zip(crops, tilings, strict=True)
        ]
        frames_nhwc = self._fill(parts, [frame for frame, _ in taken])
        ready_ns = time.monotonic_ns()
        predictions = iter(self._session.infer(frames_nhwc))
        marks = Marks(begin=begin_ns, ready=ready_ns, inferred=time.monotonic_ns())
        results = []
        for (frame, buffered_ns), crop, tiling, pieces in zip(
            taken, crops, tilings, parts, strict=True
        ):
            found = [next(predictions) for _ in pieces]
            prediction = found[0] if tiling is None else tiling.blend(found)
            results.append(self._judge(frame, crop, prediction, buffered_ns, marks))
        return results

    def _fill(self, parts: list[list[NDArray[np.uint8]]], frames: list[Frame]) -> NDArray[np.uint8]:
        """Everything the model must see, in one array that is kept for the next frames."""
        count = sum(len(pieces) for pieces in parts)
        if len(self._input_nhwc) < count:
            self._input_nhwc = np.empty((count, *self._input_nhwc.shape[1:]), np.uint8)
        slots = iter(self._input_nhwc)
        for pieces, frame in zip(parts, frames, strict=True):
            for piece in pieces:
                fit_into(piece, next(slots), swap=frame.channels != self._channels)
        return self._input_nhwc[:count]

    def _judge(
        self,
        frame: Frame,
        crop_hwc: NDArray[np.uint8],
        prediction: Prediction,
        buffered_ns: int,
        marks: Marks,
    ) -> FrameResult:
        index, roi = frame.source_index, self._config.roi
        verdict = judge(prediction.score, self.threshold_score)
        regions, region_count = find_regions(
            prediction.map_hw, self.threshold_pixel, size_hw=crop_hwc.shape[:2]
        )
        alarm = self.alarms[index]
        started = alarm.update(verdict)
        times_ns = _times_ns(frame.grabbed_ns, buffered_ns, marks, time.monotonic_ns())
        self._meters.record_frame(index, verdict, times_ns)
        return FrameResult(
            source=self._names[index],
            source_index=index,
            frame_index=frame.frame_index,
            frame_name=frame.name,
            wall_s=frame.wall_s,
            monotonic_s=frame.grabbed_ns / 1e9,
            frame_hwc=crop_hwc if frame.channels == "RGB" else crop_hwc[:, :, ::-1],
            roi_xy=(roi.x, roi.y) if roi else (0, 0),
            prediction=prediction,
            threshold_score=self.threshold_score,
            threshold_pixel=self.threshold_pixel,
            verdict=verdict,
            alarm=alarm.active,
            alarm_started=started,
            regions=regions,
            region_count=region_count,
            times=StageTimes(*(value_ns / 1e6 for value_ns in times_ns)),
        )

    def _crop(self, frame: Frame) -> NDArray[np.uint8]:
        return self._config.roi.crop(frame.image_hwc) if self._config.roi else frame.image_hwc

    def _cropped_hw(self, size_hw: tuple[int, int]) -> tuple[int, int]:
        return (self._config.roi.h, self._config.roi.w) if self._config.roi else size_hw

    def _tiling(self, frame_hw: tuple[int, int]) -> Tiling | None:
        if self._config.tile_overlap is None:
            return None
        return Tiling(
            frame_hw=frame_hw,
            tile_hw=self._session.metadata.size_hw,
            overlap=self._config.tile_overlap,
        )


def _times_ns(grabbed_ns: int, buffered_ns: int, marks: Marks, done_ns: int) -> tuple[int, ...]:
    """In the order of STAGES; the last is the sum of all but `queue`, exactly."""
    return (
        marks.begin - grabbed_ns,
        marks.begin - buffered_ns,
        marks.ready - marks.begin,
        marks.inferred - marks.ready,
        done_ns - marks.inferred,
        done_ns - grabbed_ns,
    )
