"""The benchmark of processes, shards and updates: its arithmetic, and the cost of a frame."""

import re

import pytest

from edgeseg.bench.studies.scale.scaling import MANY, MSTC, markdown, on_paper
from edgeseg.bench.studies.scale.scaling_worker import frame_costs
from edgeseg.config import FitConfig
from tests.support.shares import write_tiny

COSTS = {
    "decode_s": 0.01, "embed_s": 0.02, "moments_s": 0.01, "frame_s": 0.04, "finish_s": 3.0,
    "reduced_bytes": 4e9, "link_bytes_s": 1e9,
}  # fmt: skip


def test_hours_on_paper():
    rows = list(on_paper(COSTS, workers=(1, 4)))
    assert [(row.frames, row.processes) for row in rows] == [
        (f"{MSTC:,}", 1), (f"{MSTC:,}", 4), (f"{MANY:,}", 1), (f"{MANY:,}", 4),
    ]  # fmt: skip
    assert float(rows[0].sweep_h) == pytest.approx(MSTC * 0.04 / 3600, rel=0.01)
    assert float(rows[1].sweep_h) == pytest.approx(MSTC * 0.01 / 3600, rel=0.01)
    assert {row.rest_s for row in rows} == {7.0}  # 3 s of factors, 4 s on the network


def test_the_table_compares():
    figures = {"peak_mb": 900.4, "base_mb": 700.2}
    measured = {
        "fit, 1 x 1": figures | {"seconds": 20.0},
        "fit, 1 x 2": figures | {"seconds": 16.0},
        "fit, 2 x 1": figures | {"seconds": 10.0},
        "update by 1 image": figures | {"seconds": 4.0},
    }
    text = markdown(measured, COSTS, images=200)
    assert "| fit, 2 x 1 | 10.0 | 2.00 times 1 x 1 | 900 (700) |" in text
    assert "| update by 1 image | 4.0 | 0.25 of fit, 1 x 2 | 900 (700) |" in text
    assert "One frame costs 40.0 ms of one process" in text
    assert not re.search(r"(?<!\w)/\w", text)  # no place of one computer


def test_the_cost_of_a_frame(tmp_path):
    data = write_tiny(tmp_path / "plate", train=16)
    costs = frame_costs(data, backbone="mobilenet_v3_small", size=64, weights="random")
    assert all(value > 0 for value in costs.values())
    parts = costs["decode_s"] + costs["embed_s"] + costs["moments_s"]
    assert costs["frame_s"] == pytest.approx(parts)
    k, locations, folds = 88, 64, FitConfig().folds  # all features of the network, on a grid of 8x8
    whole = 8 * locations * (k * k + k + 1)
    assert costs["reduced_bytes"] == whole * (1 + folds / 4)
