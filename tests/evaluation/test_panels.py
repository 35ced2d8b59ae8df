import cv2
import numpy as np
import pytest

from edgeseg.base.errors import UsageError
from edgeseg.evaluation.panels import DECISION, PAPER, TRUTH, contact_sheet, heat, render_panel
from edgeseg.vision.images import read_image, read_mask
from tests.support.decision_tile import outlined


def case(size_hw: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A grey frame, a map with a bump in the middle, and the bump's mask."""
    height, width = size_hw
    frame = np.full((height, width, 3), 120, np.uint8)
    y, x = np.mgrid[:height, :width]
    distance = np.hypot(y - height / 2, x - width / 2)
    values = (10 * np.exp(-((distance / (0.2 * min(size_hw))) ** 2))).astype(np.float32)
    return frame, values, distance < 0.1 * min(size_hw)


def has(picture: np.ndarray, colour: tuple[int, int, int]) -> bool:
    return bool((picture == np.array(colour)).all(axis=2).any())


@pytest.mark.parametrize("size_hw", [(256, 256), (704, 256), (256, 704), (40, 30), (1500, 2000)])
def test_panel_has_the_frame_its_map_and_both_outlines(size_hw):
    frame, values, mask = case(size_hw)
    before = frame.copy()
    panel = render_panel(frame, values, mask_hw=mask, pixel_threshold=2.0, value_range=(0, 10))
    assert panel.dtype == np.uint8
    assert panel.ndim == 3
    assert has(panel, TRUTH)
    assert has(panel, DECISION)
    np.testing.assert_array_equal(frame, before)
    assert max(panel.shape) < 3 * 768 + 200


def test_panel_shows_the_frame_and_the_map_pixel_by_pixel():
    frame, values, mask = case((256, 300))
    panel = render_panel(frame, values, mask_hw=mask, pixel_threshold=2.0, value_range=(0, 10))
    tiles = panel[-256:]  # the titles stand above
    np.testing.assert_array_equal(tiles[:, :300], frame)
    np.testing.assert_array_equal(tiles[:, 308:608], heat(values, value_range=(0, 10)))
    third = tiles[:, -300:]
    changed = (third != frame).any(axis=2)
    assert set(map(tuple, third[changed].tolist())) == {TRUTH, DECISION}


def test_outlines_surround_their_regions():
    frame, values, mask = case((256, 256))
    panel = render_panel(frame, values, mask_hw=mask, pixel_threshold=2.0, value_range=(0, 10))
    third = panel[-256:, -256:]
    for colour, region in ((TRUTH, mask), (DECISION, values > 2.0)):
        outline = (third == np.array(colour)).all(axis=2)
        ring = cv2.dilate(region.astype(np.uint8), np.ones((5, 5), np.uint8)) > 0
        assert (outline <= (ring & ~region)).all()
        assert outline.sum() > 20


def test_panel_without_ground_truth_or_decision():
    frame, values, _ = case((256, 256))
    panel = render_panel(frame, values, pixel_threshold=99.0, value_range=(0, 10))
    assert not has(panel, TRUTH)
    np.testing.assert_array_equal(panel[-256:, -256:], frame)


@pytest.mark.parametrize("size_hw", [(256, 256), (40, 30), (1500, 2000)])
@pytest.mark.parametrize("verdict", ["unsure", "defect", "invalid", "not_found"])
def test_what_is_not_good_is_marked_though_no_pixel_is_above(size_hw, verdict):
    """The bump is below the pixel threshold, and its highest place is outlined."""
    frame, values, _ = case(size_hw)
    options = {"pixel_threshold": 99.0, "value_range": (0.0, 10.0)}
    assert not outlined(render_panel(frame, values, **options, verdict="good")).any()
    tile = outlined(render_panel(frame, values, **options, verdict=verdict))
    rows, columns = np.nonzero(tile)
    middle = (tile.shape[0] / 2, tile.shape[1] / 2)
    assert (rows.mean(), columns.mean()) == pytest.approx(middle, abs=4)


def test_a_mark_on_the_whole_picture_is_seen():
    frame, values, _ = case((256, 256))
    panel = render_panel(frame, values, pixel_threshold=-1.0, value_range=(0, 10))
    outline = outlined(panel)
    assert outline[0].all()
    assert outline[:, -1].all()
    assert not outline[8:-8, 8:-8].any()


def test_caption_adds_paper_above():
    frame, values, _ = case((256, 256))
    options = {"pixel_threshold": 2.0, "value_range": (0.0, 10.0)}
    plain = render_panel(frame, values, **options)
    headed = render_panel(frame, values, **options, caption="dent/003 Größe 良")
    assert headed.shape[0] > plain.shape[0]
    assert (headed != np.array(PAPER)).any(axis=2)[: headed.shape[0] - plain.shape[0]].any()


def test_heat_is_monotone_and_clamped():
    values = np.array([[-5.0, 0.0, 5.0, 10.0, 50.0]], np.float32)
    low, zero, middle, ten, high = heat(values, value_range=(0, 10))[0].astype(int)
    assert low.tolist() == zero.tolist() == [0, 0, 128]
    assert ten.tolist() == high.tolist() == [128, 0, 0]
    assert middle[1] > 200
    assert heat(np.array([[np.nan]], np.float32), value_range=(0, 1)).tolist() == [[[255] * 3]]


def test_heat_of_a_flat_map_is_the_lowest_colour():
    flat = heat(np.full((3, 3), 4.0, np.float32), value_range=(4, 4))
    assert (flat == np.array([0, 0, 128])).all()


def test_sheet_holds_every_panel():
    panels = [np.full((20 + index, 30, 3), 10 * index, np.uint8) for index in range(5)]
    sheet = contact_sheet(panels, columns=2, title="five")
    for index, panel in enumerate(panels):
        assert (sheet == 10 * index).all(axis=2).sum() >= panel.shape[0] * panel.shape[1]
    one = contact_sheet(panels[:1], columns=7, title="a title much longer than its only panel")
    assert one.shape[1] > 100


def test_contradictions_are_refused():
    frame, values, mask = case((64, 64))
    with pytest.raises(UsageError, match=r"expected uint8 \(H, W, 3\) and \(H, W\)"):
        render_panel(frame, values[:10], pixel_threshold=1, value_range=(0, 1))
    with pytest.raises(UsageError, match=r"expected uint8 \(H, W, 3\) and \(H, W\)"):
        render_panel(frame, values, mask_hw=mask[1:], pixel_threshold=1, value_range=(0, 1))
    with pytest.raises(UsageError, match="colours from 2 to 1"):
        heat(values, value_range=(2, 1))
    with pytest.raises(UsageError, match="a sheet of 0 panels in 1 columns"):
        contact_sheet([], title="none")


def test_a_real_crack_stays_visible_inside_its_outline(shared):
    folder = shared / "data" / "kolektor_sdd" / "kos01"
    frame, mask = read_image(folder / "Part5.jpg"), read_mask(folder / "Part5_label.bmp")
    values = cv2.GaussianBlur(mask.astype(np.float32), (0, 0), 4)
    panel = render_panel(frame, values, mask_hw=mask, pixel_threshold=2, value_range=(0, 1))
    third = panel[-704:, -256:]
    np.testing.assert_array_equal(third[mask], frame[mask])
    assert has(third, TRUTH)
