"""Rounding of the head, part by part: exact where it must be, and as large as it should be."""

import pytest
import torch

from edgeseg.bench.studies.precision.int8_head import embedding_rounded, factor_rounded, rows
from tests.support.export_models import SHORT, artefact, good_frames


def test_factors_keep_their_largest_value_and_lose_half_a_step() -> None:
    factor = torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(0))
    rounded = factor_rounded(factor, levels=64)
    step = factor.abs().amax(dim=1, keepdim=True) / 64
    assert torch.all((rounded - factor).abs() <= step / 2 + 1e-6)
    assert torch.allclose(rounded.abs().amax(dim=1), factor.abs().amax(dim=1))
    assert torch.equal(factor_rounded(torch.zeros(1, 2, 2), levels=64), torch.zeros(1, 2, 2))


def test_each_part_adds_its_own_error_and_the_model_stays_as_it_was() -> None:
    model, images = artefact(SHORT).model(), good_frames(4)
    before = model.factor.clone()
    found = {row.rounded: row for row in rows(model, images, images)}
    assert torch.equal(model.factor, before)
    half, eight, seven = (
        found[f"factors, {bits}"].mean for bits in ("fp16", "eight bits", "seven bits")
    )
    assert 0 < half < eight < seven
    both = found["embedding and factors, as shipped"].mean
    assert both <= seven + found["embedding, eight bits"].mean + 1e-6
    assert all(abs(row.shift) <= row.mean <= row.largest for row in found.values())


def test_an_embedding_within_its_reach_loses_half_a_step() -> None:
    model = artefact(SHORT).model()
    with torch.no_grad():
        grids = model.embed(torch.from_numpy(good_frames(1)))
    centred = grids.flatten(2).mT - model.mean
    largest = centred.abs().max()
    rounded = embedding_rounded(model, grids, reach_b=largest[None])
    assert float((rounded - grids).abs().max()) <= float(2 * largest / 127 / 2) * 1.01
    assert float((rounded - grids).abs().max()) > 0
    assert rounded.shape == grids.shape
    with pytest.raises(RuntimeError):
        embedding_rounded(model, grids[:, :-1], reach_b=largest[None])
