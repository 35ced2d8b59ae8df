"""The report of kinds and reasons: what its rows count, and planted changes are what they say."""

import math

import numpy as np
import pytest

from edgeseg.bench.choices.kinds import changes_rows, kinds_rows
from edgeseg.bench.choices.planted_changes import CHANGES, planted_changes
from edgeseg.data.synthetic.scene import SceneGenerator


def test_shares_are_of_the_regions_that_were_judged():
    told = {
        "names": ["a", "b"], "right": 6, "wrong": 3, "unknown": 1, "unseen": 4, "largest": 5,
        "stated": 0.7,
    }  # fmt: skip
    (row,) = kinds_rows({"part": {"kinds": told}, "single": {"kinds": None}})
    assert (row.category, row.kinds, row.judged, row.unseen) == ("part", 2, 10, 4)
    assert (row.right, row.wrong, row.unknown, row.largest) == (0.6, 0.3, 0.1, 0.5)


def test_what_is_said_adds_up():
    def said(change, layer=None, *, found=True):
        return {"change": "darker", "found": found, "said": change, "layer": layer}

    rows = [
        said("darker"),
        said("colour"),
        said(None, "shape"),
        said(None),
        said(None, found=False),
    ]
    darker, *others = changes_rows({"part": {"changes": rows}})
    assert (darker.found, darker.planted) == (4, 5)
    assert [darker.right, darker.wrong, darker.layer, darker.nothing] == [0.25] * 4
    assert darker.other == "colour (1)"
    assert all(row.found == 0 and math.isnan(row.right) for row in others)


@pytest.mark.parametrize("change", CHANGES)
def test_planted_changes_are_what_they_are_called(change):
    scene = SceneGenerator(size_hw=(128, 128))
    frames = [scene.good(index) for index in range(6)]
    some = [each for each in planted_changes(frames, seed=0) if each[0] == change]
    assert some or change == "blurred"
    for _, image_hwc, mask_hw in some:
        before = min(frames, key=lambda frame: np.count_nonzero(frame != image_hwc))
        moved = image_hwc[mask_hw].astype(float) - before[mask_hw]
        assert np.array_equal(image_hwc[~mask_hw], before[~mask_hw])
        if change in ("darker", "lighter"):
            assert (moved.mean() > 0) == (change == "lighter")
        elif change == "colour":
            assert moved[:, 0].mean() > moved[:, 1].mean()
