"""Accuracy of maps and scores, and what is left of it without masks."""

import numpy as np
import pytest

from edgeseg.base.errors import DatasetError
from edgeseg.bench.harness.accuracy import accuracy_of, fewer_categories, over_seeds

MAPS = np.arange(8, dtype=np.float32).reshape(2, 2, 2)
GOOD, BAD = np.zeros((2, 2), np.bool_), np.eye(2, dtype=np.bool_)


def test_without_masks_the_figures_of_images_are_left() -> None:
    marked, bare = (
        accuracy_of(MAPS, masks, [0.1, 0.9], [0, 1], name="cup", threshold=0.5).figures
        for masks in ([GOOD, BAD], [GOOD, None])
    )
    of_pixels = ("pro", "pro_05", "pixel_auroc")
    assert bare == marked | dict.fromkeys(of_pixels)
    assert None not in marked.values()


def test_images_of_one_label_have_no_accuracy() -> None:
    """Whether or not there are masks: image AUROC needs both."""
    for masks, labels in (([GOOD, GOOD], [0, 0]), ([None, None], [1, 1])):
        with pytest.raises(DatasetError) as caught:
            accuracy_of(MAPS, masks, [0.1, 0.9], labels, name="cup")
        assert str(caught.value) == (
            "cup: accuracy needs good and defective test images, got "
            f"{labels.count(0)} and {labels.count(1)}"
        )


def test_seeds_without_a_figure_have_no_mean() -> None:
    known, bare = {"pro": 0.8, "image_auroc": 0.5}, {"pro": None, "image_auroc": 0.7}
    assert over_seeds([bare, bare]) == {"pro": (None, None), "image_auroc": (0.7, 0.0)}
    assert over_seeds([known, bare])["pro"] == (None, None)
    assert "pro" not in over_seeds([known, {"image_auroc": 0.7}]), "an older result"


def test_a_mean_over_fewer_categories_says_so() -> None:
    assert fewer_categories("PRO", ["a", "b"], ["a", "b"]) == ""
    assert fewer_categories("PRO", ["b"], ["a", "b", "c"]) == (
        " PRO: over 1 of 3 categories, not measured on a, c."
    )
