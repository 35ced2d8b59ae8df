"""Settings side by side: the short way gives what the product gives, and the tables."""

import json
from dataclasses import replace

import pytest
import torch
from click.testing import CliRunner

from edgeseg.base.errors import UsageError
from edgeseg.bench.choices.__main__ import CandidateSetting, Trials, main
from edgeseg.bench.choices.tables import Comparison, Figures
from edgeseg.bench.choices.trial import (
    FeatureMemory,
    RememberedBackbone,
    TrialResult,
    at_rate,
    try_setting,
)
from edgeseg.config import FitConfig
from edgeseg.data.datasets import open_dataset
from edgeseg.evaluation.evaluate import evaluate
from edgeseg.fitting.fitting import fit
from edgeseg.model.predictor import torch_predictor
from edgeseg.model.weights import load_backbone
from tests.support.small_models import RANDOM, SMALL, write_plate

CONFIG = replace(SMALL, size_hw=(64, 64), k=8, rank=5)
OPTIONS = replace(RANDOM, planted=4, keep_moments=False)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for name in ("one", "two"):
        write_plate(folder / name, size_hw=(64, 64), seed=len(name))
    return folder


def test_a_trial_is_the_products_own_fit_and_evaluation(data):
    dataset = open_dataset(data / "one")
    memory = FeatureMemory()
    first = try_setting(dataset, CONFIG, memory=memory, options=OPTIONS)
    again = try_setting(dataset, CONFIG, memory=memory, options=OPTIONS)
    artefact = fit(dataset, CONFIG, OPTIONS)
    calibration = artefact.calibration
    evaluation = evaluate(
        torch_predictor(artefact.model()),
        dataset,
        size_hw=CONFIG.size_hw,
        thresholds=calibration.thresholds,
    )
    for tried in (first, again):
        assert tried.good == pytest.approx(calibration.good.scores.tolist(), rel=1e-5)
        assert tried.planted == pytest.approx(artefact.planted.scores.tolist(), rel=1e-5)
        assert tried.scores == pytest.approx(evaluation.ranks, rel=1e-5)
        # A power of float32 is rounded by its place in a vector, and pixels are ranked.
        assert tried.figures.keys() == evaluation.figures.keys()
        for name, figure in evaluation.figures.items():
            assert tried.figures[name] == (figure and pytest.approx(figure, rel=1e-5)), name
    assert first.reads == artefact.factors.factor.size
    point = at_rate(first)
    assert point.threshold == pytest.approx(calibration.score_threshold, rel=1e-5)
    assert point.recall == evaluation.recall
    assert point.flagged == evaluation.false_alarms


def test_a_remembered_backbone_computes_nothing_twice(monkeypatch):
    plain = load_backbone("mobilenet_v3_small", layers=(1, 3), weights="random")[0]
    backbone = RememberedBackbone(plain, layers=(1, 3), memory=FeatureMemory())
    images = torch.randn(3, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    for rows in (images, images.flip(0), images[1:2]):
        for found, expected in zip(backbone(rows), plain(rows), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    monkeypatch.setattr(type(backbone).__mro__[1], "forward", None)  # whoever asks it now fails
    assert len(backbone(images)) == 2


def test_a_full_memory_computes_again():
    plain = load_backbone("mobilenet_v3_small", layers=(1,), weights="random")[0]
    backbone = RememberedBackbone(plain, layers=(1,), memory=FeatureMemory(most_bytes=100))
    images = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    for _ in range(2):
        assert torch.equal(backbone(images)[0], plain(images)[0])
    assert not backbone.memory._maps


def test_settings_are_read():
    setting = CandidateSetting.parse(
        "small:backbone=mobilenet_v3_small,size_hw=320,layers=1+2,rank=0.5"
    )
    assert setting.name == "small"
    assert setting.config == FitConfig(
        backbone="mobilenet_v3_small", size_hw=(320, 320), layers=(1, 2), rank=0.5
    )
    for text, layers in (("1+2", (1, 2)), ("2", (2,)), ("", ())):
        shown = CandidateSetting.parse(f"m:map_layers={text},map_ridge=0.3").config
        assert (shown.map_layers, shown.map_ridge) == (layers, 0.3)
    assert CandidateSetting.parse("m:k=9").config.map_layers is None, "as the backbone says"
    paper = CandidateSetting.parse("p:preset=paper,k=50")
    assert paper.config == replace(FitConfig.preset("paper"), k=50)
    assert CandidateSetting.parse("edge:").config == FitConfig()
    assert setting.config_for(3).seed == 3


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("top", "setting 'top': expected NAME:KEY=VALUE,KEY=VALUE, for example top1:top=1"),
        (":top=1", "setting ':top=1': expected NAME:KEY=VALUE,KEY=VALUE, for example top1:top=1"),
        ("a:tpo=1", "unknown settings ['tpo']; expected names of FitConfig"),
        ("a:top=x", "top='x': expected a value like 10"),
        ("a:size_hw=3x3x3", "size_hw='3x3x3': expected a value like (256, 256)"),
        ("a:top=0", "top=0: expected a whole number from 1"),
        ("a:map_layers=no", "map_layers='no': expected a value like 1+2"),
    ],
)
def test_settings_that_make_no_sense(text, sentence):
    with pytest.raises(UsageError) as caught:
        CandidateSetting.parse(text)
    assert str(caught.value) == sentence


def tried(*, scores, labels, good, planted=(), rate=0.5, **figures) -> TrialResult:
    return TrialResult(
        figures={"pro": 0.9, "image_auroc": 0.8} | figures, scores=scores, labels=labels,
        good=good, planted=planted, rate=rate, reads=2_000_000,
    )  # fmt: skip


def test_figures_at_a_rate():
    """With three good scores 25 % is the smallest rate: the highest of them."""
    one = tried(
        scores=(1.0, 5.0, 2.5, 9.0), labels=(0, 0, 1, 1), good=(1.0, 2.0, 3.0), planted=(2.5, 4.0)
    )
    point = at_rate(one)
    assert (point.threshold, point.recall, point.flagged, point.good) == (2.0, 1.0, 1, 2)
    assert (at_rate(one, 0.25).threshold, at_rate(one, 0.25).recall) == (3.0, 0.5)
    assert (point.planted, at_rate(one, 0.25).planted) == (1.0, 0.5)
    assert at_rate(replace(one, planted=())).planted is None
    assert TrialResult.from_dict(json.loads(json.dumps(one.to_dict()))) == one


def test_every_row_has_the_figures_of_its_threshold():
    """And a dash where an older run did not measure them."""
    plain = {"scores": (1.0, 5.0, 9.0), "labels": (0, 0, 1), "good": (1.0, 2.0, 3.0)}
    now, before = tried(**plain, pro_05=0.6, f1=0.75), tried(**plain)
    figures = {("now", "x", 0): Figures.of(now), ("before", "x", 0): Figures.of(before)}
    heading, _, *rows = next(Comparison(figures).tables()).lines()
    names = heading.split(" | ")
    shown = [[row.split(" | ")[names.index(name)] for name in ("PRO 0.05", "F1")] for row in rows]
    assert shown == [["0.600", "0.750"], ["-", "-"]]
    assert {"recall", "false alarms", "PRO", "image AUROC"} < set(names)


def test_left_out_and_chosen():
    """Setting b is better on x alone, so without x nobody would choose it."""
    base = Figures.of(tried(scores=(1.0, 2.0), labels=(0, 1), good=(1.0, 2.0, 3.0)))
    pro = {"a": {"x": 0.5, "y": 0.8, "z": 0.8}, "b": {"x": 1.0, "y": 0.7, "z": 0.7}}
    figures = {
        (setting, category, seed): replace(base, pro=value + seed / 100)
        for setting, values in pro.items()
        for category, value in values.items()
        for seed in (0, 1)
    }
    compared = Comparison(figures)
    (row,) = (row for row in compared.differences() if row.by == "PRO")
    assert (row.setting, row.without) == ("b", "x")
    assert row.mean == pytest.approx(0.1)
    assert row.lowest == pytest.approx(-0.1)
    assert row.highest == pytest.approx(0.2)
    assert row.seeds == pytest.approx(0)
    chosen = {row.category: row for row in compared.choices() if row.by == "PRO"}
    assert {name: row.setting for name, row in chosen.items()} == {"x": "a", "y": "b", "z": "b"}
    assert (chosen["x"].reached, chosen["x"].best) == pytest.approx((0.505, 1.005))
    del figures["b", "y", 1]
    assert Comparison(figures).complete == ["a"]  # what failed somewhere is no candidate
    assert [table.title for table in Comparison(figures).tables()] == ["Settings", "x", "y", "z"]


def test_a_category_without_masks_counts_by_its_labels():
    """PRO is a mean over the others, and the table says so."""
    plain = {"labels": (0, 1), "good": (1.0, 2.0, 3.0)}
    found, missed = tried(scores=(1.0, 9.0), **plain), tried(scores=(1.0, 0.5), **plain)
    bare = replace(missed, figures=missed.figures | {"pro": None, "pro_05": None})
    runs = {("a", "x"): (found, 0.5), ("a", "y"): (found, 0.7), ("b", "x"): (found, 0.9),
            ("b", "y"): (found, 0.9)}  # fmt: skip
    figures = {
        (setting, category, 0): Figures.of(replace(run, figures=run.figures | {"pro": pro}))
        for (setting, category), (run, pro) in runs.items()
    }
    figures |= {(setting, "bare", 0): Figures.of(bare) for setting in "ab"}
    compared = Comparison(figures)
    assert [compared.mean(name).pro for name in "ab"] == pytest.approx([0.6, 0.9])
    assert compared.mean("a", without="x").pro == pytest.approx(0.7)
    assert compared.mean("a").recall == pytest.approx(2 / 3)
    settings, _, _, *of_categories = compared.tables()
    assert settings.note.endswith(
        " PRO: over 2 of 3 categories, not measured on bare. PRO 0.05: over 0 of 3 categories, not "
        "measured on x, y, bare."
    )
    assert settings.rows[0][1:3] == (pytest.approx(0.6), None)
    assert of_categories[-1].texts()[0][1:3] == ["-", "-"]
    (row,) = (row for row in compared.differences() if row.by == "PRO")
    assert (row.mean, row.lowest, row.without) == (pytest.approx(0.3), pytest.approx(0.2), "x")
    chosen = [(row.by, row.category) for row in compared.choices()]
    assert [category for by, category in chosen if by == "PRO"] == ["x", "y"]
    assert [category for by, category in chosen if by == "recall"] == ["x", "y", "bare"]


def test_what_one_category_alone_has_is_not_compared_without_it():
    one = Figures.of(tried(scores=(1.0, 2.0), labels=(0, 1), good=(1.0, 2.0, 3.0)))
    bare = replace(one, pro=float("nan"))
    figures = {(name, place, 0): one if place == "x" else bare for name in "ab" for place in "xy"}
    compared = Comparison(figures)
    rows = [*compared.differences(), *compared.choices()]
    assert {row.by for row in rows} == {"image AUROC", "recall", "recall 1 %", "recall 5 %"}
    assert compared.mean("a").pro == pytest.approx(0.9)


def test_the_command_goes_on_where_it_was(data, tmp_path, monkeypatch):
    small = "backbone=mobilenet_v3_small,size_hw=64,k=8,rank=5,folds=3,false_alarm_rate=0.1"
    arguments = [str(data), "--setting", f"a:{small}", "--setting", f"b:{small},top=1"]
    arguments += ["--setting", f"c:{small},size_hw=40", "--weights", "random", "--planted", "2"]
    arguments += ["--out", str(tmp_path / "out")]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert "| a |" in result.stdout
    assert "| c |" not in result.stdout
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    titles = [table["title"] for table in report["tables"]]
    assert titles[1:3] == [
        "Difference to a, each category left out in turn", "Chosen without the category"
    ]  # fmt: skip
    assert titles[3:] == ["one", "two"]
    assert report["notes"][0].startswith("c one seed 0 failed: size 40x40: both sides must be")
    assert any("bench latency" in note for note in report["notes"])

    def run(self: Trials, *_: object) -> dict[str, str]:
        return {"failed": "asked again"}

    monkeypatch.setattr(Trials, "_run", run)
    again = CliRunner().invoke(main, arguments)
    assert again.stdout == result.stdout
    assert "4 of 6 results are there already" in again.stderr


def test_a_setting_that_cannot_be_read_is_one_sentence(data, tmp_path):
    result = CliRunner().invoke(
        main, [str(data), "--setting", "a:tpo=1", "--out", str(tmp_path / "out")]
    )
    assert result.exit_code == 1
    assert result.stderr == "Error: unknown settings ['tpo']; expected names of FitConfig\n"
