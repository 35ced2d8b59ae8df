"""The published numbers are those of the paper's own source."""

import re
from pathlib import Path

import numpy as np
import pytest

from edgeseg.bench.paper import published


def test_every_category_has_every_number() -> None:
    assert len(published.CATEGORIES) == 15
    for values in published.CATEGORY_PRO.values():
        assert tuple(values) == published.CATEGORIES
        assert all(0.7 < value < 1 for value in values.values())


def test_published_means_follow_from_the_categories() -> None:
    for model, printed in (("R18-100", 0.926), ("WR50-100", 0.934), ("WR50-300", 0.942)):
        mean = np.mean(list(published.CATEGORY_PRO[model].values()))
        assert mean == pytest.approx(printed, abs=0.0006)


@pytest.fixture(scope="module")
def source(shared: Path) -> str:
    sources = sorted((shared / "paper").glob("*.tex"))
    if not sources:
        pytest.skip(f"needs the paper's source in {shared / 'paper'}")
    return sources[0].read_text(encoding="utf-8")


def numbers(line: str) -> list[float]:
    """Three-digit decimals of a row, without the ones that stand for a deviation."""
    return [float(f"0.{digits}") for digits in re.findall(r"(?<!\d)\.(\d{3})", line)]


def row(source: str, start: str, *, after: str) -> list[float]:
    section = source[source.index(after) :]
    line = next(line for line in section.splitlines() if line.strip().startswith(start))
    return numbers(line)


def test_category_table(source: str) -> None:
    order = ("PaDiM R18-100", "PaDiM WR50-550", "R18-100", "WR50-100", "WR50-300")
    for category in published.CATEGORIES:
        title = category.replace("_", " ").capitalize()
        printed = row(source, title, after="tbl:mvtecad_pro_category}\n  \\begin")
        assert printed == [published.CATEGORY_PRO[model][category] for model in order]


def test_ablation_table(source: str) -> None:
    for name, values in published.ABLATION.items():
        printed = row(source, name, after="\\label{tbl:ablation_lowrank}")
        expected = [values.texture, values.object, values.overall]
        assert printed == expected + ([] if values.std is None else [values.std])


def test_main_table(source: str) -> None:
    backbones = {
        "MobileNetV3-Small-100": "Ours (k=100) & MobileNetV3-Small",
        "MobileNetV3-Large-100": "Ours (k=100) & MobileNetV3-Large",
        "R18-100": "Ours (k=100) & ResNet-18",
        "WR50-100": "Ours (k=100) & Wide ResNet-50-2",
        "WR50-300": "Ours (k=300) & Wide ResNet-50-2",
        "PaDiM R18-100": "PaDiM (k=100)",
        "PaDiM WR50-550": "PaDiM (k=550)",
    }
    assert set(backbones) == set(published.MAIN)
    for name, start in backbones.items():
        values = published.MAIN[name]
        printed = row(source, start, after="\\label{tbl:mvtecad_pro}")
        assert printed == [values.texture, values.object, values.overall, values.roc]


def test_other_datasets(source: str) -> None:
    for name, start in (("Semi-orthogonal", "Semi-orthogonal"), ("Sampled features", "PaDiM")):
        values = published.KOLEKTOR[name]
        printed = row(source, start, after="\\label{tbl:kolektor}")
        assert printed[:4] == [*values.folds, values.mean]
        assert values.second in printed[4:]
    assert f"{published.MSTC['Semi-orthogonal']:.3f}".lstrip("0") in source
    for share in published.EIGEN_SHARE.values():
        assert f"{100 * share:.2f}" in source
    for seconds in published.SVD_SECONDS.values():
        assert f"${seconds}$ seconds" in source
