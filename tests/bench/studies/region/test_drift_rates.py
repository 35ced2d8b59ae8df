"""Drift told apart from defects on real images, with a small backbone so that it takes seconds."""

from pathlib import Path

import numpy as np
import pytest

from edgeseg.bench.studies.line.disturb import disturbances
from edgeseg.bench.studies.region.drift_rates import Bench, row
from edgeseg.config import FitConfig


@pytest.mark.parametrize("change", disturbances(), ids=lambda c: f"{c.family} {c.strength}")
def test_disturbances_keep_size_and_type(change) -> None:  # type: ignore[no-untyped-def]
    frame = np.random.default_rng(0).integers(0, 256, (40, 56, 3), dtype=np.uint8)
    before = frame.copy()
    out = change.apply(frame)
    assert (out.shape, out.dtype) == (frame.shape, np.uint8)
    assert not np.array_equal(out, frame)
    np.testing.assert_array_equal(frame, before)


def test_a_shift_moves_whole_pixels() -> None:
    frame = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    (change,) = (c for c in disturbances() if (c.family, c.strength) == ("shift", "8,6 px"))
    np.testing.assert_array_equal(change.apply(frame)[6:, 8:], frame[:-6, :-8])


@pytest.fixture(scope="module")
def bench(shared: Path) -> Bench:
    weights = str(shared / "weights" / "mobilenet_v3_small.pth")
    # Fewer directions and folds than by default: a fit in seconds.
    config = FitConfig(backbone="mobilenet_v3_small", k=64, rank=32, folds=2)
    category = shared / "data" / "mvtec_ad" / "bottle"
    return Bench(category, config=config, weights=weights, streams=4)


def test_real_defects_do_not_warn(bench: Bench) -> None:
    rates = {(rate.family, rate.strength): rate for rate in bench.undisturbed()}
    assert rates["good parts", ""].warned == 0
    assert rates["one good part stays", ""].warned <= 0.05  # a stream for each of 20 parts
    assert rates["one defective part stays", ""].warned <= 0.05  # of 63
    for share in ("10%", "30%", "50%"):
        rate = rates["defects", f"{share} of parts"]
        assert rate.warned == 0
        assert rate.alarm_rate > 0.05  # the defects were there, and found
    assert row(rates["good parts", ""]).startswith("| bottle | good parts |  | 0% |  |  |")


@pytest.mark.parametrize(
    ("family", "strength"),
    [
        ("brightness", "x0.7"),
        ("brightness", "x1.5"),
        ("side light", "to x0.5"),
        ("blur", "sigma 2"),
        ("shift", "4,3 px"),
        ("shift", "16,12 px"),
    ],
)
def test_real_drift_warns_and_is_named(bench: Bench, family: str, strength: str) -> None:
    (change,) = (c for c in disturbances() if (c.family, c.strength) == (family, strength))
    rate = bench.disturbed(change)
    assert rate.warned == 1
    assert rate.named == 1
    assert rate.frames_to_warning is not None
    assert rate.frames_to_warning <= 200  # one window
