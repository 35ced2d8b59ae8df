"""Score captured frames: crop, resize or tile, infer, judge."""

import math
import time
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import RuntimeFailure, UsageError
from edgeseg.base.messages import Setting
from edgeseg.decision.doubt import doubt_on
from edgeseg.decision.explain import without_explanation
from edgeseg.decision.judgement import (
    JudgedFrame,
    chance,
    invalid_kind,
    judge_areas,
    verdict_on,
)
from edgeseg.decision.prediction import Prediction, blend_tiles, find_regions
from edgeseg.decision.several import judge_parts
from edgeseg.decision.thresholds import Thresholds
from edgeseg.runtime.backends.base import Session
from edgeseg.runtime.capture.frame_buffer import Frame
from edgeseg.runtime.events.codes import Refusal
from edgeseg.runtime.events.records import FrameResult, StageTimes, Trace
from edgeseg.runtime.scoring.meters import StreamMeters
from edgeseg.runtime.scoring.model_input import InputMaker, cut, fit_into, look_over
from edgeseg.runtime.scoring.verdict import Debounce, SourceAlarm, frame_verdict
from edgeseg.vision.appearance import appearance_of
from edgeseg.vision.geometry import Found, Roi, View
from edgeseg.vision.picture_kinds import colour_sentence, is_grey
from edgeseg.vision.tiles import Tiling


@dataclass(frozen=True, kw_only=True)
class ScorerConfig:
    """Settings for cutting and judging frames."""

    roi: Roi | None = None
    tile_overlap: float | None = None  # share of a tile; None: as the model was fitted
    threshold: float | None = None  # None: the model's own
    min_area: float = 0.0  # pixels of the camera: smaller regions do not decide
    debounce: Debounce = field(default_factory=Debounce)
    recipe: str | None = None  # whose model and settings these are


# Moments in nanoseconds that all frames of a batch share: begin, input ready, inferred.
Marks = tuple[int, int, int]


@dataclass(frozen=True)
class _Look:
    """The view of one frame, and the result of the search for its part."""

    view: View
    found: Found | None


class Scorer:
    """The scoring of frames; it keeps the input array and the alarms from frame to frame.

    `score` judges a frame. `apply_decision` sets its last verdict, after the station has decided.
    """

    def __init__(
        self,
        session: Session,
        names: list[str],
        *,
        config: ScorerConfig,
        meters: StreamMeters,
    ) -> None:
        self._session, self._names, self._config, self._meters = session, names, config, meters
        self._channels = session.metadata.input.channels.lower()
        self.thresholds = session.metadata.thresholds(config.threshold)
        if config.tile_overlap is not None:
            # Tiles that only this stream cuts look unlike the whole images behind the limits.
            self.thresholds = replace(self.thresholds, foreign=None, appearance=None)
        self.trace = _trace(session, self.thresholds, config)
        # Tiles that only this stream cuts score unlike the whole images behind the good scores.
        tiled_here = config.tile_overlap is not None
        self._good = None if tiled_here else session.metadata.good_scores
        self.alarms = [SourceAlarm(config.debounce) for _ in names]
        self._input_nhwc = np.empty((0, *session.metadata.size_hw, 3), np.uint8)
        self._inputs = InputMaker(session.metadata, roi=config.roi)
        self._fitted_tiling = session.metadata.tiling
        if self._fitted_tiling is not None and config.tile_overlap is not None:
            raise _contradiction(session.metadata.name, self._fitted_tiling)
        if session.metadata.variants and config.tile_overlap is not None:
            raise UsageError(
                Setting("tile", True),
                f": model {session.metadata.name} has several variants, and each tile would be "
                "taken for one of its own; leave it out",
            )
        looks = self._inputs.geometry
        if config.tile_overlap is not None and (looks.locate or looks.regions):
            raise UsageError(
                Setting("tile", True),
                f": model {session.metadata.name} was fitted on {looks.words}, and tiles have "
                "no fixed place in the picture; leave it out",
            )

    @property
    def tiled(self) -> bool:
        """Whether frames are cut into tiles: on request, or because the model was fitted so."""
        return self._config.tile_overlap is not None or self._fitted_tiling is not None

    def warm_up(self) -> None:
        """Use OpenCV once: its first calls start threads and choose kernels."""
        slot_hwc = self._slots(1)[0]
        fit_into(np.zeros((2 * len(slot_hwc), *slot_hwc.shape[1:]), np.uint8), slot_hwc, swap=True)
        find_regions(np.eye(8, dtype=np.float32), 0.5, size_hw=(8, 8))

    def check(self, size_hw: tuple[int, int], *, source: str) -> None:
        """Refuse a frame size that the region of interest or the tiles do not fit."""
        roi = self._inputs.geometry.roi
        self._inputs.geometry.check(size_hw, name=source)
        if roi is not None and not roi.fits(size_hw):
            raise RuntimeFailure(
                f"{source}: frames of {size_hw[1]}x{size_hw[0]} do not hold ",
                Setting("roi", roi),
                "; expected x+w and y+h within the frame",
            )
        if self.tiled:
            self.tiles_per_frame(size_hw)

    def blind_size(self, size_hw: tuple[int, int]) -> str | None:
        """Describe what `min_area` hides in frames of that size; None if nothing."""
        area = self._config.min_area
        if not area:
            return None
        view, (rows, columns) = self._inputs.view(size_hw), self._session.metadata.grid_hw
        height, width = view.shown_hw
        side = math.sqrt(area)
        return (
            f"regions below {area:g} pixels do not decide: a defect of up to {side:.0f}x{side:.0f} "
            f"pixels may pass as good; a cell of the grid is {width / columns:.0f}x"
            f"{height / rows:.0f} pixels"
        )

    def odd_colour(self, frame: Frame) -> str | None:
        """Describe that a frame is grey where the model knows colour, or the reverse."""
        limits, image_hwc = self.thresholds.appearance, frame.image_hwc
        if limits is None or not image_hwc.any():  # black, as a camera may begin, is no colour
            return None
        return colour_sentence(is_grey(image_hwc), limits.colour)

    def tiles_per_frame(self, size_hw: tuple[int, int]) -> int:
        """Return how often the model runs for one frame of that size, when tiled."""
        return len(self._tiling(self._inputs.view(size_hw).shown_hw).corners_yx())

    def score(self, taken: list[tuple[Frame, int]]) -> list[FrameResult]:
        """Score frames as one batch; each comes with its time of entry into the buffer."""
        begin_ns = time.monotonic_ns()
        if self._inputs.geometry.several is not None:
            return self._score_parts(taken, begin_ns)
        looks = [self._look(frame) for frame, _ in taken]
        if self.tiled:
            return self._score_tiles(taken, looks, begin_ns)
        slots_nhwc = self._slots(len(taken))
        for index, (frame, _) in enumerate(taken):
            swap = frame.channels != self._channels
            view = looks[index].view
            self._inputs.into(frame.image_hwc, slots_nhwc[index], view=view, swap=swap)
        ready_ns = time.monotonic_ns()
        predictions = self._session.infer(slots_nhwc)
        marks = (begin_ns, ready_ns, time.monotonic_ns())
        results = []
        for (frame, buffered_ns), look, prediction, slot_hwc in zip(
            taken, looks, predictions, slots_nhwc, strict=True
        ):
            counted = self._inputs.mask_ignored(prediction, look.view)
            counted = self._inputs.explain(counted, slot_hwc)
            if self.thresholds.appearance is not None:
                counted = replace(counted, appearance=appearance_of(slot_hwc))
            results.append(self._judge(frame, look, counted, buffered_ns, marks))
        return results

    def apply_decision(self, result: FrameResult, refusal: Refusal | None) -> FrameResult:
        """Set the frame's last verdict, which every output carries, and update the alarm."""
        index, verdict = result.source_index, frame_verdict(result.verdict, refusal)
        self._meters.record_verdict(index, verdict)
        started = self.alarms[index].update(verdict)
        return replace(
            result,
            verdict=verdict,
            refusal=refusal,
            alarm=self.alarms[index].active,
            alarm_started=started,
        )

    def _score_tiles(
        self, taken: list[tuple[Frame, int]], looks: list[_Look], begin_ns: int
    ) -> list[FrameResult]:
        crops = [
            look.view.crop(frame.image_hwc) for (frame, _), look in zip(taken, looks, strict=True)
        ]
        tilings = [self._tiling(crop.shape[:2]) for crop in crops]
        pieces = [
            (piece, frame.channels != self._channels)
            for (frame, _), crop, tiling in zip(taken, crops, tilings, strict=True)
            for piece in cut(crop, tiling)
        ]
        slots_nhwc = self._slots(len(pieces))
        for (piece, swap), slot_hwc in zip(pieces, slots_nhwc, strict=True):
            fit_into(piece, slot_hwc, swap=swap)
        ready_ns = time.monotonic_ns()
        predictions = iter(self._session.infer(slots_nhwc))
        marks = (begin_ns, ready_ns, time.monotonic_ns())
        results = []
        for (frame, buffered_ns), look, crop, tiling in zip(
            taken, looks, crops, tilings, strict=True
        ):
            blended = blend_tiles([next(predictions) for _ in tiling.corners_yx()], tiling)
            if self.thresholds.appearance is not None:
                swap = frame.channels != self._channels
                blended = replace(blended, appearance=look_over(crop, tiling, swap=swap))
            results.append(self._judge(frame, look, blended, buffered_ns, marks))
        return results

    def _score_parts(self, taken: list[tuple[Frame, int]], begin_ns: int) -> list[FrameResult]:
        """Score frames that show several parts each, all parts as one batch."""
        found = [self._inputs.find_parts(frame.image_hwc) for frame, _ in taken]
        looks = [each for each in found if each is not None]
        slots_nhwc = self._slots(sum(len(each.views) for each in looks))
        ahead = iter(slots_nhwc)
        for (frame, _), each in zip(taken, looks, strict=True):
            swap = frame.channels != self._channels
            for view in each.views:
                self._inputs.into(frame.image_hwc, next(ahead), view=view, swap=swap)
        ready_ns = time.monotonic_ns()
        predictions = self._session.infer(slots_nhwc)
        marks = (begin_ns, ready_ns, time.monotonic_ns())
        results, start = [], 0
        for (frame, buffered_ns), each in zip(taken, looks, strict=True):
            own = slice(start, start + len(each.views))
            start = own.stop
            counted = self._inputs.count_parts(predictions[own], slots_nhwc[own], each)
            judged = judge_parts(each, counted, self.thresholds, min_area=self._config.min_area)
            look = _Look(self._inputs.view(each.frame_hw), None)
            results.append(self._result(frame, look, judged, buffered_ns, marks))
        return results

    def _look(self, frame: Frame) -> _Look:
        found = self._inputs.find_part(frame.image_hwc)
        pose = None if found is None else found.look
        return _Look(self._inputs.view(frame.image_hwc.shape[:2], pose), found)

    def _slots(self, count: int) -> NDArray[np.uint8]:
        """Return an array for the model's input, reused from frame to frame."""
        if len(self._input_nhwc) < count:
            self._input_nhwc = np.empty((count, *self._input_nhwc.shape[1:]), np.uint8)
        return self._input_nhwc[:count]

    def _judge(
        self,
        frame: Frame,
        look: _Look,
        prediction: Prediction,
        buffered_ns: int,
        marks: Marks,
    ) -> FrameResult:
        found = look.found
        score, map_hw, appearance = prediction.score, prediction.map_hw, prediction.appearance
        verdict = verdict_on(
            score, self.thresholds, map_hw=map_hw, found=found, appearance=appearance
        )
        invalid = invalid_kind(score, self.thresholds, map_hw=map_hw, appearance=appearance)
        areas = judge_areas(
            prediction,
            verdict,
            self.thresholds.pixel,
            view=look.view,
            min_area=self._config.min_area,
            found=found,
        )
        doubt = doubt_on(areas.verdict, invalid, found=found)
        judged = JudgedFrame(prediction=prediction, areas=areas, doubt=doubt)
        return self._result(frame, look, judged, buffered_ns, marks)

    def _result(
        self, frame: Frame, look: _Look, judged: JudgedFrame, buffered_ns: int, marks: Marks
    ) -> FrameResult:
        index, view, found = frame.source_index, look.view, look.found
        crop_hwc, whole_hwc = view.crop(frame.image_hwc), frame.image_hwc
        score, areas = judged.prediction.score, judged.areas
        times_ns = _times_ns(frame.grabbed_ns, buffered_ns, marks, time.monotonic_ns())
        self._meters.record_frame(times_ns)
        return FrameResult(
            source=self._names[index],
            source_index=index,
            frame_index=frame.frame_index,
            frame_name=frame.name,
            wall_s=frame.wall_s,
            monotonic_s=frame.grabbed_ns / 1e9,
            frame_id=frame.frame_id,
            camera_ns=frame.camera_ns,
            frame_hwc=crop_hwc if frame.channels == "rgb" else crop_hwc[:, :, ::-1],
            captured_hwc=whole_hwc if frame.channels == "rgb" else whole_hwc[:, :, ::-1],
            roi_xy=view.corner_xy,
            prediction=without_explanation(judged.prediction),
            threshold_score=self.thresholds.score,
            threshold_pixel=self.thresholds.pixel,
            verdict=areas.verdict,
            doubt=judged.doubt,
            p_value=None if self._good is None else chance(score, self._good),
            good_parts=None if self._good is None else self._good.count,
            regions=areas.regions,
            region_count=areas.count,
            times=_times_ms(times_ns),
            pose=None if found is None else found.pose,
            parts=judged.parts,
            view=None if view.pose is None else view,
            trace=self.trace,
            trigger_id=frame.trigger_id,
            part_id=frame.part_id,
        )

    def _tiling(self, frame_hw: tuple[int, int]) -> Tiling:
        if self._fitted_tiling is not None:
            return self._fitted_tiling
        height, width = self._session.metadata.size_hw
        share = self._config.tile_overlap or 0.0
        return Tiling(
            frame_hw=frame_hw, tile_hw=(height, width), overlap_hw=(height * share, width * share)
        )


def _trace(session: Session, thresholds: Thresholds, config: ScorerConfig) -> Trace:
    by_hand = config.threshold is not None  # the stored promise was of another threshold
    return Trace(
        model_sha256=session.model_sha256,
        recipe=config.recipe,
        threshold=thresholds.score,
        rate=None if by_hand else thresholds.false_alarm_rate,
        method="given by hand" if by_hand else thresholds.method,
        precision=session.metadata.precision,
        backend=session.backend,
    )


def _contradiction(name: str, tiling: Tiling) -> UsageError:
    (height, width), (tile_h, tile_w) = tiling.frame_hw, tiling.tile_hw
    return UsageError(
        Setting("tile", True),
        f": model {name} was fitted on tiles of {tile_h}x{tile_w} with an overlap of "
        f"{tiling.overlap_hw[0]:g} pixels, cut from frames of {height}x{width}, and always runs "
        "so; leave it out",
    )


def _times_ms(times_ns: tuple[int, int, int, int, int, int]) -> StageTimes:
    age, queue, pre, infer, post, total = times_ns  # spelt out: this runs for every frame
    return StageTimes(age / 1e6, queue / 1e6, pre / 1e6, infer / 1e6, post / 1e6, total / 1e6)


def _times_ns(
    grabbed_ns: int, buffered_ns: int, marks: Marks, done_ns: int
) -> tuple[int, int, int, int, int, int]:
    """Return times in the order of STAGES; the last is the exact sum of all but `queue`."""
    begin_ns, ready_ns, inferred_ns = marks
    return (
        begin_ns - grabbed_ns,
        begin_ns - buffered_ns,
        ready_ns - begin_ns,
        inferred_ns - ready_ns,
        done_ns - inferred_ns,
        done_ns - grabbed_ns,
    )
