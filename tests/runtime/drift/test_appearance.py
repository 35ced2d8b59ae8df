"""What the picture itself says of a drift: light, focus and position."""

import json
import math

import cv2
import numpy as np
import pytest

from edgeseg.runtime.drift.appearance import look_at
from edgeseg.runtime.drift.watch import DriftWatch
from tests.support.drift_distances import WINDOW, baseline, good_grid, textured


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("light", lambda f: (f * 0.9).astype(np.uint8)),
        ("light", lambda f: (f * 1.2).astype(np.uint8)),
        ("focus", lambda f: cv2.GaussianBlur(f, (0, 0), 1.0)),
        ("position", lambda f: np.roll(f, (5, 7), axis=(0, 1))),
        # A dark part enters on the right: darker on average, but not in most places.
        ("position", lambda f: np.concatenate([f[:, 40:], f[:, :40] // 4], axis=1)),
    ],
)
def test_the_frame_tells_what_has_moved(kind: str, change) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(3)
    watch = DriftWatch(baseline(), window=WINDOW)
    for _ in range(2 * WINDOW):
        watch.update(good_grid(rng), anomalous=False, frame_hwc=textured(rng))
    for _ in range(2 * WINDOW):
        state = watch.update(
            good_grid(rng) * np.float32(1.4), anomalous=False, frame_hwc=change(textured(rng))
        )
    assert state.kind == kind
    assert state.message.startswith(f"{state.headline}: ")
    assert state.advice != ""


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("light", lambda f: (f * 0.7).astype(np.uint8)),
        ("focus", lambda f: cv2.GaussianBlur(f, (0, 0), 1.5)),
    ],
)
def test_a_change_that_hides_defects_warns_too(kind: str, change) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(3)
    watch = DriftWatch(baseline(), window=WINDOW)
    for index in range(4 * WINDOW):
        frame = textured(rng) if index < 2 * WINDOW else change(textured(rng))
        state = watch.update(good_grid(rng), anomalous=False, frame_hwc=frame)
        if index < 2 * WINDOW:
            assert state.level != "warn"
    assert (state.level, state.kind) == ("warn", kind)
    assert "distances have not risen, so defects may be missed" in state.message


def test_parts_that_differ_are_no_change_of_light() -> None:
    rng = np.random.default_rng(3)
    watch = DriftWatch(baseline(), window=WINDOW)
    for index in range(4 * WINDOW):
        # Parts of any brightness, then one dark part that stays: within what was seen before.
        gain = rng.uniform(0.4, 1.0) if index < 2 * WINDOW else 0.45
        frame = (textured(rng) * gain).astype(np.uint8)
        assert watch.update(good_grid(rng), anomalous=False, frame_hwc=frame).level != "warn"


def test_drift_from_the_start_is_of_unknown_kind() -> None:
    rng = np.random.default_rng(4)
    watch = DriftWatch(baseline(), window=WINDOW)
    for _ in range(WINDOW):
        state = watch.update(
            good_grid(rng) * np.float32(1.5), anomalous=True, frame_hwc=textured(rng)
        )
    assert (state.level, state.kind, state.brightness) == ("warn", "unknown", None)
    assert state.message.startswith("the picture is not as on the good images: ")


def test_looks_are_independent_of_gain_and_of_each_other() -> None:
    frame = textured(np.random.default_rng(5))
    base, dim = look_at(frame), look_at((frame // 2 * 2 // 2).astype(np.uint8))
    np.testing.assert_allclose(base.brightness - dim.brightness, math.log(2), atol=0.03)
    assert base.sharpness == pytest.approx(dim.sharpness, abs=0.03)
    blurred = look_at(cv2.GaussianBlur(frame, (0, 0), 1.0).astype(np.uint8))
    assert blurred.sharpness < base.sharpness - 0.2
    np.testing.assert_allclose(blurred.brightness, base.brightness, atol=0.03)


def test_brightness_is_that_of_sixteen_parts() -> None:
    levels = np.arange(16, dtype=np.uint8).reshape(4, 4) * 10 + 5
    frame = np.repeat(np.repeat(levels, 24, axis=0), 40, axis=1)[..., None].repeat(3, axis=2)
    np.testing.assert_allclose(look_at(frame).brightness, np.log(levels.ravel() + 1.0), atol=0.02)


@pytest.mark.parametrize("size_hw", [(1, 1), (1, 64), (64, 8), (64, 9), (2160, 3840)])
def test_looks_of_any_size(size_hw: tuple[int, int]) -> None:
    look = look_at(np.full((*size_hw, 3), 99, np.uint8))
    np.testing.assert_allclose(look.brightness, math.log(100))
    assert look.sharpness == 0.0


def test_a_moved_camera_warns_before_distances_rise() -> None:
    rng = np.random.default_rng(3)
    scene = cv2.GaussianBlur(textured(rng), (0, 0), 6)
    watch = DriftWatch(baseline(), window=WINDOW)
    for index in range(6 * WINDOW):
        frame = np.roll(scene, 4, axis=1) if index >= 2 * WINDOW else scene.copy()
        left = index * 11 % 120
        frame[:, left : left + 8] += 20  # so that no view is the same as the one before
        state = watch.update(good_grid(rng), anomalous=False, frame_hwc=frame)
        if index < 2 * WINDOW:
            assert state.level != "warn"
    assert (state.level, state.kind) == ("warn", "position")
    assert state.movement is not None
    assert state.movement.right == pytest.approx(4 / 128, abs=0.01)
    assert " to the right and " in state.message
    assert "distances have not risen yet" in state.message
    facts = json.loads(json.dumps(state.facts()))
    assert facts["movement"] == vars(state.movement)
    assert "ratio_hw" not in facts
