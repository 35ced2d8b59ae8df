"""A camera that moved against parts that moved: scenes with planted moves of either, both, none."""

from dataclasses import replace

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edgeseg.runtime.drift.following import FollowingWatch
from edgeseg.runtime.drift.position import picture_of
from edgeseg.runtime.drift.sink import DriftSink
from edgeseg.runtime.drift.watch import DriftState, DriftWatch
from edgeseg.vision.geometry import Geometry
from edgeseg.vision.locate import Blob
from edgeseg.vision.places import Places
from edgeseg.vision.pose import Pose, compose, for_opencv
from tests.support.brightness_model import brightness_metadata
from tests.support.drift_distances import WINDOW, baseline, good_grid
from tests.support.scored_frames import make_result

SIZE_HW = (180, 240)
HOME = (120.0, 90.0)
SCATTER = (5.0, 5.0, 4.0)  # pixels and degrees that parts lie apart
PLACES = Places(
    x=HOME[0],
    y=HOME[1],
    degrees=0.0,
    spread_right=5.0,
    spread_down=5.0,
    spread_degrees=4.0,
    farthest=30.0,
    most_turned=20.0,
    count=100,
)
Move = tuple[float, float, float]  # right and down in pixels, degrees
STILL: Move = (0.0, 0.0, 0.0)


def table() -> NDArray[np.uint8]:
    """Surroundings with detail at every scale."""
    noise = np.random.default_rng(3).normal(size=SIZE_HW)
    smooth = cv2.GaussianBlur(noise, (0, 0), 9)
    grey = np.clip(150 + 25 * smooth / smooth.std(), 0, 255).astype(np.uint8)
    return np.repeat(grey[:, :, None], 3, axis=2)


def plain() -> NDArray[np.uint8]:
    return np.full((*SIZE_HW, 3), 150, np.uint8)


def pose_of(move: Move, *, home: tuple[float, float] = HOME) -> Pose:
    return Pose(x=home[0] + move[0], y=home[1] + move[1], degrees=move[2], home_xy=home)


def warp(picture: NDArray[np.uint8], matrix: NDArray[np.float64]) -> NDArray[np.uint8]:
    size_wh = SIZE_HW[::-1]
    done = cv2.warpAffine(picture, for_opencv(matrix), size_wh, borderMode=cv2.BORDER_REFLECT_101)
    return np.asarray(done, np.uint8)


def seen(
    ground: NDArray[np.uint8], part: Pose, camera: Pose, rng: np.random.Generator
) -> tuple[NDArray[np.uint8], Pose]:
    """A frame with a part on the ground, as a camera sees it, and where the part is in it."""
    layer = np.zeros((*SIZE_HW, 3), np.uint8)
    outline = np.array([[85, 70], [155, 80], [155, 100], [85, 110]], np.int32)
    cv2.fillPoly(layer, [outline], (1, 1, 1))
    layer = cv2.warpAffine(layer, for_opencv(part.matrix), SIZE_HW[::-1])
    frame = warp(np.where(layer > 0, np.uint8(40), ground), camera.matrix)
    noisy = np.clip(frame + rng.normal(0, 2, frame.shape), 0, 255).astype(np.uint8)
    matrix = compose(camera.matrix, part.matrix)
    x, y = matrix @ (*HOME, 1.0)
    return noisy, Pose(x=x, y=y, degrees=part.degrees + camera.degrees, home_xy=HOME)


class Line:
    """Parts that pass a camera; both can be moved."""

    def __init__(
        self, ground: NDArray[np.uint8], *, seed: int = 0, places: Places = PLACES
    ) -> None:
        self.watch = DriftWatch(baseline(), window=WINDOW, places=places)
        self._ground, self._rng = ground, np.random.default_rng(seed)

    def run(self, frames: int, *, parts: Move = STILL, camera: Move = STILL) -> DriftState:
        for number in range(frames):
            x, y, turn = (self._rng.normal(0, SCATTER) + parts).tolist()
            grid = good_grid(self._rng)
            if number % 8 != 7:  # the watch looks at every eighth frame only
                self.watch.update(grid, anomalous=False)
                continue
            frame, pose = seen(self._ground, pose_of((x, y, turn)), pose_of(camera), self._rng)
            self.watch.update(grid, anomalous=False, frame_hwc=frame, pose=pose)
        return self.watch.state


def test_parts_that_lie_as_ever_are_no_drift() -> None:
    for seed in range(4):
        state = Line(table(), seed=seed).run(8 * WINDOW)
        assert (state.level, state.kind) == ("ok", "none"), state.message


@pytest.mark.parametrize(
    "move", [(14.0, 0.0, 0.0), (0.0, -12.0, 0.0), (8.0, 8.0, 0.0), (0, 0, 9.0)]
)
def test_a_moved_camera_is_told(move: Move) -> None:
    line = Line(table())
    line.run(2 * WINDOW)
    state = line.run(4 * WINDOW, camera=move)
    assert (state.level, state.kind) == ("warn", "camera"), state.message
    assert state.message.startswith("the camera has moved: the surroundings moved ")
    assert "and the parts with them" in state.message
    assert state.advice == "check the mounting of the camera"
    assert line.run(8 * WINDOW).level == "ok"


@pytest.mark.parametrize(
    "move", [(14.0, 0.0, 0.0), (0.0, -12.0, 0.0), (-40.0, 8.0, 0.0), (0, 0, 9.0)]
)
def test_moved_parts_are_told(move: Move) -> None:
    line = Line(table())
    line.run(2 * WINDOW)
    state = line.run(4 * WINDOW, parts=move)
    assert (state.level, state.kind) == ("warn", "parts"), state.message
    assert state.message.startswith("the parts lie elsewhere: they moved ")
    assert "and their surroundings stay" in state.message
    assert state.advice == "check the feeder, stops and fixtures"
    assert line.run(8 * WINDOW).level == "ok"


def test_both_are_told() -> None:
    line = Line(table())
    line.run(2 * WINDOW)
    state = line.run(4 * WINDOW, camera=(10.0, 0.0, 0.0), parts=(0.0, 20.0, 0.0))
    assert (state.level, state.kind) == ("warn", "camera"), state.message
    assert "with them" not in state.message
    assert "and the parts moved" in state.message
    assert state.parts is not None
    assert state.parts.down > 0.05


def test_a_plain_table_leaves_the_question_open() -> None:
    for moves in ({"camera": (14.0, 0.0, 0.0)}, {"parts": (14.0, 0.0, 0.0)}):
        line = Line(plain())
        line.run(2 * WINDOW)
        state = line.run(4 * WINDOW, **moves)
        assert (state.level, state.kind) == ("warn", "position"), state.message
        assert "no surroundings tell whether the camera did" in state.message
        assert state.movement is None


def test_parts_that_lay_elsewhere_from_the_start_are_told_of_too() -> None:
    state = Line(table(), places=replace(PLACES, x=HOME[0] - 30.0)).run(4 * WINDOW)
    assert (state.level, state.kind) == ("warn", "position"), state.message
    assert state.parts is not None
    assert state.parts.right == pytest.approx(30 / SIZE_HW[1], abs=0.02)


def test_parts_at_any_angle_have_no_usual_one() -> None:
    watch = FollowingWatch(replace(PLACES, spread_degrees=100.0), reference=8, recent=8)
    rng, ground = np.random.default_rng(0), table()
    for number in range(64):
        turn = 0.0 if number < 32 else 90.0
        frame, pose = seen(ground, pose_of((*rng.normal(0, 5, 2), turn)), pose_of(STILL), rng)
        watch.update(picture_of(frame), pose, frame_hw=SIZE_HW, good=True, weight=1.0)
    assert watch.ready
    assert watch.cause() is None
    assert watch.parts.turn == 0.0


@pytest.mark.parametrize(("parts", "camera"), [(12.0, 0.0), (0.0, 12.0)])
def test_parts_at_any_angle_are_told_from_the_camera_too(parts: float, camera: float) -> None:
    watch = FollowingWatch(replace(PLACES, spread_degrees=100.0), reference=24, recent=24)
    rng, ground = np.random.default_rng(0), table()
    for number in range(120):
        late = number >= 24
        part = pose_of((parts * late + rng.normal(0, 3), rng.normal(0, 3), rng.uniform(0, 360)))
        frame, pose = seen(ground, part, pose_of((camera * late, 0.0, 0.0)), rng)
        watch.update(picture_of(frame), pose, frame_hw=SIZE_HW, good=True, weight=1.0)
    assert watch.cause() == ("camera" if camera else "parts")


def test_a_pose_found_at_the_wrong_place_now_and_then_is_no_move() -> None:
    watch = FollowingWatch(PLACES, reference=8, recent=16)
    rng, ground = np.random.default_rng(0), table()
    for number in range(160):
        frame, pose = seen(ground, pose_of((*rng.normal(0, 2, 2), 0.0)), pose_of(STILL), rng)
        wrong = pose_of((100.0, 60.0, 10.0)) if number > 8 and number % 20 == 0 else pose
        watch.update(picture_of(frame), wrong, frame_hw=SIZE_HW, good=True, weight=1.0)
        assert watch.cause() is None


def test_the_event_says_which() -> None:
    locator = Blob(
        home_xy=HOME,
        degrees=0.0,
        turns="full",
        area=2000.0,
        length=3.0,
        area_spread=0.1,
        length_spread=0.1,
        limit=3.0,
        free=True,
        places=PLACES,
    )
    metadata = brightness_metadata()
    looks = Geometry(camera_hw=SIZE_HW, locate="blob", locator=locator)
    metadata = replace(metadata, geometry=looks, drift=baseline())
    told: list[dict[str, object]] = []
    sink = DriftSink(metadata, window=WINDOW, publish=lambda change: told.append(change.facts()))
    rng, ground = np.random.default_rng(0), table()
    for number in range(6 * WINDOW):
        camera = STILL if number < 2 * WINDOW else (14.0, 0.0, 0.0)
        part = pose_of(tuple(rng.normal(0, SCATTER)))
        frame, pose = seen(ground, part, pose_of(camera), rng)
        result = make_result(score=1.0, grid_hw=good_grid(rng), frame_hwc=frame)
        sink.on_frame(replace(result, pose=pose))
    assert [(event["event"], event["kind"]) for event in told] == [("drift_warning", "camera")]
