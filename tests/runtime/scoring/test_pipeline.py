"""The loop with fake sources and sinks: counts, limits, batches, failures."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from edgeseg.base.errors import RuntimeFailure, UsageError
from edgeseg.modelfile.metadata import TileLayout
from edgeseg.runtime.backends.base import Session
from edgeseg.runtime.capture.sources import SourceSpec
from edgeseg.runtime.events.records import STAGES, SourceEvent
from edgeseg.runtime.scoring.meters import Faults
from edgeseg.runtime.scoring.pipeline import Pipeline, PipelineConfig
from edgeseg.runtime.scoring.scorer import ScorerConfig
from edgeseg.runtime.scoring.verdict import Debounce
from edgeseg.vision.geometry import Roi
from tests.doubles.fakes import BrightnessSession, Canned, Collect, camera, clip, grey, opens, wait
from tests.support.brightness_model import brightness_metadata

WARM_UP = 3  # runs
PLAIN = PipelineConfig(queue_size=8, stall_timeout_s=5.0)


class Run:
    """A pipeline, its one good sink and what it noted; it ends with the note that is the `last`."""

    def __init__(
        self,
        session: Session,
        specs: Sequence[SourceSpec],
        opener: object,
        *,
        config: PipelineConfig | None = None,
        last: Callable[[str], bool] = lambda line: False,
    ) -> None:
        self.notes: list[str] = []
        self._last = last
        self.stop = threading.Event()
        self.sink = Collect()
        self.pipeline = Pipeline(
            session,
            specs,
            config=config or PLAIN,
            faults=Faults(self._note),
            stop=self.stop,
            note=self._note,
            opener=opener,  # type: ignore[arg-type]
        )
        self.pipeline.add_sink(self.sink)

    def _note(self, line: str) -> None:
        self.notes.append(line)
        if self._last(line):
            self.stop.set()

    def check_counts(self) -> None:
        """The invariant: in = scored + dropped, for each source."""
        for source in self.pipeline.snapshot().sources:
            assert source.frames_in == source.scored + sum(source.dropped.values())
        scored = sum(source.scored for source in self.pipeline.snapshot().sources)
        assert scored == len(self.sink.results)


def test_every_frame_of_a_file_is_scored_once_in_order() -> None:
    run = Run(BrightnessSession(), [clip()], opens(Canned([grey(level) for level in range(100)])))
    run.pipeline.run()
    assert [result.prediction.score for result in run.sink.results] == list(range(100))
    assert [result.frame_index for result in run.sink.results] == list(range(100))
    assert run.sink.closed
    assert [event.kind for event in run.sink.events] == ["source_open", "source_end"]
    run.check_counts()


def test_verdicts_alarms_and_times_of_a_frame() -> None:
    levels = [100, 250, 100, 250, 250, 100]
    config = replace(PLAIN, scorer=ScorerConfig(debounce=Debounce(k=2, n=3)))
    images = opens(Canned([grey(level) for level in levels]))
    run = Run(BrightnessSession(), [clip()], images, config=config)
    run.pipeline.run()
    results = run.sink.results
    assert [result.verdict for result in results] == [
        "good" if level == 100 else "defect" for level in levels
    ]
    assert [result.alarm for result in results] == [False, False, False, True, True, True]
    assert [result.alarm_started for result in results] == [False] * 3 + [True] + [False] * 2
    assert results[1].regions[0].box_xywh == (0, 0, 48, 32)
    for result in results:
        times = result.times
        total = times.capture_age + times.pre + times.infer + times.post
        assert times.end_to_end == pytest.approx(total)
        assert 0 <= times.queue <= times.capture_age
    stages = run.pipeline.snapshot().stages
    assert set(stages) == {*STAGES, "sinks"}
    assert {summary.count for summary in stages.values()} == {6}
    exact = sorted(result.times.end_to_end for result in results)
    assert stages["end_to_end"].max == pytest.approx(exact[-1])
    assert stages["end_to_end"].p50 == pytest.approx(exact[2], rel=1 / 256)


def test_a_source_faster_than_the_model_drops_exactly_what_it_does_not_score() -> None:
    frames = 300
    capture = Canned([grey(index % 200) for index in range(frames)])
    session = BrightnessSession()
    run = Run(session, [camera()], opens(capture))

    def frames_in() -> int:
        return run.pipeline.buffer.counters(0).frames_in

    def be_slow() -> None:
        """A hundred frames come while one is under way."""
        due = min(frames, 100 * (len(session.batches) - WARM_UP))
        wait(lambda: frames_in() >= due, f"{due} frames")

    session.meanwhile = be_slow
    run.pipeline.add_sink(Collect(on_frame=lambda: frames_in() == frames and run.stop.set()))
    run.pipeline.run()
    (source,) = run.pipeline.snapshot().sources
    assert source.frames_in == frames
    assert source.scored <= 3
    assert source.dropped["replaced"] >= frames - 3 - 1, "one may wait at the end"
    indices = [result.frame_index for result in run.sink.results]
    assert indices == sorted(set(indices)), "newest first means never back in time, never twice"
    run.check_counts()


def test_several_sources_share_one_batch() -> None:
    frames = 20
    session = BrightnessSession(brightness_metadata(batch=(1, 2, 3)))
    captures = [Canned([grey(50 * source + 10)] * frames) for source in range(3)]
    run = Run(session, [clip(f"clip{source}") for source in range(3)], opens(*captures))

    def ready(index: int) -> bool:
        lane = run.pipeline.buffer._lanes[index]
        return bool(lane.waiting) or lane.finished

    def be_slow() -> None:
        """Every source that has frames left has its next ready when a batch is done."""
        if len(session.batches) > WARM_UP:
            wait(lambda: all(ready(index) for index in range(3)), "the next frames")

    session.meanwhile = be_slow
    run.pipeline.run()
    first, *others = session.batches[WARM_UP:]  # what was there when scoring began
    assert others == [3] * (frames - 1) + ([3 - first] if first < 3 else [])
    by_source: dict[int, set[float]] = {}
    for result in run.sink.results:
        by_source.setdefault(result.source_index, set()).add(result.prediction.score)
    assert sum(len(scores) for scores in by_source.values()) == 3, "no frame under another's name"
    run.check_counts()


def test_one_camera_in_alarm_does_not_alarm_another() -> None:
    captures = [Canned([grey(250)] * 5), Canned([grey(10)] * 5)]
    run = Run(BrightnessSession(), [clip("bad"), clip("good")], opens(*captures))
    run.pipeline.run()
    alarmed = {run.pipeline.readers[r.source_index].spec.name for r in run.sink.results if r.alarm}
    assert len(alarmed) == 1
    scores = {r.prediction.score for r in run.sink.results if r.alarm}
    assert scores == {250.0}


def test_limits_end_the_run() -> None:
    run = Run(
        BrightnessSession(),
        [clip()],
        opens(Canned([grey(1)] * 1000)),
        config=replace(PLAIN, max_frames=7),
    )
    run.pipeline.run()
    assert len(run.sink.results) == 7
    run.check_counts()


def test_the_duration_ends_the_run() -> None:
    hour_s = 3600.0
    config = replace(PLAIN, duration_s=hour_s)
    run = Run(BrightnessSession(), [camera()], opens(), config=config)

    class HourLater(Collect):
        def on_source(self, event: SourceEvent) -> None:
            run.pipeline.meters.started_s -= hour_s

    run.pipeline.add_sink(HourLater())
    with pytest.raises(RuntimeFailure, match=r"^cam: no frame in \d+\.\d s \(unplugged\)$"):
        run.pipeline.run()
    assert run.notes[0] == "cam: lost (unplugged)"
    assert run.pipeline.snapshot().uptime_s >= hour_s
    assert run.pipeline.snapshot().errors == {"source_lost": 1}


def test_a_camera_that_was_there_is_no_failure_and_its_loss_is_counted() -> None:
    run = Run(BrightnessSession(), [camera()], opens(Canned([grey(1)] * 3)))

    class EndsWhenLost(Collect):
        def on_source(self, event: SourceEvent) -> None:
            if event.kind == "source_lost":
                run.stop.set()

    run.pipeline.add_sink(EndsWhenLost())
    run.pipeline.run()
    assert run.pipeline.snapshot().errors == {"source_lost": 1}


def test_a_sink_that_raises_is_counted_and_harms_nobody() -> None:
    run = Run(BrightnessSession(), [clip()], opens(Canned([grey(1)] * 10)))
    run.pipeline.add_sink(Collect(raises=True))
    after = Collect()
    run.pipeline.add_sink(after)
    run.pipeline.run()
    assert len(run.sink.results) == len(after.results) == 10
    assert after.closed
    assert run.pipeline.snapshot().errors == {"collect": 13}, "frames, source events, close"
    assert "collect: ValueError: sink failed at rtsp://***@cam/1" in run.notes, "noted once"
    assert sum("sink failed" in line for line in run.notes) == 1


def test_a_model_that_fails_ends_the_run_with_all_frames_accounted_for() -> None:
    run = Run(BrightnessSession(fail_at=WARM_UP + 4), [clip()], opens(Canned([grey(1)] * 1000)))
    with pytest.raises(RuntimeFailure, match="the device is gone"):
        run.pipeline.run()
    assert run.sink.closed
    (source,) = run.pipeline.snapshot().sources
    assert (source.scored, source.dropped["failed"]) == (4, 1)
    run.check_counts()


def test_a_model_that_fails_before_the_first_frame_leaves_nothing_open() -> None:
    run = Run(BrightnessSession(fail_at=0), [clip()], opens(Canned([grey(1)])))
    with pytest.raises(RuntimeFailure, match="the device is gone"):
        run.pipeline.run()
    assert run.sink.closed


def test_a_broken_file_among_good_ones_is_reported_at_the_end() -> None:
    opener = opens(RuntimeFailure("a: not a video"), Canned([grey(1)] * 5))
    run = Run(BrightnessSession(), [clip("a"), clip("b")], opener)
    with pytest.raises(RuntimeFailure, match="not a video"):
        run.pipeline.run()
    assert len(run.sink.results) == 5
    assert any("end (" in line and "not a video)" in line for line in run.notes)


def test_only_the_region_of_interest_is_scored() -> None:
    image = grey(10, (60, 80))
    image[40, 70] = 255
    image[2, 2] = 255  # outside
    config = replace(PLAIN, scorer=ScorerConfig(roi=Roi(x=20, y=20, w=60, h=40), threshold=20.0))
    run = Run(BrightnessSession(), [clip()], opens(Canned([image])), config=config)
    run.pipeline.run()
    (result,) = run.sink.results
    assert result.frame_hwc.shape == (40, 60, 3)
    assert result.roi_xy == (20, 20)
    assert result.region_count == 1
    x, y, w, h = result.regions[0].box_xywh
    assert x <= 50 < x + w
    assert y <= 20 < y + h


def test_small_regions_do_not_decide_and_what_that_hides_is_said() -> None:
    speck, spot = grey(10, (32, 48)), grey(10, (32, 48))
    speck[4:8, 4:8] = 255
    spot[4:12, 4:12] = 255
    config = replace(PLAIN, scorer=ScorerConfig(min_area=25, threshold=100.0))
    run = Run(BrightnessSession(), [clip()], opens(Canned([speck, spot])), config=config)
    run.pipeline.run()
    small, large = run.sink.results
    assert (small.verdict, small.regions, small.alarm) == ("good", (), False)
    assert (large.verdict, large.regions[0].area_px, large.severity) == ("defect", 64, "major")
    assert any(
        line.endswith(
            "regions below 25 pixels do not decide: a defect of up to 5x5 pixels may pass as good; "
            "a cell of the grid is 8x8 pixels"
        )
        for line in run.notes
    )


def test_a_region_outside_of_the_frame_is_a_mistake_at_first_and_a_drop_later() -> None:
    config = replace(PLAIN, scorer=ScorerConfig(roi=Roi(x=0, y=0, w=48, h=32)))
    wrong = Run(BrightnessSession(), [clip()], opens(Canned([grey(1, (16, 16))])), config=config)
    with pytest.raises(RuntimeFailure, match="clip: frames of 16x16 do not hold roi=0,0,48,32"):
        wrong.pipeline.run()
    wrong.check_counts()
    sizes = [(32, 48), (16, 16), (64, 64)]
    later = Run(
        BrightnessSession(), [clip()], opens(Canned([grey(1, s) for s in sizes])), config=config
    )
    later.pipeline.run()
    assert [result.frame_index for result in later.sink.results] == [0, 2]
    assert later.pipeline.snapshot().sources[0].dropped == {"wrong_size": 1}
    later.check_counts()


def test_tiles_see_what_resizing_would_lose() -> None:
    image = grey(10, (256, 384))
    image[200, 300] = 255  # one pixel: gone after shrinking eight times
    plain = Run(BrightnessSession(), [clip()], opens(Canned([image])))
    plain.pipeline.run()
    config = replace(PLAIN, scorer=ScorerConfig(tile_overlap=0.25))
    session = BrightnessSession(brightness_metadata(batch=(1, 4, 8)))
    tiled = Run(session, [clip()], opens(Canned([image])), config=config)
    tiled.pipeline.run()
    assert plain.sink.results[0].verdict == "good"
    (result,) = tiled.sink.results
    assert result.verdict == "defect"
    assert result.prediction.map_hw.shape == (256, 384)
    assert result.regions[0].box_xywh == (300, 200, 1, 1)
    assert "clip: frames of 384x256 are scored as 121 tiles each" in tiled.notes
    assert max(session.batches) == 8


def test_a_model_fitted_on_tiles_runs_on_tiles_of_the_frame_it_knows() -> None:
    image = grey(10, (128, 192))
    image[100:104, 150:154] = 255
    metadata = replace(brightness_metadata(), tiles=TileLayout(frame_hw=(64, 96), overlap=8))
    run = Run(BrightnessSession(metadata), [clip()], opens(Canned([image])))
    run.pipeline.run()
    (result,) = run.sink.results
    assert result.prediction.map_hw.shape == (64, 96)
    assert result.prediction.grid_hw is None
    assert result.prediction.score == 255
    assert result.regions[0].box_xywh == (150, 100, 4, 4)  # in pixels of the captured frame
    assert "clip: frames of 192x128 are scored as 9 tiles each" in run.notes


def test_a_model_fitted_on_tiles_takes_no_other_tiles() -> None:
    metadata = replace(brightness_metadata(), tiles=TileLayout(frame_hw=(64, 96), overlap=8))
    config = replace(PLAIN, scorer=ScorerConfig(tile_overlap=0.25))
    with pytest.raises(UsageError) as caught:
        Run(BrightnessSession(metadata), [clip()], opens(Canned([])), config=config)
    assert str(caught.value) == (
        "tile=True: model brightness was fitted on tiles of 32x48 with an overlap of 8 pixels, cut "
        "from frames of 64x96, and always runs so; leave it out"
    )


@pytest.mark.parametrize("channels", ["RGB", "BGR"])
def test_channels_reach_model_and_sinks_in_their_own_order(channels: str) -> None:
    class Bgr(Canned):
        def read(self) -> object:  # type: ignore[override]
            grab = super().read()
            return grab and grab._replace(channels="bgr")

    class Spy(BrightnessSession):
        def _run(self, frames_nhwc: np.ndarray) -> object:  # type: ignore[override]
            self.seen = frames_nhwc.copy()
            return super()._run(frames_nhwc)

    image = np.zeros((32, 48, 3), np.uint8)
    image[:] = (10, 20, 30)  # blue, green, red
    plain = brightness_metadata()
    metadata = replace(plain, input=replace(plain.input, channels=channels))
    session = Spy(metadata)
    run = Run(session, [clip()], opens(Bgr([image])))
    run.pipeline.run()
    expected = (30, 20, 10) if channels == "RGB" else (10, 20, 30)
    assert tuple(session.seen[0, 0, 0]) == expected
    assert tuple(run.sink.results[0].frame_hwc[0, 0]) == (30, 20, 10), "sinks always see RGB"


def test_status_lines_say_what_is_wrong() -> None:
    def tells_all(line: str) -> bool:
        return all(part in line for part in ("end-to-end", "not good 1 of 1", "LOST cam"))

    config = replace(PLAIN, duration_s=60.0, status_every_s=0.01)
    images = opens(Canned([grey(250)]))
    run = Run(BrightnessSession(), [camera()], images, config=config, last=tells_all)
    run.pipeline.run()
    assert any(tells_all(line) for line in run.notes)


def test_no_thread_outlives_a_run() -> None:
    before = threading.active_count()
    for _ in range(5):
        run = Run(BrightnessSession(), [clip()], opens(Canned([grey(1)] * 10)))
        run.pipeline.run()
    assert threading.active_count() == before


def test_odd_grey_and_large_frames() -> None:
    sizes = [(1, 1), (31, 47), (480, 640), (2160, 3840)]
    for size_hw in sizes:
        run = Run(BrightnessSession(), [clip()], opens(Canned([grey(9, size_hw)])))
        run.pipeline.run()
        assert run.sink.results[0].prediction.score == 9.0
        assert run.sink.results[0].frame_hwc.shape[:2] == size_hw
