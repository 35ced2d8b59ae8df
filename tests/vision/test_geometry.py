"""One geometry: the plain resize bit for bit, regions, poses, and the way back."""

import numpy as np
import pytest
from numpy.typing import NDArray

from edgeseg.base.errors import UsageError
from edgeseg.base.plain import Malformed, record
from edgeseg.decision.prediction import find_regions
from edgeseg.vision.geometry import PLAIN, Geometry, Pose, Roi, View
from edgeseg.vision.images import resize_image, resize_mask

ROI = Roi(x=100, y=60, w=320, h=256)
FRAME_HW, SIZE_HW = (480, 640), (128, 160)
STILL = Pose(x=300.0, y=200.0, degrees=0.0, home_xy=(300.0, 200.0))


def smooth(size_hw: tuple[int, int] = FRAME_HW) -> NDArray[np.uint8]:
    """A picture whose pixels all differ a little from their neighbours."""
    y, x = np.mgrid[: size_hw[0], : size_hw[1]]
    waves = [np.sin(x / 23 + y / 41), np.cos(y / 19 - x / 67), np.sin((x + y) / 31)]
    return np.stack([127 + 120 * wave for wave in waves], axis=2).astype(np.uint8)


@pytest.mark.parametrize("size_hw", [(31, 47), (64, 64), (480, 640), (700, 900)])
def test_without_region_and_pose_a_view_is_the_plain_resize(size_hw: tuple[int, int]) -> None:
    image, mask = smooth(), smooth()[..., 0] > 128
    view = PLAIN.view(FRAME_HW, size_hw)
    assert np.array_equal(view.picture(image), resize_image(image, size_hw))
    assert np.array_equal(view.mask(mask), resize_mask(mask, size_hw))
    map_hw = np.ones(size_hw, np.float32)
    assert view.over_frame(map_hw) is map_hw
    assert (view.shown_hw, view.corner_xy, view.inside((4, 4))) == (FRAME_HW, (0, 0), None)


def test_a_region_is_the_crop_and_its_resize() -> None:
    view = Geometry(roi=ROI).view(FRAME_HW, SIZE_HW)
    crop = smooth()[60:316, 100:420]
    assert np.array_equal(view.picture(smooth()), resize_image(crop, SIZE_HW))
    assert np.array_equal(view.crop(smooth()), crop)
    assert (view.shown_hw, view.corner_xy) == ((256, 320), (100, 60))


def test_a_pose_at_rest_changes_no_pixel() -> None:
    still = View(frame_hw=FRAME_HW, size_hw=SIZE_HW, roi=ROI, pose=STILL)
    plain = View(frame_hw=FRAME_HW, size_hw=SIZE_HW, roi=ROI)
    assert np.array_equal(still.picture(smooth()), plain.picture(smooth()))


@pytest.mark.parametrize(("shift", "degrees"), [((7, -5), 0.0), ((0, 0), 10.0), ((-9, 4), -33.0)])
def test_a_part_that_moved_gives_the_input_it_gave_before(
    shift: tuple[int, int], degrees: float
) -> None:
    pose = Pose(x=300.0 + shift[0], y=200.0 + shift[1], degrees=degrees, home_xy=(300.0, 200.0))
    # The picture with the part moved, pixel by pixel: where each of them was before.
    turn, offset = pose.matrix[:, :2], pose.matrix[:, 2]
    y, x = np.mgrid[: FRAME_HW[0], : FRAME_HW[1]] + 0.5
    before = (np.stack([x, y], axis=-1) - offset) @ np.linalg.inv(turn).T
    waves = [
        np.sin((before[..., 0] - 0.5) / 23 + (before[..., 1] - 0.5) / 41),
        np.cos((before[..., 1] - 0.5) / 19 - (before[..., 0] - 0.5) / 67),
        np.sin((before[..., 0] + before[..., 1] - 1) / 31),
    ]
    moved = np.stack([127 + 120 * wave for wave in waves], axis=2).astype(np.uint8)
    view = View(frame_hw=FRAME_HW, size_hw=SIZE_HW, roi=ROI, pose=pose)
    was = View(frame_hw=FRAME_HW, size_hw=SIZE_HW, roi=ROI).picture(smooth())
    error = np.abs(view.picture(moved).astype(int) - was)
    seen = view.inside(SIZE_HW)
    assert error[... if seen is None else seen].max() <= 3
    assert np.abs(View(frame_hw=FRAME_HW, size_hw=SIZE_HW, roi=ROI).picture(moved) - was).max() > 20


def test_degrees_count_anticlockwise_and_boxes_come_back_to_the_camera() -> None:
    pose = Pose(x=320.0, y=240.0, degrees=90.0, home_xy=(320.0, 240.0))
    right = pose.matrix @ (420.0, 240.0, 1.0)
    assert right == pytest.approx((320.0, 140.0)), "what lay to the right lies above"
    view = View(frame_hw=FRAME_HW, size_hw=(480, 640), pose=pose)
    map_hw = np.zeros((480, 640), np.float32)
    map_hw[238:242, 416:424] = 5.0
    (region,), count = find_regions(map_hw, 1.0, size_hw=FRAME_HW, view=view)
    assert (region.box_xywh, region.area_px, count) == ((318, 136, 4, 8), 32, 1)
    laid = view.over_frame(map_hw)
    assert laid.shape == FRAME_HW
    assert laid[140, 320] == pytest.approx(5.0)
    assert laid[240, 420] == 0.0


def test_a_map_of_a_region_lies_over_the_whole_picture() -> None:
    view = Geometry(roi=ROI).view(FRAME_HW, SIZE_HW)
    laid = view.over_frame(np.full(SIZE_HW, 3.0, np.float32))
    assert laid.shape == (240, 320), "the resolution of the map"
    inside = np.zeros((240, 320), bool)
    inside[30:158, 50:210] = True
    assert np.all(laid[~inside] == 0)
    assert laid[31:157, 51:209] == pytest.approx(3.0)


def test_cells_that_the_camera_did_not_see_whole_do_not_count() -> None:
    moved = Pose(x=310.0, y=200.0, degrees=0.0, home_xy=(300.0, 200.0))
    view = View(frame_hw=FRAME_HW, size_hw=(128, 128), pose=moved)
    inside = view.inside((8, 8))
    assert inside is not None
    assert inside[:, :7].all()
    assert not inside[:, 7].any()
    assert View(frame_hw=FRAME_HW, size_hw=(128, 128), roi=ROI, pose=moved).inside((8, 8)) is None


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"roi": {"x": 0, "y": -1, "w": 5, "h": 5}}, "geometry.roi.roi=0,-1,5,5: expected x,y"),
        (
            {"camera_hw": [10, 10], "roi": {"x": 0, "y": 0, "w": 11, "h": 5}},
            "geometry.roi=0,0,11,5: does not lie within pictures of 10x10",
        ),
        ({"ignore": [[[0, 0], [1, 1]]]}, "geometry.ignore: a polygon of 2 corners, expected 3"),
    ],
)
def test_a_damaged_geometry_is_refused(values: dict[str, object], sentence: str) -> None:
    with pytest.raises(Malformed) as failure:
        record(Geometry, values, place="geometry")
    assert str(failure.value).startswith(sentence)


def test_another_camera_is_refused() -> None:
    with pytest.raises(UsageError) as failure:
        Geometry(camera_hw=(480, 640), roi=ROI).check((1080, 1920), name="cam")
    assert str(failure.value) == (
        "cam: 1920x1080, expected 640x480 (width x height): the model looks at places in pixels of "
        "that camera; fit again for another one"
    )
