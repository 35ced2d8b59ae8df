"""The study of device fits: what it compares, and what the report says of it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgeseg.artefact.artefact import save_artefact
from edgeseg.bench.studies.teach.device_fit import Row, apart, compared, report_of
from tests.support.backbone_graphs import taught


def test_apart_is_a_share_of_the_largest() -> None:
    assert apart(np.array([1.0, 4.0]), np.array([1.0, 5.0])) == pytest.approx(0.2)
    assert apart(np.zeros(2), np.zeros(2)) == 0.0


def test_models_are_compared_by_what_they_measure(tmp_path: Path) -> None:
    model = taught()
    turned = replace(model, factors=replace(model.factors, factor=-model.factors.factor))
    other = replace(model, factors=replace(model.factors, factor=model.factors.factor * 1.1))
    for name, one in (("a", model), ("b", turned), ("c", other)):
        save_artefact(one, tmp_path / name)
    assert set(compared(tmp_path / "a", tmp_path / "b").values()) == {0.0}, "signs are free"
    assert compared(tmp_path / "c", tmp_path / "a")["factors"] == pytest.approx(0.21, rel=1e-5)


def test_the_report_names_the_worst() -> None:
    row = Row(
        **{"data": "bottle", "backbone": "efficientnet_lite0", "images": 60, "device_s": 20.0},
        **{"write_s": 1.0, "torch_s": 22.0, "device_processor_s": 30.0, "torch_processor_s": 33.0},
        **{"device_mb": 500.0, "torch_mb": 1200.0, "factors": 1e-6, "threshold": 2e-7},
        **{"scores": 3e-7, "planted": 4e-7},
    )  # fmt: skip
    text = report_of([row, replace(row, factors=3e-6)], busy=None).markdown()
    assert "factors 3.0e-06, thresholds 2.0e-07, scores 4.0e-07" in text
    assert "bottle" in text
