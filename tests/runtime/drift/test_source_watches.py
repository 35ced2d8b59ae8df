"""Variants that take turns are no drift, and a warning of one outlasts the others' frames."""

import numpy as np

from edgeseg.runtime.drift.source_watches import SourceWatches
from edgeseg.runtime.drift.watch import DriftWatch
from tests.support.brightness_model import brightness_metadata
from tests.support.scored_frames import passing_part

WINDOW = 32


def watches() -> SourceWatches:
    return SourceWatches(
        lambda: DriftWatch(brightness_metadata().drift, window=WINDOW), window=WINDOW
    )


def show(source: SourceWatches, variant: str | None, count: int, *, d: float = 100.0) -> str:
    """The level after so many frames of a variant; a red part is darker than a blue one."""
    for index in range(count):
        frame_hwc = passing_part(index) // (3 if variant == "red" else 1)
        grid_hw = np.full((4, 6), d, np.float32)
        state = source.update(grid_hw, variant=variant, anomalous=False, frame_hwc=frame_hwc)
    return state.level


def test_another_variant_is_no_change_of_light() -> None:
    source = watches()
    for _ in range(6):
        show(source, "blue", 16)
        level = show(source, "red", 16)
    assert level == "ok"
    one = watches()
    show(one, None, 64)
    for index in range(3 * WINDOW):
        state = one.update(
            np.full((4, 6), 100.0, np.float32),
            variant=None,
            anomalous=False,
            frame_hwc=passing_part(index) // 3,
        )
    assert (state.level, state.kind) == ("warn", "light"), "of one product it is one"


def test_a_new_variant_is_not_known_at_first() -> None:
    source = watches()
    assert source.state.level == "unseen"
    assert show(source, "blue", WINDOW) == "ok"
    assert show(source, "red", 8) == "unseen"
    assert show(source, "blue", 1) == "ok"


def test_a_warning_stays_while_its_variant_is_seen() -> None:
    source = watches()
    assert show(source, "red", 3 * WINDOW, d=200.0) == "warn"
    assert show(source, "blue", WINDOW - 1) == "warn"
    assert show(source, "blue", 1) == "ok", "for a window no red part has come"
    assert show(source, "red", 1, d=200.0) == "warn"
