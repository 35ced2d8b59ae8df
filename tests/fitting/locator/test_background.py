"""What a part lies on: it does not count, and all that the part touches does."""

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edgeseg.api import Model
from edgeseg.data.datasets import open_dataset
from edgeseg.fitting.fitting import fit
from edgeseg.model.artefact import Artefact
from edgeseg.vision.geometry import Geometry
from edgeseg.vision.ignored import hidden_of
from edgeseg.vision.locate import silhouette_of
from tests.support.moving_parts import SIZE_HW, folder_of, geometry_of, part, scattered
from tests.support.small_models import RANDOM, SMALL

DUST_XY = (20, 15)  # far from the part, wherever it lies


def dusty(image_hwc: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """A picture with a crumb on the table, too small to be taken for a part."""
    crumb_hwc = image_hwc.copy()
    cv2.circle(crumb_hwc, DUST_XY, 5, (90, 90, 100), -1, cv2.LINE_AA)
    return crumb_hwc


@pytest.fixture(scope="module")
def blobs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder_of(tmp_path_factory.mktemp("blobs"), scattered(12))


@pytest.fixture(scope="module")
def located(blobs: Path) -> dict[str, Artefact]:
    return {
        locate: fit(open_dataset(blobs), replace(SMALL, geometry=Geometry(locate=locate)), RANDOM)
        for locate in ("blob", "blob,background=yes")
    }


@pytest.mark.parametrize("cells", [6, 12, 24])
def test_every_cell_that_a_good_part_touches_counts(blobs: Path, cells: int) -> None:
    size_hw = (96, 96)
    geometry = geometry_of(blobs, "blob", grid_hw=(cells, cells))
    hidden = hidden_of(geometry, size_hw)
    assert hidden is not None
    kept = hidden.kept_cells((cells, cells))
    assert not kept.all()
    for image_hwc in scattered(12):
        found, outline = geometry.find(image_hwc), silhouette_of(image_hwc)
        assert found is not None
        assert outline is not None
        mask_hw = geometry.view(SIZE_HW, size_hw, found.pose).mask(outline.mask_hw != 0)
        side = 96 // cells
        touched = mask_hw.reshape(cells, side, cells, side).any(axis=(1, 3))
        assert kept[touched].all()


def test_dust_beside_the_part_changes_nothing(located: dict[str, Artefact]) -> None:
    """Also beyond the first picture: a part may lie where more of the table is seen beside it."""
    model, around = (Model(located[locate]) for locate in ("blob", "blob,background=yes"))
    for x, y, degrees in ((80, 60, 0), (88, 66, 140), (90, 66, -95)):
        clean = part(x, y, degrees, noise=3)
        # Otsu's threshold, and with it the outline, moves by a hair.
        assert model.predict(dusty(clean)).score == pytest.approx(
            model.predict(clean).score, rel=0.01
        )
    assert around.predict(dusty(clean)).score > 1.3 * around.predict(clean).score


def test_what_is_wrong_with_the_part_is_found_all_the_same(located: dict[str, Artefact]) -> None:
    burr = part(noise=3)
    cv2.circle(burr, (80, 46), 5, (70, 80, 90), -1, cv2.LINE_AA)  # at its edge
    for picture in (part(noise=3, defect=True), burr):
        result = Model(located["blob"]).predict(picture)
        assert result.anomalous
        assert result.regions


def test_regions_of_ones_own_stay(blobs: Path) -> None:
    own = ((70.0, 55.0), (75.0, 55.0), (75.0, 60.0))
    config = replace(SMALL, geometry=Geometry(locate="blob", ignore=(own,)))
    geometry = fit(open_dataset(blobs), config, RANDOM).config.geometry
    assert geometry.ignore == (own,)
    assert len(geometry.left_out) > 1
