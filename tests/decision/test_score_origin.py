"""Where a threshold comes from: records that files keep, and the words that people read."""

import json
from dataclasses import asdict

import pytest

from edgeseg.base.plain import Malformed, record
from edgeseg.decision.score_origin import ScoreOrigin, ThresholdChoice
from edgeseg.decision.thresholds import Thresholds
from tests.support.thresholds import made_up_thresholds

WORDS = [
    (ScoreOrigin(kind="split"), "split-conformal, 12 good images"),
    (ScoreOrigin(kind="split", backend="ONNX Runtime"), "split-conformal on ONNX Runtime, 12 good"),
    (ScoreOrigin(kind="cross", folds=10), "cross-conformal, 10 folds, 12 good images"),
    (ScoreOrigin(kind="cross", new_images=4), "cross-conformal on 4 new images, 12 good images"),
    (
        ScoreOrigin(kind="cross", new_images=4, earlier_models=1),
        "cross-conformal on 4 new images and scores of the earlier model, 12 good images",
    ),
    (ScoreOrigin(kind="earlier", earlier_models=1), "scores of the earlier model, 12 good images"),
    (ScoreOrigin(kind="earlier", earlier_models=2), "scores of the earlier models, 12 good images"),
    (ScoreOrigin(kind="copies"), "near-copies of fitted images, 12 good images"),
    (ScoreOrigin(kind="fitted"), "the fitted image itself (no other was given), 12 good images"),
    (ScoreOrigin(kind="best_f1", anomalies=3), "best F1, 12 good images and 3 anomalies"),
    (ScoreOrigin(kind="best_f1"), "best F1, 12 good images"),
    (
        ScoreOrigin(kind="split", precision="int8", backend="OpenVINO"),
        "split-conformal, 12 good images, through the int8 graph in OpenVINO",
    ),
]


@pytest.mark.parametrize(("origin", "words"), WORDS, ids=[words for _, words in WORDS])
def test_words(origin: ScoreOrigin, words: str) -> None:
    assert origin.words(images=12, parts=12).startswith(words)
    assert "12 good images of 5 different parts" in origin.words(images=12, parts=5)


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        (ThresholdChoice(by="rate", number=0.02), "chosen for 2 % false alarms"),
        (ThresholdChoice(by="value", number=6.25), "the value 6.25 chosen by hand"),
    ],
)
def test_a_choice_stands_behind_the_origin(choice: ThresholdChoice, words: str) -> None:
    chosen = made_up_thresholds(10.0, choice=choice)
    assert chosen.method == f"split-conformal, 100 good images; {words}"
    assert chosen.rule == words
    assert made_up_thresholds(10.0).rule == "split-conformal, 100 good images"


@pytest.mark.parametrize("origin", [origin for origin, _ in WORDS])
def test_files_keep_the_records(origin: ScoreOrigin) -> None:
    chosen = made_up_thresholds(1.0, origin=origin, choice=ThresholdChoice(by="rate", number=0.05))
    assert record(Thresholds, json.loads(json.dumps(asdict(chosen)))) == chosen


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"kind": "guess"}, "origin.kind: 'guess', expected one of"),
        ({"kind": "cross", "folds": -1}, "origin.folds: -1, expected from 0"),
    ],
)
def test_damaged_origins_are_refused(values: dict[str, object], sentence: str) -> None:
    stored = asdict(made_up_thresholds(1.0)) | {"origin": values}
    with pytest.raises(Malformed, match=sentence):
        record(Thresholds, stored)
