"""Recall by the number of good images: draws, means over categories, and rules on kept scores."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from edgeseg.bench.choices import by_images
from edgeseg.bench.choices.by_images import ALL, Draw, kept_results, rows, subset
from edgeseg.bench.choices.replay import main as replay
from edgeseg.bench.choices.replay import rules_page
from edgeseg.bench.choices.threshold_rules import RANKS, RULES, TAIL, ThresholdRule
from edgeseg.bench.choices.trial import TrialResult, at_rate
from edgeseg.bench.harness.report import read_report
from edgeseg.bench.harness.tabular import table_of
from edgeseg.data.datasets import Dataset, open_dataset
from edgeseg.decision.outliers import outside
from tests.support import REPO
from tests.support.small_models import write_plate

REPORT = REPO / "bench" / "results" / "decide" / "by_images"
GOOD = np.exp(np.random.default_rng(0).normal(size=60))
BY_NAME = {rule.name: rule for rule in RULES}


def tried(good: np.ndarray, *, scores: tuple[float, ...] = (0.1, 9.0)) -> TrialResult:
    return TrialResult(
        figures={"image_auroc": 0.75}, scores=scores, labels=(0, 1), good=tuple(good.tolist()),
        planted=(), rate=0.1, reads=1,
    )  # fmt: skip


def test_a_draw_is_of_the_training_images_alone(plate: Path) -> None:
    dataset = open_dataset(plate)
    draws = [Draw(category="plate", images=4, number=number) for number in (0, 0, 1)]
    some = [subset(dataset, draw) for draw in draws]
    assert some[0].train == some[1].train != some[2].train, "another number, another draw"
    for each in some:
        assert len(set(each.train)) == 4
        assert set(each.train) < set(dataset.train)
        assert each.test == dataset.test
    assert subset(dataset, Draw(category="plate", images=None, number=0)) is dataset


@pytest.mark.parametrize("images", [7, None])
def test_a_draw_is_read_from_its_name(images: int | None) -> None:
    draw = Draw(category="a part", images=images, number=3)
    assert Draw.parse(draw.name) == draw


def test_draws_of_a_category_count_as_one() -> None:
    """One with many draws would weigh more than the others."""
    found, missed = tried(GOOD, scores=(0.1, 99.0)), tried(GOOD, scores=(99.0, 0.1))
    results = {Draw(category="a", images=9, number=number): found for number in range(3)}
    results[Draw(category="b", images=9, number=0)] = missed
    results[Draw(category="b", images=None, number=0)] = missed
    first, second = rows(results, [TAIL])
    assert (first.images, first.recall, first.flagged) == ("9", 0.5, 0.5)
    assert (first.recall_low, first.recall_high) == (0.0, 1.0)
    assert (first.categories, first.fits) == (2, 4)
    assert (second.images, second.recall, second.flagged) == (ALL, 0.0, 1.0)


def test_the_rules_that_ship_are_those_of_the_product() -> None:
    for rule, promise in ((TAIL, "tail"), (RANKS, "conformal")):
        one = replace(tried(GOOD), promise=promise)
        good = np.array(one.good, np.float32).tolist()
        assert rule.value(good, 0.1) == at_rate(one).threshold


def test_a_rule_may_be_asked_for_another_rate() -> None:
    (row,) = rows({Draw(category="a", images=9, number=0): tried(GOOD)}, [TAIL])
    asked = ThresholdRule(name="half", value=TAIL.value, rate=0.5)
    (other,) = rows({Draw(category="a", images=9, number=0): tried(GOOD)}, [asked])
    assert (row.stated, other.stated) == (0.1, 0.5)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_thresholds_scale_with_the_scores_and_fall_with_the_rate(rule: ThresholdRule) -> None:
    low, high = rule.value(GOOD.tolist(), 0.2), rule.value(GOOD.tolist(), 0.02)
    assert low < high
    assert rule.value((7 * GOOD).tolist(), 0.02) == pytest.approx(7 * high)


@pytest.mark.parametrize(
    ("name", "moved"),
    [
        ("tail", False),
        ("tail, its highest score as it is", True),
        ("what a fit asks about left out, tail", False),
        ("beyond 3 deviations left out, ranks", False),
        ("log-normal of the upper half", False),
    ],
)
def test_one_odd_score_decides_by_some_rules_alone(name: str, moved: bool) -> None:
    highest = int(GOOD.argmax())
    odd, odder = GOOD.copy(), GOOD.copy()
    odd[highest], odder[highest] = 1e3, 1e6
    assert outside(odd)[highest]
    before, after = (BY_NAME[name].value(each.tolist(), 0.02) for each in (odd, odder))
    assert (after > before) == moved


def test_a_tail_of_one_law_is_exceeded_as_often_as_stated() -> None:
    """Exponential logarithms: the law holds, and a new score is above it at the rate."""
    draw = np.random.default_rng(1)
    rule = BY_NAME["tail, its highest score as it is"]
    shares = [
        np.exp(-np.log(rule.value(np.exp(draw.exponential(size=100)).tolist(), 0.02)))
        for _ in range(1000)
    ]
    assert np.mean(shares) == pytest.approx(0.02, abs=3 * np.std(shares) / 1000**0.5)


def test_a_run_is_reported_and_replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_plate(tmp_path / "data" / "one", size_hw=(32, 32), train=6)
    fitted = []

    def fit(dataset: Dataset, _: object, *, memory: object, options: object) -> TrialResult:
        fitted.append(len(dataset.train))
        return tried(GOOD)

    monkeypatch.setattr(by_images, "try_setting", fit)
    arguments = [str(tmp_path / "data"), "--images", "4", "--images", "80", "--draws", "2"]
    out = tmp_path / "out"
    result = CliRunner().invoke(by_images.main, [*arguments, "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert sorted(fitted) == [4, 4, 6], "no draw of more images than there are"
    report = read_report(out)
    assert [row[:2] for row in report.tables[0].rows] == [
        *(("4", "tail"), ("4", "ranks"), (ALL, "tail"), (ALL, "ranks"))
    ]
    again = CliRunner().invoke(replay, [str(out)])
    assert again.exit_code == 0, again.output
    page = (out / "rules.md").read_text()
    for line in report.tables[0].lines()[2:]:
        assert line in page, "a rule that ships has the figures of the run"
    assert (out / "recall.png").read_bytes().startswith(b"\x89PNG")
    assert CliRunner().invoke(replay, [str(tmp_path)]).exit_code == 1


def test_the_kept_page_of_rules_is_that_of_the_kept_report() -> None:
    report = read_report(REPORT)
    assert len(kept_results(report.raw)) == len(report.raw) == 166
    assert (REPORT / "rules.md").read_text() == rules_page(report)
    made = table_of("", list(rows(kept_results(report.raw))))
    for row, kept in zip(made.rows, report.tables[0].rows, strict=True):
        assert row == (*kept[:2], *(pytest.approx(cell) for cell in kept[2:]))
