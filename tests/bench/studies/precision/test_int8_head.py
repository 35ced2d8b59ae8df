"""Rounding of the head, part by part: exact where it must be, and as large as it should be."""

from pathlib import Path

import pytest
import torch

from edgeseg.bench.harness.report import read_report
from edgeseg.bench.studies.precision import int8_head
from edgeseg.bench.studies.precision.int8_head import (
    SHIPPED,
    MeanRow,
    Study,
    embedding_rounded,
    factor_rounded,
    findings,
    rows,
    run_study,
)
from tests.support.bench_tables import by_column
from tests.support.export_models import SHORT, artefact, data_with_model, good_frames


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
    both = found[SHIPPED].mean
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


def test_a_small_run_leaves_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    monkeypatch.setattr(int8_head, "note", lines.append)
    dataset = data_with_model(tmp_path, SHORT)
    study = Study(
        out=tmp_path,
        datasets=(dataset,),
        backbones=(SHORT.backbone,),
        config=SHORT,
        weights=None,
        threads=1,
    )
    report = run_study(study, fresh=False)
    (table,) = report.tables
    found = by_column(table)
    assert {row["backbone"] for row in found} == {SHORT.backbone}
    assert found[-1]["rounded"] == SHIPPED
    assert all(row["mean error"] == row["worst mean error"] > 0 for row in found)
    assert {row["of"] for row in found} == {dataset.name}
    assert read_report(tmp_path).tables == report.tables
    assert table.markdown() in (tmp_path / "report.md").read_text(encoding="utf-8")
    lines.clear()
    assert run_study(study, fresh=False).tables == report.tables
    assert lines == ["1 of 1 results are there already"]


def test_what_is_within_the_bound_of_exact_factors() -> None:
    def row(rounded: str, mean: float, worst: float) -> MeanRow:
        return MeanRow(
            backbone="net",
            rounded=rounded,
            mean=mean,
            worst=worst,
            category="cable",
            largest=1.0,
            shift=0.0,
        )

    fine, both = row("factors, fp16", 1e-5, 9e-5), row(SHIPPED, 2e-3, 4e-3)
    coarse = row("factors, eight bits", 9e-5, 2e-4)
    assert list(findings([fine, coarse, both])) == [
        "net, embedding and factors, as shipped: mean error 2.0e-03, at worst 4.0e-03 (cable); an "
        "export allows 0.005.",
        "Within 0.0001, which exact factors have to keep: factors, fp16.",
    ]
