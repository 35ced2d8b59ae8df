"""Ignored regions: files, outlines, cells, painted pixels, and the rule without a graph."""

from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from edgeseg.base.errors import UsageError
from edgeseg.model.artefact import Artefact
from edgeseg.vision.geometry import Geometry, Roi
from edgeseg.vision.ignored import (
    MapRule,
    hidden_of,
    outlines,
    paint_ignored,
    parse_region,
    polygon_mask,
    read_regions,
)
from edgeseg.vision.images import write_image

SQUARE = ((8.0, 8.0), (24.0, 8.0), (24.0, 24.0), (8.0, 24.0))


def test_outlines_draw_the_mask_again_holes_included() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        noise = cv2.GaussianBlur(rng.random((60, 80)).astype(np.float32), (0, 0), 4)
        mask = noise > np.median(noise)
        drawn = polygon_mask(outlines(mask, name="mask"), mask.shape)
        wider = cv2.dilate(mask.astype(np.uint8), np.ones((3, 3), np.uint8)) != 0
        assert not (mask & ~drawn).any()
        assert not (drawn & ~wider).any(), "at most a pixel further"


def test_a_ring_keeps_its_middle() -> None:
    mask = np.ones((40, 40), bool)
    mask[12:28, 12:28] = False
    drawn = polygon_mask(outlines(mask, name="mask"), (40, 40))
    assert not drawn[13:27, 13:27].any()
    assert drawn[:12].all()


def test_polygons_and_masks_are_read_from_files(tmp_path: Path) -> None:
    text = tmp_path / "a.json"
    text.write_text('{"polygons": [[[8, 8], [24, 8], [24, 24], [8, 24]]]}')
    assert read_regions(text) == (SQUARE,)
    text.write_text('{"shapes": [{"label": "serial", "points": [[8, 8], [24, 8], [24, 24]]}]}')
    assert read_regions(text) == (SQUARE[:3],)
    picture = np.zeros((32, 32), np.uint8)
    picture[8:24, 8:24] = 255
    write_image(tmp_path / "a.png", picture)
    (outline,) = read_regions(tmp_path / "a.png")
    assert set(outline) == set(SQUARE)
    assert parse_region("8,8,16,16") == SQUARE
    assert parse_region("8,8,24,8,24,24") == SQUARE[:3]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "a.json: not JSON"),
        ("[]", "a.json: no polygon in it; expected a picture, or JSON such as"),
        ('{"polygons": 3}', "a.json: no list of polygons; expected a picture, or JSON such as"),
        ("[[1, 2, 3]]", "a.json: no list of polygons; "),
    ],
)
def test_a_file_of_something_else_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(UsageError) as failure:
        read_regions(tmp_path / "a.json")
    assert sentence in str(failure.value)


def test_a_region_touches_cells_and_what_is_painted_does_not_depend_on_it() -> None:
    geometry = Geometry(camera_hw=(64, 64), ignore=(((17.0, 16.0), (30.0, 16.0), (30.0, 31.0)),))
    hidden = hidden_of(geometry, (32, 32))
    assert hidden is not None
    kept = hidden.kept_cells((4, 4))
    assert not kept[1, 1]
    assert kept.sum() >= 12
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)
    other = image.copy()
    other[hidden.pixels_hw] = 255 - other[hidden.pixels_hw]
    assert np.array_equal(paint_ignored(image, geometry), paint_ignored(other, geometry))
    assert np.array_equal(
        paint_ignored(image, geometry)[~hidden.pixels_hw], image[~hidden.pixels_hw]
    )


def test_regions_are_in_the_cameras_pixels_inside_a_region_too() -> None:
    geometry = Geometry(camera_hw=(100, 100), roi=Roi(x=36, y=36, w=64, h=64), ignore=(SQUARE,))
    assert hidden_of(geometry, (32, 32)) is None
    moved = tuple((x + 36, y + 36) for x, y in SQUARE)
    hidden = hidden_of(Geometry(camera_hw=(100, 100), roi=geometry.roi, ignore=(moved,)), (32, 32))
    assert hidden is not None
    rows, columns = np.nonzero(hidden.pixels_hw)
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (4, 12, 4, 12)


def test_the_rule_says_what_the_model_says(small_artefact: Artefact) -> None:
    model, rng = small_artefact.model(), np.random.default_rng(0)
    grid = rng.random(model.windows.grid_hw).astype(np.float32) + 1
    size_hw = (model.rows.shape[0], model.columns.shape[1])
    rule = MapRule(size_hw=size_hw, grid_hw=grid.shape, sigma=model.rule.sigma, top=model.top)
    maps, scores = model.to_image((torch.from_numpy(grid)[None],) * 2)
    every = np.ones(grid.shape, bool)
    map_hw = rule.map_of(grid, every)
    assert map_hw == pytest.approx(maps[0].numpy(), rel=1e-5)
    assert rule.score_of(grid, map_hw, every) == pytest.approx(float(scores[0]), rel=1e-6)
    some = every.copy()
    some[:2, :3] = False
    without = rule.map_of(np.where(some, 1, 99).astype(np.float32), some)
    assert without[:16, :24].max() == 0.0
    assert without[16:] == pytest.approx(1.0, rel=1e-5), "neighbours are not dimmed"
    before = rule.score_of(grid, map_hw, some)
    grid[0, 0] = np.nan
    assert rule.score_of(grid, map_hw, some) == before
    assert np.isnan(rule.score_of(grid, map_hw, every))
