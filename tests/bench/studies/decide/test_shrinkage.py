"""Rules for what is added to a covariance: the shipped one is the product's, others by hand."""

import json
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from edgeseg.bench.studies.decide.shrinkage import (
    RULES,
    SHIPPED,
    Trial,
    WholeImage,
    covariances,
    head_of,
    main,
    oas,
)
from edgeseg.config import FitConfig
from edgeseg.data.datasets import open_dataset
from edgeseg.fitting.group_sums import group_factors
from edgeseg.model.moments import Moments
from tests.support.small_models import SMALL, write_plate


@pytest.fixture
def moments():
    rng = np.random.default_rng(5)
    return Moments.zero(36, 4).update_(rng.normal(2.0, [[1.0], [2.0], [3.0], [0.1]], (9, 4, 36)))


def test_the_shipped_rule_is_the_products(moments):
    config = replace(SMALL, ridge=FitConfig().ridge, ridge_unit="mean_square")
    theirs = group_factors(config, moments).factor.astype(np.float64)
    ours = head_of(config, moments, RULES[SHIPPED]).factors.factor.astype(np.float64)
    # Eigenvectors have no sign: the forms they make are compared.
    np.testing.assert_allclose(
        ours @ ours.transpose(0, 2, 1), theirs @ theirs.transpose(0, 2, 1), rtol=1e-5
    )


def test_oas_by_its_formula_in_traces(moments):
    for covariance, shrunk in zip(covariances(moments), oas(moments), strict=True):
        p, n = 4, 9
        squares, trace = np.trace(covariance @ covariance), np.trace(covariance)
        # As published, but for 1 - 2/p, which its authors' code and others leave out.
        weight = min(1, (squares + trace**2) / ((n + 1) * (squares - trace**2 / p)))
        expected = (1 - weight) * covariance + weight * trace / p * np.eye(p)
        np.testing.assert_allclose(shrunk, expected, rtol=1e-10)


def test_oas_of_a_constant_location_is_finite():
    still = Moments.zero(1, 4).update_(np.ones((3, 4, 1)))
    assert np.isfinite(oas(still)).all()


def test_an_image_unlike_the_others_is_far_away():
    good = np.random.default_rng(0).normal(size=(30, 5)).astype(np.float32)
    near, far = WholeImage(good).distance(np.array([[0.0] * 5, [9.0] * 5], np.float32))
    assert far > 5 * near


def test_a_rule_is_judged_by_the_folds_of_a_fit(tmp_path):
    write_plate(tmp_path / "plate", size_hw=(64, 64))
    config = replace(
        SMALL, size_hw=(64, 64), k=8, rank=5, ridge=FitConfig().ridge, ridge_unit="mean_square"
    )
    trial = Trial(open_dataset(tmp_path / "plate"), config, "random")
    ours = trial.unseen(RULES[SHIPPED], list(trial.folds()))
    theirs = trial.artefact.calibration.good.scores
    assert sorted(ours) == pytest.approx(sorted(theirs.tolist()), rel=1e-4)


def test_the_command_writes_one_row_a_rule(tmp_path):
    write_plate(tmp_path / "data" / "plate", size_hw=(64, 64))
    arguments = [tmp_path / "data", "--backbone", "mobilenet_v3_small", "--size", "64x64"]
    done = CliRunner().invoke(
        main,
        [
            str(each)
            for each in (*arguments, "--weights", "random", "--limit", 4, "--out", tmp_path / "out")
        ],
    )
    assert done.exit_code == 0, done.output
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    (table,) = report["tables"]
    assert len(table["rows"]) == len(RULES) + 2
    names = [column["name"] for column in table["columns"]]
    assert {"PRO 0.05", "F1", "recall", "false alarms"} < set(names)
    assert None not in [cell for row in table["rows"] for cell in row]
