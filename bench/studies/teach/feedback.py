"""What wrong marks cost when a model learns from them, and what the quarantine saves.

python -m edgeseg.bench.studies.teach.feedback DATA --category bottle --out feedback.json

A model is fitted on four fifths of the good images. The others come later and are marked as good;
among the pictures so marked, 5 or 10 % are defects. Half of the defective test images may be seen
while learning: the wrong ones, and the rest as confirmed defects. Recall is that of the other half.

at once     every picture that is marked good is learned
guarded     the quarantine, where all wrong marks were agreed on: quota and known defects alone
agreed      the quarantine, where a second person looked and errs as often as the first
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import click
import numpy as np

from edgeseg.artefact.artefact import Artefact
from edgeseg.bench.harness.category_study import CategoryStudy, category_options
from edgeseg.bench.harness.tabular import Table, column, table_of
from edgeseg.config import FitConfig
from edgeseg.contract.prediction import is_anomalous
from edgeseg.data.datasets import Dataset, Sample
from edgeseg.data.samples import load_batches
from edgeseg.errors import DatasetError
from edgeseg.fitting.fitting import FitOptions, fit
from edgeseg.fitting.options import Changes
from edgeseg.fitting.update import update
from edgeseg.model.predictor import frame_predictor, torch_predictor
from edgeseg.teach.alarms import Alarm
from edgeseg.teach.feedback import Mark, Marked, Who
from edgeseg.teach.quarantine import sort_out, without_worst

SHARES = (0.0, 0.05, 0.10)
LATER = 0.2  # of the good images come after the fit
_ROUNDS = 30  # of learning; each has a quota
WAYS = ("at once", "guarded", "agreed")


@dataclass(frozen=True, kw_only=True)
class Story:
    """Which images are fitted, marked and kept for the test."""

    fitted: Dataset
    later: tuple[Sample, ...]  # good, and marked so
    seen: tuple[Sample, ...]  # defective, in the order in which marks go wrong
    test: tuple[Sample, ...]


@dataclass(frozen=True, kw_only=True)
class Reached:
    """What a model does on images that it never saw."""

    threshold: float
    recall: float
    false_alarms: int


@dataclass(frozen=True, kw_only=True)
class Row:
    """One share of wrong marks, learned in one way."""

    category: str
    share: float
    way: str
    marked: int
    wrong: int
    learned: int
    learned_wrong: int
    test_good: int
    test_bad: int
    before: Reached
    after: Reached


def told(dataset: Dataset, *, seed: int) -> Story:
    """Split by a seed; the same for every share, so that rows compare."""
    rng = np.random.default_rng(seed)
    train = [dataset.train[place] for place in rng.permutation(len(dataset.train))]
    bad = [sample for sample in dataset.test if sample.label]
    bad = [bad[place] for place in rng.permutation(len(bad))]
    later = round(LATER * len(train))
    seen = len(bad) // 2
    if not later or seen <= wrong_count(SHARES[-1], later):
        raise DatasetError(
            f"{dataset.root}: {len(train)} good and {len(bad)} defective images, expected more of "
            "both to mark some wrongly and keep some"
        )
    return Story(
        fitted=replace(dataset, train=tuple(train[later:])),
        later=tuple(train[:later]),
        seen=tuple(bad[:seen]),
        test=(*(sample for sample in dataset.test if not sample.label), *bad[seen:]),
    )


def wrong_count(share: float, good: int) -> int:
    """Defects that make up a share of all that is marked good."""
    return round(share / (1 - share) * good)


def scores_of(artefact: Artefact, samples: Sequence[Sample]) -> list[float]:
    """By the model, in their order."""
    config = artefact.config
    predict = frame_predictor(torch_predictor(artefact.model()), config)
    batches = load_batches(samples, size_hw=config.image_hw, batch_size=8)
    return [float(score) for batch in batches for score in predict(batch.frames)[1]]


def reached(artefact: Artefact, story: Story) -> Reached:
    """Recall and false alarms of the images that were kept."""
    threshold = artefact.calibration.score_threshold
    alarms = [is_anomalous(score, threshold) for score in scores_of(artefact, story.test)]
    bad = [alarm for alarm, sample in zip(alarms, story.test, strict=True) if sample.label]
    return Reached(
        threshold=threshold,
        recall=float(np.mean(bad)),
        false_alarms=sum(alarms) - sum(bad),
    )


def with_more(artefact: Artefact, story: Story, more: Sequence[Sample]) -> Artefact:
    """The product's own update."""
    images = tuple(Sample(image=sample.image) for sample in more)
    dataset = replace(story.fitted, train=images, test=())
    return update(artefact, Changes(more=dataset), FitOptions())


def marks_of(way: str, samples: Mapping[str, Sample], *, share: float, seed: int) -> list[Marked]:
    """What people said of pictures that the first of them called good."""
    rng = np.random.default_rng(seed)
    items = []
    for name, sample in samples.items():
        if way == "guarded":
            marks: tuple[Mark, ...] = (_mark("good", "supervisor", "first"),)
        else:
            errs = bool(rng.random() < share)
            second = "good" if bool(sample.label) == errs else "defect"
            marks = (_mark("good", "operator", "first"), _mark(second, "operator", "second"))
        items.append(Marked(alarm=_alarm(name), marks=marks))
    return items


def learned(
    artefact: Artefact, story: Story, *, way: str, wrong: int, share: float, seed: int
) -> tuple[Artefact, list[Sample]]:
    """The model after all learnings, and what it learned."""
    marked = [*story.later, *story.seen[:wrong]]
    if way == WAYS[0]:
        return with_more(artefact, story, marked), marked
    order = np.random.default_rng(seed).permutation(len(marked))
    waiting = {f"{number:04d}": marked[place] for number, place in enumerate(order)}
    items = {item.alarm.id: item for item in marks_of(way, waiting, share=share, seed=seed)}
    taken: list[Sample] = []
    for _ in range(_ROUNDS):
        known = list(story.seen[wrong:])
        known += [waiting[name] for name, item in items.items() if item.guarded]
        artefact, names = _round(artefact, story, waiting, items, known)
        if not names:
            break
        taken += [waiting.pop(name) for name in names]
        items = {name: item for name, item in items.items() if name in waiting}
    return artefact, taken


def _round(
    artefact: Artefact,
    story: Story,
    waiting: Mapping[str, Sample],
    items: Mapping[str, Marked],
    known: Sequence[Sample],
) -> tuple[Artefact, tuple[str, ...]]:
    """One learning: the model after it and what it took, as edgeseg/teach/learning.py does it."""
    threshold = artefact.calibration.score_threshold
    scores = dict(zip(waiting, scores_of(artefact, list(waiting.values())), strict=True))
    of_known = scores_of(artefact, known) if known else []
    guards = {
        str(place): score for place, score in enumerate(of_known) if is_anomalous(score, threshold)
    }
    fitted = int(artefact.data["fitted"])
    chosen = sort_out(list(items.values()), scores, guards, fitted=fitted)
    watched = [known[int(name)] for name in guards]
    while chosen.learn:
        changed = with_more(artefact, story, [waiting[name] for name in chosen.learn])
        limit = changed.calibration.score_threshold
        now = scores_of(changed, watched) if watched else []
        lost = [
            name for name, score in zip(guards, now, strict=True) if not is_anomalous(score, limit)
        ]
        if not lost:
            return changed, chosen.learn
        chosen = without_worst(chosen, scores, {}, lost)
    return artefact, ()


def rows(dataset: Dataset, config: FitConfig, options: FitOptions, *, seed: int) -> Iterator[Row]:
    """Every share of one category, in every way."""
    story = told(dataset, seed=seed)
    artefact = fit(story.fitted, config, options)
    before = reached(artefact, story)
    for share in SHARES:
        wrong = wrong_count(share, len(story.later))
        for way in WAYS:
            after, taken = learned(artefact, story, way=way, wrong=wrong, share=share, seed=seed)
            yield Row(
                category=dataset.name,
                share=share,
                way=way,
                marked=len(story.later) + wrong,
                wrong=wrong,
                learned=len(taken),
                learned_wrong=sum(sample.label for sample in taken),
                test_good=sum(1 - sample.label for sample in story.test),
                test_bad=sum(sample.label for sample in story.test),
                before=before,
                after=reached(after, story),
            )


def _mark(word: str, who: Who, name: str) -> Mark:
    return Mark(mark="good" if word == "good" else "defect", who=who, name=name, when="")


def _alarm(name: str) -> Alarm:
    return Alarm(
        id=name,
        when="",
        score=None,
        p_value=None,
        verdict="defect",
        threshold=0.0,
        box=None,
        width=1,
        height=1,
    )


@dataclass(frozen=True, kw_only=True)
class TableRow:
    """A row as people read it."""

    category: str = field(metadata=column("category"))
    wrong: str = field(metadata=column("wrong marks"))
    way: str = field(metadata=column("learned"))
    learned: str = field(metadata=column("pictures"))
    learned_wrong: int = field(metadata=column("of them defects"))
    threshold: float = field(metadata=column("threshold"))
    recall: float = field(metadata=column("recall"))
    lost: float = field(metadata=column("recall gained or lost", signed=True))
    false_alarms: str = field(metadata=column("false alarms"))


def table(measured: Sequence[Row]) -> Table:
    """Every way beside the model before it learned."""
    shown = [
        TableRow(
            category=row.category,
            wrong=f"{row.share:.0%}: {row.wrong} of {row.marked}",
            way=row.way,
            learned=f"{row.learned} of {row.marked}",
            learned_wrong=row.learned_wrong,
            threshold=row.after.threshold,
            recall=row.after.recall,
            lost=row.after.recall - row.before.recall,
            false_alarms=f"{row.after.false_alarms} of {row.test_good}, were "
            f"{row.before.false_alarms}",
        )
        for row in measured
    ]
    return table_of("Learning from marks, some of them wrong", shown)


@click.command()
@category_options(backbone="efficientnet_lite0", seed_of="the split and of who errs")
def main(study: CategoryStudy) -> None:
    """Learn from marks of which some are wrong, on categories as MVTec AD lays them out."""
    options = FitOptions(weights=study.weights, planted=0)
    measured: list[Row] = []
    for dataset in study.datasets():
        for row in rows(dataset, study.config, options, seed=study.seed):
            measured.append(row)
            click.echo(f"{row.category} {row.share:.0%} {row.way}: done", err=True)
            study.keep(measured)
    click.echo(table(measured).markdown())
    study.tell()


if __name__ == "__main__":
    main()
