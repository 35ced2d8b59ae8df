"""Whole runs on a synthetic part with random weights: every table, every file, resumed."""

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from edgeseg.base.errors import DatasetError, EdgesegError, UsageError
from edgeseg.bench.compare.candidates import CompareOptions, OurModel
from edgeseg.bench.compare.compare import run_compare
from edgeseg.bench.compare.peer_environment import find_python
from edgeseg.bench.compare.peer_process import PeerRequest, run_peer
from edgeseg.bench.fit_cost.inverse_time import measure_inverse
from edgeseg.bench.harness.accuracy import (
    categories_in,
    fingerprint,
    group_means,
    open_limited,
    over_seeds,
)
from edgeseg.bench.harness.fit_worker import FitWorkerRequest, fit_in_process
from edgeseg.bench.harness.staging import stage
from edgeseg.bench.latency.turns import Schedule
from edgeseg.bench.paper.paper import make_plan, run_paper
from edgeseg.bench.paper.parts import PaperOptions
from edgeseg.bench.paper.results import ABLATION
from edgeseg.data.datasets import open_dataset, read_sample
from edgeseg.data.synthetic.scene import KINDS
from tests.support.bench_tables import by_column

MODEL = OurModel.of("mobilenet_v3_small", "edge", ("fp32",), size_hw=(64, 64))


def test_compare_end_to_end_and_again(plate: Path, tmp_path: Path) -> None:
    options = CompareOptions(
        data=plate,
        models=(MODEL,),
        size_hw=(64, 64),
        seeds=2,
        limit=3,
        weights="random",
        schedule=Schedule(rounds=2, turn=2, warmup=1),
        threads=1,
    )
    lines: list[str] = []
    report = run_compare(options, tmp_path, fresh=False, note=lines.append)
    row = by_column(report.tables[0])[0]
    names = [row.pop(name) for name in ("model", "precision", "backend")]
    assert names == ["mobilenet_v3_small edge", "fp32", "cpu"]
    assert [row.pop(name) for name in ("arithmetic", "spin")] == ["float32", "no"]
    assert list(row) == [
        *("PRO", "PRO 0.05", "pixel AUROC", "image AUROC", "F1", "recall", "false alarms"),
        *("std of PRO", "p50 ms", "p99 ms", "streamed p50 ms", "streamed p95 ms"),
        *("streamed p99 ms", "processor ms", "MB"),
    ]
    assert all(isinstance(cell, float) for cell in row.values())
    names = {path.name for path in tmp_path.iterdir()}
    assert {"report.md", "report.json", "report.html", "pareto.png"} <= names
    assert any("Random weights" in note for note in report.notes)
    assert any("rehearsal" in note for note in report.notes)
    lines.clear()
    again = run_compare(options, tmp_path, fresh=False, note=lines.append)
    assert "4 of 4 results are there already" in lines  # a fit and a file of each seed
    assert not any(line.startswith("[") for line in lines)
    assert again.tables == report.tables


def test_paper_end_to_end(plate: Path, tmp_path: Path) -> None:
    options = PaperOptions(
        mvtec=plate,
        seeds=2,
        curve_seeds=2,
        curve_sizes=(4, 16),
        parts=("categories", "ablation", "curve", "eigenvalues", "kolektor", "mstc", "pictures"),
        backbones=("resnet18",),
        size_hw=(32, 32),
        weights="random",
        threads=1,
    )
    lines: list[str] = []
    report = run_paper(options, tmp_path, fresh=False, note=lines.append)
    tables = {table.title: table for table in report.tables}
    ablation = by_column(tables["Ablation (PRO, ResNet-18, k=100)"])
    assert [row["model"] for row in ablation] == list(ABLATION)
    assert all(isinstance(row["overall"], float) for row in ablation)
    assert by_column(tables["PRO over the size of the embedding"])[0]["k"] == 4
    assert {"PRO by category", "Main table"} <= set(tables)
    figures = {figure.file for figure in report.figures}
    assert {"pro_over_k.png", "eigenvalues-plate.png", "examples-plate.png"} <= figures
    absent = " ".join(report.notes)
    for name in ("carpet", "KolektorSDD is absent", "KolektorSDD2 is absent", "mSTC is absent"):
        assert name in absent
    assert not any((tmp_path / "features").iterdir())  # they are large, and deleted
    json.loads((tmp_path / "report.json").read_text())


def test_backbones_without_weights_are_named_and_not_faked(
    plate: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from edgeseg.base.errors import WeightsError
    from edgeseg.bench.harness import weights
    from edgeseg.bench.paper import experiments, paper

    def missing(*_: object, **__: object) -> None:
        raise WeightsError("no weights for wide_resnet50_2")

    monkeypatch.setattr(weights, "load_backbone", missing)
    options = PaperOptions(mvtec=plate, backbones=("wide_resnet50_2",), parts=("categories",))
    banks = experiments.Banks(tmp_path, weights=None)
    plan = paper.make_plan(options, tmp_path, banks)
    assert plan.units == []
    assert any("wide_resnet50_2 is left out: no weights" in note for note in plan.notes)


def test_the_plan_of_the_paper_names_each_unit_once(plate: Path, tmp_path: Path) -> None:
    from edgeseg.bench.paper.experiments import Banks

    backbones = ("resnet18", "mobilenet_v3_small")
    options = PaperOptions(mvtec=plate, weights="random", backbones=backbones)
    plan = make_plan(options, tmp_path, Banks(tmp_path, weights="random"))
    names = [unit.name for unit in plan.units]
    assert len(set(names)) == len(names) > 60
    assert len({unit.digest for unit in plan.units}) == len(names)


def test_staged_images_have_the_pixels_the_product_sees(plate: Path, tmp_path: Path) -> None:
    dataset = open_dataset(plate)
    staged = stage(dataset, tmp_path / "staged", size_hw=(64, 64), train=12)
    again = open_dataset(staged.root)
    assert len(again.train) == 12  # ten images, two of them twice
    assert [sample.image for sample in again.test] == list(staged.test_images)
    for sample, copy in zip(dataset.test, again.test, strict=True):
        frame, mask = read_sample(sample, (64, 64))
        frame_copy, mask_copy = read_sample(copy, (64, 64))
        assert (frame == frame_copy).all()
        assert (mask == mask_copy).all()
        assert sample.label == copy.label


def test_staged_defects_without_masks_have_none(plate: Path, tmp_path: Path) -> None:
    shutil.copytree(plate, tmp_path / "bare", ignore=shutil.ignore_patterns("ground_truth"))
    dataset = open_dataset(tmp_path / "bare")
    again = open_dataset(stage(dataset, tmp_path / "staged", size_hw=(64, 64)).root)
    assert [sample.label for sample in again.test] == [sample.label for sample in dataset.test]
    assert [sample.is_marked for sample in again.test] == [not s.label for s in dataset.test]


def test_the_paper_is_not_tried_without_masks(plate: Path, tmp_path: Path) -> None:
    from edgeseg.bench.paper.experiments import Banks

    shutil.copytree(plate, tmp_path / "bare", ignore=shutil.ignore_patterns("ground_truth"))
    options = PaperOptions(mvtec=tmp_path / "bare", weights="random", backbones=("resnet18",))
    with pytest.raises(DatasetError, match=r"without a mask; the paper measures by pixels, expec"):
        make_plan(options, tmp_path, Banks(tmp_path, weights="random"))


def test_a_fit_in_its_own_process_reports_time_and_memory(plate: Path, tmp_path: Path) -> None:
    request = FitWorkerRequest(
        data=plate,
        config=replace(MODEL.config, k=8, folds=2),
        weights="random",
        threads=1,
        artefact=tmp_path / "m.edgeseg",
    )
    figures = fit_in_process(request, tmp_path)
    assert figures["images"] == 10
    assert figures["fit_s"] > 0
    assert figures["peak_mb"] > figures["base_mb"] > 0
    assert (tmp_path / "m.edgeseg").is_file()
    with pytest.raises(EdgesegError, match=r"failed in its process: .*no such folder"):
        fit_in_process(replace(request, data=tmp_path / "gone"), tmp_path)


def test_a_peer_that_cannot_start_is_a_row_that_says_how(plate: Path, tmp_path: Path) -> None:
    # An interpreter without any packages, so without anomalib whatever is installed here.
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S -E "$@"\n')
    bare.chmod(0o755)
    request = PeerRequest(peer="padim", data=plate, weights=None)
    result = run_peer(bare, request, tmp_path / "peer", timeout_s=60)
    assert result["step"] == "start"
    assert "No module named" in result["error"]


def test_peers_are_asked_for_where_they_are_missing(tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text("#!/bin/sh\nexit 1\n")
    bare.chmod(0o755)
    with pytest.raises(EdgesegError, match=r"cannot import anomalib; run: .* -m pip install"):
        find_python(bare)
    with pytest.raises(UsageError, match="peer 'spade': expected one of"):
        PeerRequest(peer="spade", data=tmp_path, weights=None)


def test_the_inverse_is_scaled_to_the_grid() -> None:
    for method in ("cholesky", "eigenvectors", "svd"):
        timed = measure_inverse(6, method, locations=64)
        assert timed["grid_seconds"] == pytest.approx(64 * timed["seconds"])
        assert timed["factor_mb"] == pytest.approx(4096 * 36 * 4 / 1e6)


def test_means_over_groups_and_seeds() -> None:
    means = group_means({"grid": 0.9, "tile": 0.7, "bottle": 1.0})
    assert means["texture"] == pytest.approx(0.8)
    assert means["object"] == 1.0
    assert means["overall"] == pytest.approx(2.6 / 3)
    assert group_means({"bottle": 1.0})["texture"] is None
    seeds = [{"pro": 0.8, "pixel_auroc": 1.0, "image_auroc": 0.5}] * 2
    assert over_seeds(seeds)["pro"] == (0.8, 0.0)


def test_categories_and_rehearsals(plate: Path) -> None:
    assert categories_in(plate) == [plate]
    assert plate in categories_in(plate.parent)
    with pytest.raises(DatasetError, match="no categories; expected folders with train/good"):
        categories_in(plate / "train")
    whole, cut = open_limited(plate, limit=None), open_limited(plate, limit=2)
    assert len(cut.train) == 2
    assert len(cut.test) == 2 + len(KINDS)
    assert fingerprint(whole) != fingerprint(cut)
    assert fingerprint(whole) == fingerprint(open_dataset(plate))
