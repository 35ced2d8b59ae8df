"""Wrong marks: who said what, what is learned of it, and the table."""

import json
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from edgeseg.bench.studies.teach import feedback
from edgeseg.bench.studies.teach.feedback import (
    WAYS,
    Reached,
    Row,
    learned,
    main,
    marks_of,
    told,
    wrong_count,
)
from edgeseg.data.datasets import open_dataset
from edgeseg.data.synthetic.scene import write_dataset
from edgeseg.errors import DatasetError


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "plate"
    write_dataset(folder, size_hw=(64, 64), train=50, test_good=3, test_defective=3)
    return open_dataset(folder)


def test_nothing_is_fitted_marked_and_tested_at_once(dataset):
    story = told(dataset, seed=0)
    groups = [story.fitted.train, story.later, story.seen, story.test]
    names = [sample.image for group in groups for sample in group]
    assert len(names) == len(set(names)) == len(dataset.train) + len(dataset.test)
    assert (len(story.later), len(story.seen)) == (10, 6)
    assert all(sample.label for sample in story.seen)
    assert told(dataset, seed=1).later != story.later
    with pytest.raises(DatasetError, match="expected more of both"):
        told(feedback.replace(dataset, test=dataset.test[:4]), seed=0)


def test_a_share_of_what_is_marked_good():
    assert [wrong_count(share, 19) for share in (0.0, 0.05, 0.10)] == [0, 1, 2]


def test_a_second_person_contradicts_unless_it_errs_too(dataset):
    story = told(dataset, seed=0)
    samples = {"good": story.later[0], "bad": story.seen[0]}
    said = {item.alarm.id: item.said for item in marks_of("agreed", samples, share=0.0, seed=0)}
    assert said == {"good": "good", "bad": "contested"}
    said = {item.alarm.id: item.said for item in marks_of("agreed", samples, share=1.0, seed=0)}
    assert said == {"good": "contested", "bad": "good"}
    said = {item.alarm.id: item.said for item in marks_of("guarded", samples, share=1.0, seed=0)}
    assert said == {"good": "good", "bad": "good"}


def test_at_once_learns_the_wrong_mark_and_agreement_does_not(dataset, monkeypatch):
    monkeypatch.setattr(feedback, "_ROUNDS", 1)
    monkeypatch.setattr(feedback, "with_more", lambda artefact, story, more: artefact)
    monkeypatch.setattr(feedback, "scores_of", lambda artefact, samples: [1.0] * len(samples))
    facts = SimpleNamespace(score_threshold=2.0)
    artefact = SimpleNamespace(calibration=facts, data={"fitted": 40})
    story = told(dataset, seed=0)
    _, at_once = learned(artefact, story, way="at once", wrong=1, share=0.0, seed=0)
    assert [len(at_once), sum(sample.label for sample in at_once)] == [11, 1]
    _, agreed = learned(artefact, story, way="agreed", wrong=1, share=0.0, seed=0)
    assert [len(agreed), sum(sample.label for sample in agreed)] == [4, 0]  # of one quota


def test_known_defects_hold_back_what_scores_like_them(dataset, monkeypatch):
    """Scores are by place: 5 of every defect, 1 of every good image."""
    monkeypatch.setattr(feedback, "with_more", lambda artefact, story, more: artefact)
    monkeypatch.setattr(
        feedback, "scores_of", lambda artefact, samples: [1.0 + 4 * s.label for s in samples]
    )
    artefact = SimpleNamespace(
        calibration=SimpleNamespace(score_threshold=2.0), data={"fitted": 40}
    )
    _, guarded = learned(artefact, told(dataset, seed=0), way="guarded", wrong=1, share=0.0, seed=0)
    assert [len(guarded), sum(sample.label for sample in guarded)] == [10, 0]


def reached(recall: float) -> Reached:
    return Reached(threshold=3.0, recall=recall, false_alarms=1)


def test_the_command(dataset, tmp_path, monkeypatch):
    """Its table and its file, without a fit."""

    def canned(dataset, config, options, *, seed):
        for way, recall in zip(WAYS, (0.5, 0.8, 0.9), strict=True):
            yield Row(
                category=dataset.name, share=0.1, way=way, marked=11, wrong=1, learned=9,
                learned_wrong=0, test_good=3, test_bad=6, before=reached(0.9),
                after=reached(recall),
            )  # fmt: skip

    monkeypatch.setattr(feedback, "rows", canned)
    out = tmp_path / "feedback.json"
    arguments = [dataset.root.parent, "--category", dataset.root.name, "--out", out]
    done = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output
    assert (
        "| plate | 10%: 1 of 11 | at once | 9 of 11 | 0 | 3.000 | 0.500 | -0.400 |" in done.stdout
    )
    assert [row["way"] for row in json.loads(out.read_text())] == list(WAYS)
