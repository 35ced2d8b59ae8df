"""The drift watch as a sink, over changes of the model."""

from dataclasses import replace

import numpy as np

from edgeseg.runtime.drift.sink import DriftSink
from edgeseg.runtime.events.records import ModelChange, SourceEvent, SourceEventKind
from tests.support.brightness_model import brightness_metadata
from tests.support.scored_frames import make_result, passing_part


def frames(sink: DriftSink, count: int, *, cells: tuple[int, int]) -> int:
    """Show so many frames; how many the watch has seen by its last evaluation."""
    for index in range(count):
        grid_hw = np.full(cells, 100.0, np.float32)
        sink.on_frame(make_result(grid_hw=grid_hw, frame_hwc=passing_part(index)))
    return sink.states[0].frames


def test_every_model_has_a_watch_of_its_own_and_finds_it_again() -> None:
    first, second = brightness_metadata(), brightness_metadata(grid_hw=(8, 12))
    sink = DriftSink(first)
    sink.change_model(ModelChange(metadata=first, key="a"))
    assert frames(sink, 16, cells=(4, 6)) == 16
    sink.change_model(ModelChange(metadata=second, key="b"))
    assert (sink.states[0].level, sink.states[0].frames) == ("unseen", 0)
    assert frames(sink, 8, cells=(8, 12)) == 8
    sink.change_model(ModelChange(metadata=first, key="a"))
    assert frames(sink, 8, cells=(4, 6)) == 24


def test_a_model_without_a_usable_baseline_is_not_watched() -> None:
    metadata = brightness_metadata()
    sink = DriftSink(metadata)
    flat = replace(metadata, drift=replace(metadata.drift, frame_std=0.0))
    sink.change_model(ModelChange(metadata=flat, key="flat"))
    sink.on_frame(make_result(grid_hw=np.full((4, 6), 100.0, np.float32)))
    assert sink.states == {}
    sink.change_model(ModelChange(metadata=metadata, key="a"))
    assert frames(sink, 8, cells=(4, 6)) == 8


def news(kind: SourceEventKind) -> SourceEvent:
    return SourceEvent(kind=kind, source="camera 0", source_index=0, wall_s=0.0, monotonic_s=0.0)


def test_before_enough_frames_nothing_is_said_to_be_as_on_the_good_images() -> None:
    sink = DriftSink(brightness_metadata(), window=32)
    sink.on_source(news("source_open"))
    state = sink.states[0]
    assert (state.level, state.known) == ("unseen", False)
    assert state.facts()["message"] == "not yet known: 0 of 32 frames"
    frames(sink, 24, cells=(4, 6))
    assert sink.states[0].headline == "not yet known: 24 of 32 frames"
    frames(sink, 8, cells=(4, 6))
    assert (sink.states[0].level, sink.states[0].headline) == ("ok", "as on the good images")


def test_of_a_lost_camera_nothing_is_known() -> None:
    sink = DriftSink(brightness_metadata(), window=32)
    frames(sink, 32, cells=(4, 6))
    sink.on_source(news("source_lost"))
    assert (sink.states[0].level, sink.states[0].kind) == ("lost", "none")
    assert sink.states[0].message == "not known: the camera is lost"
    frames(sink, 1, cells=(4, 6))  # that was on its way
    assert sink.states[0].level == "lost"
    sink.change_model(ModelChange(metadata=brightness_metadata(), key="other"))
    assert sink.states[0].level == "lost"
    sink.on_source(news("source_back"))
    assert (sink.states[0].level, sink.states[0].frames) == ("unseen", 0)


def test_neither_the_first_window_nor_a_loss_is_the_end_of_a_warning() -> None:
    changes: list[str] = []
    sink = DriftSink(
        brightness_metadata(), window=32, publish=lambda change: changes.append(change.state.level)
    )
    frames(sink, 40, cells=(4, 6))
    sink.on_source(news("source_lost"))
    sink.on_source(news("source_back"))
    frames(sink, 8, cells=(4, 6))
    assert changes == []
