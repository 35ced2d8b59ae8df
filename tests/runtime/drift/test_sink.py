"""The drift watch as a sink, over changes of the model."""

from dataclasses import replace

import numpy as np

from edgeseg.runtime.drift.sink import DriftSink
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
    sink.change_model(first, key="a")
    assert frames(sink, 16, cells=(4, 6)) == 16
    sink.change_model(second, key="b")
    assert sink.states == {}
    assert frames(sink, 8, cells=(8, 12)) == 8
    sink.change_model(first, key="a")
    assert frames(sink, 8, cells=(4, 6)) == 24


def test_a_model_without_a_usable_baseline_is_not_watched() -> None:
    metadata = brightness_metadata()
    sink = DriftSink(metadata)
    flat = replace(metadata, drift=replace(metadata.drift, frame_std=0.0))
    sink.change_model(flat, key="flat")
    sink.on_frame(make_result(grid_hw=np.full((4, 6), 100.0, np.float32)))
    assert sink.states == {}
    sink.change_model(metadata, key="a")
    assert frames(sink, 8, cells=(4, 6)) == 8
