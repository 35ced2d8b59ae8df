"""What the scorer says of a frame is what a program is told of it."""

from dataclasses import replace

import numpy as np
import pytest

from edgeseg.decision.operating_point import p_value
from edgeseg.decision.score_statistics import ScoreStatistics
from edgeseg.modelfile.metadata import ModelMetadata
from edgeseg.runtime.capture.frame_buffer import Frame
from edgeseg.runtime.events.records import FrameResult, Trace
from edgeseg.runtime.scoring.detector import Detector
from edgeseg.runtime.scoring.meters import StreamMeters
from edgeseg.runtime.scoring.scorer import Scorer, ScorerConfig
from edgeseg.runtime.scoring.verdict import Debounce
from edgeseg.runtime.sinks.event_log import frame_event
from tests.doubles.fakes import BrightnessSession, grey
from tests.support.brightness_model import brightness_metadata

GOOD = np.linspace(100.0, 198.0, 99, dtype=np.float32)
LEVELS = (90, 150, 185, 205, 240)
VERDICTS = ["good", "good", "unsure", "defect", "defect"]


def banded() -> ModelMetadata:
    """Unsure from 180, a defect from 200, marked from 220 on."""
    metadata = brightness_metadata(threshold=200.0)
    limits = replace(metadata.threshold, pixel=220.0, unsure=180.0, unsure_rate=0.2)
    return replace(metadata, threshold=limits, good_scores=ScoreStatistics.of(GOOD, GOOD))


def scored(config: ScorerConfig) -> list[FrameResult]:
    scorer = Scorer(BrightnessSession(banded()), ["camera"], config=config, meters=StreamMeters(1))
    results = []
    for index, level in enumerate(LEVELS):
        frame = Frame(
            source_index=0,
            frame_index=index,
            image_hwc=grey(level),
            channels="rgb",
            grabbed_ns=0,
            wall_s=0.0,
            name="",
        )
        results += [scorer.apply_decision(result, None) for result in scorer.score([(frame, 0)])]
    return results


def test_verdicts_p_values_and_marks():
    results = scored(ScorerConfig())
    assert [result.verdict for result in results] == VERDICTS
    assert [result.alarm for result in results] == [False, False, False, True, True]
    for result, level in zip(results, LEVELS, strict=True):
        assert result.p_value == p_value(level, GOOD)
        assert (result.region_count > 0) == (result.verdict != "good"), "what is not good is marked"
    event = frame_event(results[-1])
    assert (event["p_value"], event["oddness"]) == (0.01, "odder than all 99 good parts")


def test_a_program_is_told_the_same():
    detector = Detector(BrightnessSession(banded()))
    for level, result in zip(LEVELS, scored(ScorerConfig()), strict=True):
        told = detector.predict(grey(level))
        assert (told.verdict, told.p_value, told.regions) == (
            result.verdict, result.p_value, result.regions,
        )  # fmt: skip


def test_a_threshold_of_the_user_moves_the_band():
    assert [result.verdict for result in scored(ScorerConfig(threshold=100.0))] == [
        "good", "defect", "defect", "defect", "defect",
    ]  # fmt: skip
    doubts = scored(ScorerConfig(threshold=210.0, debounce=Debounce(k=1, n=5)))
    assert [result.verdict for result in doubts][-2:] == ["unsure", "defect"]
    assert not doubts[-2].alarm


@pytest.mark.parametrize("overlap", [0.0, 0.25])
def test_tiles_that_only_this_stream_cuts_have_no_p_value(overlap):
    results = scored(ScorerConfig(tile_overlap=overlap))
    assert [result.p_value for result in results] == [None] * len(LEVELS)


def test_every_result_names_what_gave_it():
    session = BrightnessSession(banded())
    session.model_sha256 = "ab" * 32
    config = ScorerConfig(recipe="bottle")
    trace = Scorer(session, ["camera"], config=config, meters=StreamMeters(1)).trace
    assert trace == Trace(
        model_sha256="ab" * 32,
        recipe="bottle",
        threshold=200.0,
        rate=0.01,
        method="split-conformal, 100 good images",
        precision="fp32",
        backend="numpy",
    )
    assert scored(ScorerConfig())[0].trace == replace(trace, model_sha256=None, recipe=None)


def test_a_threshold_given_by_hand_has_no_stored_promise():
    trace = scored(ScorerConfig(threshold=100.0))[0].trace
    assert (trace.threshold, trace.rate, trace.method) == (100.0, None, "given by hand")


def with_limit() -> ModelMetadata:
    """A frame whose map exceeds 230 in three quarters of its places is not this part."""
    return replace(banded(), threshold=replace(banded().threshold, foreign=230.0))


def judged_by(scorer: Scorer, image_hwc: np.ndarray) -> FrameResult:
    frame = Frame(
        source_index=0, frame_index=0, image_hwc=image_hwc, channels="rgb", grabbed_ns=0,
        wall_s=0.0, name="",
    )  # fmt: skip
    return scorer.apply_decision(scorer.score([(frame, 0)])[0], None)


def test_a_frame_that_is_bright_everywhere_is_no_defect():
    session, meters = BrightnessSession(with_limit()), StreamMeters(1)
    scorer = Scorer(session, ["camera"], config=ScorerConfig(), meters=meters)
    spot = grey(100)
    spot[8:16, 8:16] = 250
    foreign, defect = judged_by(scorer, grey(250)), judged_by(scorer, spot)
    assert (foreign.verdict, defect.verdict) == ("invalid", "defect")
    assert (foreign.alarm, defect.alarm) == (True, True)
    event = frame_event(foreign)
    assert (event["verdict"], event["score"]) == ("invalid", 250.0)
    assert meters.verdicts[0] == {"invalid": 1, "defect": 1}
    detector = Detector(session)
    told = [detector.predict(each) for each in (grey(250), spot)]
    assert [each.verdict for each in told] == ["invalid", "defect"]
    # Of a frame that does not show the part there is nothing to say beside good parts.
    assert foreign.p_value == defect.p_value == 0.01
    words = [None, "odder than all 99 good parts"]
    assert [frame_event(each)["oddness"] for each in (foreign, defect)] == words
    assert [each.oddness for each in told] == words


def test_tiles_that_only_a_stream_cuts_have_no_such_limit():
    scorer = Scorer(
        BrightnessSession(with_limit()), ["camera"], config=ScorerConfig(tile_overlap=0.0),
        meters=StreamMeters(1),
    )  # fmt: skip
    assert scorer.thresholds.foreign is None
    assert judged_by(scorer, grey(250)).verdict == "defect"


@pytest.mark.parametrize("count", [31, 32, 100])
def test_many_specks_do_not_hide_a_stain(count: int) -> None:
    picture = grey(10, (32, 48))
    for number in range(count):
        y, x = divmod(number, 24)
        picture[2 * y, 2 * x] = 255
    picture[20:28, 20:28] = 230
    config = ScorerConfig(min_area=25)
    scorer = Scorer(BrightnessSession(banded()), ["camera"], config=config, meters=StreamMeters(1))
    frame = Frame(
        source_index=0,
        frame_index=0,
        image_hwc=picture,
        channels="rgb",
        grabbed_ns=0,
        wall_s=0.0,
        name="",
    )
    (result,) = scorer.score([(frame, 0)])
    assert (result.verdict, result.region_count, result.severity) == ("defect", 1, "major")
    assert [region.box_xywh for region in result.regions] == [(20, 20, 8, 8)]
