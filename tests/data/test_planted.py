from itertools import islice

import cv2
import numpy as np
import pytest

from edgeseg.base.errors import DatasetError, UsageError
from edgeseg.data.planted.kinds import KINDS
from edgeseg.data.planted.part import Background
from edgeseg.data.planted.planting import (
    LARGEST,
    LEAST_CHANGE,
    SMALLEST,
    Planted,
    plant,
    planted_set,
)
from edgeseg.data.planted.shapes import soften

AREAS = [SMALLEST, 0.006, LARGEST]


def part_image(seed: int, size_hw: tuple[int, int] = (128, 128)) -> np.ndarray:
    """A mottled brown disc, somewhere near the middle of a plain grey table."""
    rng = np.random.default_rng(seed)
    height, width = size_hw
    image = np.full((height, width, 3), (180, 184, 190), np.float32)
    grain = cv2.GaussianBlur(rng.normal(0, 60, size_hw).astype(np.float32), (0, 0), 2)
    face = np.array((120, 90, 60), np.float32) + grain[..., None]
    centre = width // 2 + int(rng.integers(-5, 6)), height // 2 + int(rng.integers(-5, 6))
    disc = cv2.circle(np.zeros(size_hw, np.uint8), centre, min(size_hw) // 3, 1, cv2.FILLED)
    image = np.where(disc[..., None] > 0, face, image) + rng.normal(0, 1.5, (height, width, 3))
    return np.clip(image, 0, 255).astype(np.uint8)


def texture(seed: int, size_hw: tuple[int, int] = (128, 128)) -> np.ndarray:
    """A pattern that fills the picture, as a grey camera gives it."""
    y, x = np.mgrid[: size_hw[0], : size_hw[1]]
    noise = np.random.default_rng(seed).normal(0, 4, size_hw)
    grey = 120 + 40 * np.sin(0.5 * x + 0.2 * y + seed) * np.sin(0.4 * y) + noise
    return np.repeat(np.clip(grey, 0, 255).astype(np.uint8)[..., None], 3, axis=2)


IMAGES = {
    "part": part_image(0),
    "texture": texture(0),
    "constant": np.full((96, 96, 3), 90, np.uint8),
    "black": np.zeros((64, 64, 3), np.uint8),
    "white": np.full((64, 64, 3), 255, np.uint8),
    "tiny": part_image(1, (32, 32)),
    "tiny texture": texture(1, (32, 32)),
    "large": part_image(2, (300, 500)),
    "narrow": texture(2, (64, 300)),
}


def change(planted: Planted, good: np.ndarray) -> np.ndarray:
    return np.abs(planted.image_hwc.astype(int) - good).max(axis=2)


@pytest.mark.parametrize("name", IMAGES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_defect_changes_its_mask_and_nothing_else(kind, name):
    image = IMAGES[name]
    before = image.copy()
    other = np.roll(image, 9, axis=1)
    for area, others in zip(AREAS, [[other], [], [other, image]], strict=True):
        rng = np.random.default_rng(5)
        planted = plant(image, others, kind=kind, area=area, rng=rng)
        np.testing.assert_array_equal(image, before)
        assert planted.image_hwc.dtype == np.uint8
        assert planted.image_hwc.shape == image.shape
        assert planted.mask_hw.dtype == np.bool_
        assert planted.kind == kind
        levels = change(planted, image)
        assert (levels[~planted.mask_hw] == 0).all()
        assert levels[planted.mask_hw].mean() >= LEAST_CHANGE
        assert (levels[planted.mask_hw] > 0).mean() >= 0.5


@pytest.mark.parametrize("name", ["texture", "large", "narrow"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("area", AREAS)
def test_the_mask_has_about_the_area_that_was_asked_for(kind, name, area):
    image = IMAGES[name]
    wanted = area * image.shape[0] * image.shape[1]
    for seed in range(2):
        rng = np.random.default_rng(seed)
        planted = plant(image, [], kind=kind, area=area, rng=rng)
        assert planted.area_px == planted.mask_hw.sum()
        assert 0.5 * wanted <= planted.area_px <= max(1.3 * wanted, wanted + 8)


@pytest.mark.parametrize("kind", KINDS)
def test_a_small_part_is_not_covered_whole(kind):
    image = part_image(3)
    part = Background.of([image]).part(image)
    planted = plant(image, [], kind=kind, area=1.0, rng=np.random.default_rng(0))
    assert planted.area_px <= 0.37 * part.sum()


def test_the_part_is_found_and_a_texture_is_part_everywhere():
    images = [part_image(seed) for seed in range(6)]
    background = Background.of(images)
    for image in images:
        true = image[..., 2] < 150  # the table is brighter than the disc in blue
        found = background.part(image)
        overlap = (found & true).sum() / (found | true).sum()
        assert overlap > 0.85
    textures = [texture(seed) for seed in range(4)]
    assert Background.of(textures).part(textures[0]).all()
    constant = IMAGES["constant"]
    assert Background.of([constant]).part(constant).all()


def test_the_part_of_a_large_picture_has_its_size():
    image = part_image(4, (700, 1000))
    part = Background.of([image]).part(image)
    assert part.shape == (700, 1000)
    assert 0.8 < part.sum() / (np.pi * (700 // 3) ** 2) < 1.2


@pytest.mark.parametrize("kind", KINDS)
def test_defects_lie_on_the_part(kind):
    images = [part_image(seed) for seed in range(4)]
    part = Background.of(images).part(images[0])
    near = cv2.dilate(part.astype(np.uint8), np.ones((9, 9), np.uint8)) > 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        planted = plant(images[0], images[1:], kind=kind, area=0.01, rng=rng)
        assert (planted.mask_hw & near).sum() >= 0.9 * planted.area_px


@pytest.mark.parametrize("kind", KINDS)
def test_a_grey_picture_stays_grey(kind):
    images = [texture(seed) for seed in range(3)]
    for seed in range(4):
        rng = np.random.default_rng(seed)
        planted = plant(images[0], images[1:], kind=kind, area=0.01, rng=rng)
        assert np.ptp(planted.image_hwc, axis=2).max() == 0


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_generator_gives_the_same_bytes_and_another_gives_others(kind):
    image, other = part_image(0), part_image(1)

    def drawn(seed: int) -> bytes:
        rng = np.random.default_rng([7, seed])
        return plant(image, [other], kind=kind, area=0.01, rng=rng).image_hwc.tobytes()

    first = [drawn(seed) for seed in range(4)]
    assert [drawn(seed) for seed in (3, 1, 0, 2)] == [first[seed] for seed in (3, 1, 0, 2)]
    assert len(set(first)) == 4


def test_defects_differ_in_strength_and_none_is_bolder_than_the_part():
    image = texture(3)
    means = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        planted = plant(image, [], kind="colour", area=0.01, rng=rng)
        means.append(change(planted, image)[planted.mask_hw].mean())
    assert max(means) > 2 * min(means)
    assert max(means) < 4 * image.std()


def test_a_set_is_balanced_in_order_and_exact():
    images = [part_image(seed) for seed in range(4)]
    planted = list(planted_set(images, per_image=3, seed=0))
    assert len(planted) == 12
    assert [item.kind for item in planted] == [*KINDS, *KINDS]
    for place, item in enumerate(planted):
        assert (change(item, images[place // 3])[~item.mask_hw] == 0).all()
    assert len({item.image_hwc.tobytes() for item in planted}) == 12


def test_every_kind_meets_every_image_in_turn_when_copies_are_few():
    images = [texture(seed, (64, 64)) for seed in range(7)]
    kinds = [item.kind for item in planted_set(images, per_image=1, seed=0)]
    assert kinds == [*KINDS, next(iter(KINDS))]


def test_a_copy_does_not_depend_on_which_others_are_asked_for():
    images = [part_image(seed, (64, 64)) for seed in range(5)]
    whole = list(planted_set(images, per_image=2, seed=4))
    some = list(planted_set(images, per_image=2, seed=4, places=[3, 0]))
    for item, same in zip(some, [whole[6], whole[7], whole[0], whole[1]], strict=True):
        np.testing.assert_array_equal(item.image_hwc, same.image_hwc)
        np.testing.assert_array_equal(item.mask_hw, same.mask_hw)
        assert item.kind == same.kind
    other = next(planted_set(images, per_image=2, seed=5))
    assert (other.image_hwc != whole[0].image_hwc).any()


def test_sizes_reach_from_a_cell_to_the_largest_share():
    images = [texture(seed, (256, 256)) for seed in range(2)]
    shares = [item.mask_hw.mean() for item in planted_set(images, per_image=40, seed=0)]
    assert 0.5 * SMALLEST <= min(shares) <= 2 * SMALLEST
    assert 0.5 * LARGEST <= max(shares) <= 1.3 * LARGEST
    assert 0.4 <= np.mean(np.array(shares) < np.sqrt(SMALLEST * LARGEST)) <= 0.65  # log-uniform


def test_a_set_is_planted_as_it_is_asked_for():
    class Counted(list):
        reads = 0

        def __getitem__(self, place):
            Counted.reads += 1
            return super().__getitem__(place)

    images = Counted(texture(seed, (32, 32)) for seed in range(200))
    assert len(list(islice(planted_set(images, per_image=1, seed=0), 3))) == 3
    assert Counted.reads < 40


def test_one_image_is_enough_for_a_set():
    planted = list(planted_set([part_image(0, (64, 64))], per_image=6, seed=0))
    assert [item.kind for item in planted] == list(KINDS)


def test_images_may_be_one_array():
    images = [texture(seed, (64, 64)) for seed in range(3)]
    listed = planted_set(images, per_image=1, seed=0)
    stacked = planted_set(np.stack(images), per_image=1, seed=0)
    for item, same in zip(listed, stacked, strict=True):
        np.testing.assert_array_equal(item.image_hwc, same.image_hwc)


def test_chosen_kinds_and_areas():
    images = [texture(0)]
    planted = list(
        planted_set(images, per_image=5, seed=1, kinds=["stain", "blur"], areas=(0.01, 0.01))
    )
    assert [item.kind for item in planted] == ["stain", "blur", "stain", "blur", "stain"]
    for item in planted:
        assert item.mask_hw.mean() == pytest.approx(0.01, rel=0.3)


def test_a_wide_blur_on_a_smaller_copy_is_the_blur_itself():
    pixels = texture(0, (300, 420)).astype(np.float32) + part_image(0, (300, 420))
    exact = cv2.GaussianBlur(pixels, (0, 0), 50)
    assert np.abs(soften(pixels, 50) - exact).max() < 0.02 * np.ptp(pixels)
    np.testing.assert_array_equal(soften(pixels, 8), cv2.GaussianBlur(pixels, (0, 0), 8))


def test_errors_say_what_was_expected():
    image, rng = texture(0), np.random.default_rng(0)
    with pytest.raises(UsageError, match="unknown kind of defect 'dent': expected one of paste"):
        plant(image, [], kind="dent", area=0.01, rng=rng)
    with pytest.raises(UsageError, match=r"area=0: expected a share of the picture, above 0 and"):
        plant(image, [], kind="blur", area=0, rng=rng)
    with pytest.raises(DatasetError, match=r"good image 1: uint8 of shape \(128, 128\), expected"):
        plant(image, [image[..., 0]], kind="blur", area=0.01, rng=rng)
    with pytest.raises(DatasetError, match="with 16 pixels or more each way"):
        plant(image[:8], [], kind="blur", area=0.01, rng=rng)
    with pytest.raises(DatasetError, match="good image 0: float32"):
        plant(image.astype(np.float32), [], kind="blur", area=0.01, rng=rng)


def test_errors_of_a_set_come_before_the_first_copy():
    images = [texture(0)]
    with pytest.raises(DatasetError, match="no good images to plant defects on; expected at leas"):
        planted_set([], per_image=1, seed=0)
    with pytest.raises(UsageError, match="0 planted copies of an image, 6 kinds: expected at lea"):
        planted_set(images, per_image=0, seed=0)
    with pytest.raises(UsageError, match="1 planted copies of an image, 0 kinds"):
        planted_set(images, per_image=1, seed=0, kinds=[])
    with pytest.raises(UsageError, match="unknown kind of defect 'dent'"):
        planted_set(images, per_image=1, seed=0, kinds=["blur", "dent"])
    with pytest.raises(UsageError, match=r"areas=\(0.1, 0.01\): expected two rising shares"):
        planted_set(images, per_image=1, seed=0, areas=(0.1, 0.01))
    with pytest.raises(UsageError, match="place 1 of 1 images: expected 0 to 0"):
        planted_set(images, per_image=1, seed=0, places=[1])


def test_a_planted_image_needs_a_mask_of_its_own():
    image = texture(0)
    with pytest.raises(DatasetError, match="expected its size and at least one pixel"):
        Planted(image_hwc=image, mask_hw=np.zeros((128, 128), np.bool_), kind="blur")
    with pytest.raises(DatasetError, match=r"stain: a mask of shape \(64, 64\)"):
        Planted(image_hwc=image, mask_hw=np.ones((64, 64), np.bool_), kind="stain")
