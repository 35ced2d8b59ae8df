"""The shift and turn of a view, against pictures that were moved by known amounts."""

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edgeseg.runtime.drift.position import SIDE, Movement, PositionWatch, picture_of

SIZE = 256
Frame = NDArray[np.uint8]


def scene(seed: int = 0) -> Frame:
    """A smooth random scene without a symmetry."""
    noise = np.random.default_rng(seed).normal(size=(SIZE, SIZE))
    smooth = cv2.GaussianBlur(noise, (0, 0), 24)
    grey = 127 + 50 * smooth / smooth.std()
    return np.repeat(np.clip(grey, 0, 255).astype(np.uint8)[:, :, None], 3, axis=2)


def moved(frame: Frame, *, x: float = 0, y: float = 0, degrees: float = 0) -> Frame:
    matrix = cv2.getRotationMatrix2D(((SIZE - 1) / 2, (SIZE - 1) / 2), degrees, 1.0)
    matrix[:, 2] += (x, y)
    out = cv2.warpAffine(frame, matrix, (SIZE, SIZE), borderMode=cv2.BORDER_REFLECT_101)
    return out.astype(np.uint8)


def watch_of(frames: list[Frame], *, recent: int = 1) -> PositionWatch:
    watch = PositionWatch(reference=len(frames), recent=recent)
    for frame in frames:
        watch.update(picture_of(frame), good=True, weight=1.0)
    assert watch.ready
    return watch


def after(watch: PositionWatch, frame: Frame, *, weight: float = 1.0) -> Movement:
    watch.update(picture_of(frame), good=False, weight=weight)
    return watch.movement


@pytest.mark.parametrize(("x", "y"), [(0, 0), (3, 0), (0, -5), (-4, 2)])
def test_a_shift_is_measured(x: int, y: int) -> None:
    movement = after(watch_of([scene()] * 4), moved(scene(), x=x, y=y))
    assert (movement.right, movement.down) == pytest.approx((x / SIZE, y / SIZE), abs=0.003)
    assert abs(movement.turn) < 0.3


@pytest.mark.parametrize("degrees", [-3.0, 1.0, 4.0])
def test_a_turn_is_measured(degrees: float) -> None:
    movement = after(watch_of([scene()] * 4), moved(scene(), degrees=degrees))
    assert movement.turn == pytest.approx(degrees, rel=0.15)
    assert max(abs(movement.right), abs(movement.down)) < 0.003


def test_light_is_no_movement() -> None:
    ramp = np.linspace(1.0, 0.6, SIZE)[None, :, None]
    for changed in (scene() * 0.5, scene() * 0.6 + 40, scene() * ramp):
        watch = watch_of([scene()] * 4)
        movement = after(watch, changed.astype(np.uint8))
        assert max(abs(movement.right), abs(movement.down)) < 0.001
        assert watch.pressure() < 0.2


def test_the_limit_is_one_percent_or_one_degree_where_parts_lie_alike() -> None:
    watch = watch_of([scene()] * 4)
    after(watch, moved(scene(), x=2))
    assert 0.5 < watch.pressure() < 1.0
    after(watch, moved(scene(), x=4))
    assert watch.pressure() > 1.0


def test_parts_that_lie_differently_need_a_larger_movement() -> None:
    shifts = np.random.default_rng(0).integers(-8, 9, size=24)
    loose = watch_of([moved(scene(), x=int(x)) for x in shifts], recent=24)
    for _ in range(200):
        after(loose, moved(scene(), x=4))
    assert loose.pressure() < 1.0
    assert loose.movement.right == pytest.approx((4 - shifts.mean()) / SIZE, abs=0.006)


def test_a_picture_without_detail_never_moves() -> None:
    blank = np.full((SIZE, SIZE, 3), 90, np.uint8)
    watch = watch_of([blank] * 4)
    after(watch, scene())
    assert watch.pressure() == 0.0


def test_a_part_that_stays_teaches_nothing_and_counts_little() -> None:
    watch = PositionWatch(reference=4, recent=1)
    for _ in range(10):
        watch.update(picture_of(scene()), good=True, weight=0.01)
    assert not watch.ready
    watch = watch_of([scene()] * 4)
    after(watch, moved(scene(), x=8), weight=0.01)
    assert watch.pressure() < 0.1


def test_defective_views_teach_nothing() -> None:
    watch = PositionWatch(reference=4, recent=1)
    for _ in range(10):
        watch.update(picture_of(scene()), good=False, weight=1.0)
    assert not watch.ready
    assert watch.pressure() == 0.0


@pytest.mark.parametrize("size_hw", [(2160, 3840), (31, 57), (1, 1)])
def test_a_picture_has_one_size_whatever_the_frame(size_hw: tuple[int, int]) -> None:
    picture = picture_of(np.full((*size_hw, 3), 7, np.uint8))
    assert picture.shape == (SIDE, SIDE)
    assert picture.dtype == np.float32
    np.testing.assert_allclose(picture, 7)


def test_a_movement_says_which_way() -> None:
    text = str(Movement(right=-0.018, down=0.004, turn=2.04))
    assert text == "moved 1.8% to the left and 0.4% down, turned 2.0 degrees anticlockwise"
