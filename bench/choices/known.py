"""What known defects are worth: recall of held-out defects by what some known ones teach.

python -m edgeseg.bench.choices.known mvtec_ad more surfaces --out known

Of every kind of defect some pictures are drawn as known, and all others are held out: those of the
kind, and those of other kinds. A run that was killed goes on where it was.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

import click
import numpy as np
import torch
from numpy.typing import NDArray

from edgeseg.base.errors import EdgesegError
from edgeseg.base.options import FOLDER, note
from edgeseg.base.plain import record
from edgeseg.bench.choices.known_trials import PLANTED, WAYS, KnownTrials, Scores, alarms_of
from edgeseg.bench.harness.accuracy import categories_in, fingerprint, open_limited
from edgeseg.bench.harness.machine import describe
from edgeseg.bench.harness.report import Report, write_report
from edgeseg.bench.harness.tabular import column, table_of
from edgeseg.bench.harness.units import FAILED, Result, Store, Unit, run_units
from edgeseg.config import FitConfig
from edgeseg.data.datasets import Dataset
from edgeseg.decision.metrics import auroc

COUNTS = (1, 3, 5, 10)
MAIN = ("none", "directions (ships)")  # ways that are tried on all draws
_OTHERS_AT, _OTHER_DRAWS = 5, 2  # known defects and draws on which the others are
_LOW = 0.8  # recall below which a kind has something to gain


@dataclass(frozen=True, kw_only=True)
class KindTrial:
    """What a way does for one kind, in the mean over draws."""

    category: str
    kind: str
    known: int
    way: str
    same: float  # recall of held-out defects of the kind
    others: float | None  # of other kinds; None: there are none
    auroc: float  # of all defects that are held out
    flagged: float  # of good test images
    promised: float  # of good images of the fit, by thresholds of the other half of them


@dataclass(frozen=True, kw_only=True)
class KnownRow:
    """Means of a way over kinds, and of good images over categories."""

    known: str = field(metadata=column("known defects"))
    way: str = field(metadata=column("way"))
    low: float = field(metadata=column("recall of kinds below .8"))
    gain: float = field(metadata=column("gain", signed=True))
    high: float = field(metadata=column("of the other kinds held out too"))
    others: float = field(metadata=column("recall of other defects"))
    lost: float = field(metadata=column("gain", signed=True))
    auroc: float = field(metadata=column("image AUROC"))
    flagged: float = field(metadata=column("good test images flagged"))
    promised: float = field(metadata=column("good images of the other half"))
    kinds: str = field(metadata=column("kinds below .8, of"))


def run_category(
    dataset: Dataset, config: FitConfig, counts: Sequence[int], draws: int, weights: str | None
) -> Result:
    """Try every way on draws of every kind of a category."""
    trials = KnownTrials(dataset, config, weights=weights)
    before = WAYS["none"](trials, ())
    found: list[KindTrial] = []
    for count in counts:
        for kind in trials.kinds_with(count):
            own = np.flatnonzero(trials.kinds == kind)
            rng = np.random.default_rng([count, len(own), *map(ord, kind)])
            chosen = [rng.permutation(own)[:count].tolist() for _ in range(draws)]
            found += _try_ways(trials, chosen, before, config, kind=kind, known=count)
    copies = np.flatnonzero(np.array(trials.known.kinds) == PLANTED)
    count = min(max(counts), len(copies))
    rng = np.random.default_rng(count)
    chosen = [rng.permutation(copies)[:count].tolist() for _ in range(draws)]
    found += _try_ways(trials, chosen, before, config, kind=PLANTED, known=count)
    return {"trials": [asdict(each) | {"category": dataset.name} for each in found]}


def _try_ways(
    trials: KnownTrials,
    chosen: Sequence[Sequence[int]],
    before: Sequence[Scores],
    config: FitConfig,
    *,
    kind: str,
    known: int,
) -> Iterator[KindTrial]:
    good, defective = trials.kinds == "good", trials.kinds != "good"
    for name, way in WAYS.items():
        main, rows = name in MAIN, []
        if not main and known != _OTHERS_AT:
            continue
        for places in chosen if main else chosen[:_OTHER_DRAWS]:
            scores = list(before) if name == "none" else way(trials, places)
            alarms, halves = alarms_of(scores, rate=config.false_alarm_rate)
            held = np.ones(len(alarms), np.bool_)
            held[[place for place in places if place < len(held)]] = False
            same = held & (trials.kinds == kind) if kind != PLANTED else defective
            others = defective & (trials.kinds != kind)
            test = scores[0][1]
            rows.append(
                (
                    alarms[same].mean(),
                    alarms[others].mean() if others.any() and kind != PLANTED else np.nan,
                    _auroc(test[good], test[defective & held]),
                    alarms[good].mean(),
                    halves.mean(),
                )
            )
        same_, others_, auroc_, flagged, promised = np.mean(rows, axis=0).tolist()
        yield KindTrial(
            category="",
            kind=kind,
            known=known,
            way=name,
            same=same_,
            others=None if np.isnan(others_) else others_,
            auroc=auroc_,
            flagged=flagged,
            promised=promised,
        )


def _auroc(good: NDArray[np.float64], bad: NDArray[np.float64]) -> float:
    value = auroc(np.concatenate([good, bad]), np.repeat([0, 1], [len(good), len(bad)]))
    return float("nan") if value is None else value


def summary(trials: Sequence[KindTrial]) -> Iterator[KnownRow]:
    """Make a row for each number of known defects and way."""
    usual = {(each.category, each.kind, each.known): each for each in trials if each.way == "none"}
    sets = dict.fromkeys((each.known, each.kind == PLANTED) for each in trials)
    for known, planted in sets:
        for way in WAYS:
            own = [
                each
                for each in trials
                if (each.known, each.kind == PLANTED, each.way) == (known, planted, way)
            ]
            if not own:
                continue
            pairs = [(usual[each.category, each.kind, each.known], each) for each in own]
            low = [(old, new) for old, new in pairs if old.same < _LOW]
            high = [new.same for old, new in pairs if old.same >= _LOW]
            others = [
                (old.others, new.others)
                for old, new in pairs
                if old.others is not None and new.others is not None
            ]
            yield KnownRow(
                known=f"{known} planted" if planted else str(known),
                way=way,
                low=_mean([new.same for _, new in low]),
                gain=_mean([new.same - old.same for old, new in low]),
                high=_mean(high),
                others=_mean([new for _, new in others]),
                lost=_mean([new - old for old, new in others]),
                auroc=_mean([new.auroc for _, new in pairs]),
                flagged=_by_category(own, "flagged"),
                promised=_by_category(own, "promised"),
                kinds=f"{len(low)} of {len(pairs)}",
            )


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else float("nan")


def _by_category(trials: Sequence[KindTrial], name: str) -> float:
    """Average over the kinds of a category first: good images are its own."""
    values: dict[str, list[float]] = {}
    for each in trials:
        values.setdefault(each.category, []).append(getattr(each, name))
    return _mean([_mean(own) for own in values.values()])


@dataclass(frozen=True, kw_only=True)
class KnownCategoryRow:
    """What five known defects of its kinds do for a category."""

    category: str = field(metadata=column("category"))
    same: float = field(metadata=column("recall of the kind"))
    same_after: float = field(metadata=column("after"))
    others: float | None = field(metadata=column("of other kinds"))
    others_after: float | None = field(metadata=column("after"))
    flagged: float = field(metadata=column("good flagged"))
    flagged_after: float = field(metadata=column("after"))


def by_category(trials: Sequence[KindTrial], *, known: int, way: str) -> Iterator[KnownCategoryRow]:
    """Make a row for each category, with one way."""
    for category in dict.fromkeys(each.category for each in trials):
        own = [each for each in trials if (each.category, each.known) == (category, known)]
        own = [each for each in own if each.kind != PLANTED]
        old, new = ([each for each in own if each.way == name] for name in ("none", way))
        if not new:
            continue
        apart = [each.others for each in old if each.others is not None]
        after = [each.others for each in new if each.others is not None]
        yield KnownCategoryRow(
            category=category,
            same=_mean([each.same for each in old]),
            same_after=_mean([each.same for each in new]),
            others=_mean(apart) if apart else None,
            others_after=_mean(after) if after else None,
            flagged=_mean([each.flagged for each in old]),
            flagged_after=_mean([each.flagged for each in new]),
        )


@click.command()
@click.argument("data", type=FOLDER, nargs=-1, required=True)
@click.option("--known", "counts", type=int, multiple=True, default=COUNTS, show_default=True)
@click.option("--draws", type=click.IntRange(1), default=5, show_default=True)
@click.option("--weights", help="Backbone weights; found as in `edgeseg fit` when absent.")
@click.option("--category", "only", multiple=True, help="These alone; all by default.")
@click.option("--out", type=FOLDER, required=True, help="Folder of the report and its units.")
@click.option("--fresh", is_flag=True, help="Forget earlier results.")
def main(
    data: tuple[Path, ...],
    counts: tuple[int, ...],
    draws: int,
    weights: str | None,
    only: tuple[str, ...],
    out: Path,
    fresh: bool,
) -> None:
    """Learn from some known defects of every category of folders laid out as MVTec AD."""
    config = FitConfig()
    try:
        folders = [path for root in data for path in categories_in(root)]
        datasets = [open_limited(path, limit=None) for path in folders]
        units = [
            Unit(
                name=dataset.name,
                settings={
                    "config": config.to_dict(),
                    "data": fingerprint(dataset),
                    "known": list(counts),
                    "draws": draws,
                    "weights": weights,
                },
                run=partial(run_category, dataset, config, counts, draws, weights),
            )
            for dataset in datasets
            if not only or dataset.name in only
        ]
        done = run_units(units, Store(out, fresh=fresh), note=note)
    except EdgesegError as error:
        raise click.ClickException(str(error)) from None
    write_known(
        done.results, out, facts={"commits": list(done.commits), "work_seconds": done.seconds}
    )


def write_known(results: Mapping[str, Result], out: Path, *, facts: Result) -> None:
    """Write the report of all trials."""
    trials = [
        record(KindTrial, each)
        for name, result in results.items()
        if FAILED not in result
        for each in result["trials"]
    ]
    tables = [
        table_of(
            "Known defects by ways to learn from them",
            list(summary(trials)),
            note="Means over kinds; alarms over categories. Image AUROC is of the first score.",
        ),
        table_of(
            "Five known defects by category",
            list(by_category(trials, known=5, way="directions (ships)")),
            note="Means over the kinds that have more than five pictures.",
        ),
    ]
    report = Report(
        name="known",
        title="What known defects are worth",
        findings=(),
        tables=tuple(tables),
        figures=(),
        facts=describe(threads=torch.get_num_threads(), seeds=(0,)) | facts,
        raw=dict(results),
    )
    write_report(report, out)
    for table in tables:
        click.echo(table.markdown())
    click.echo(f"wrote {out / 'report.md'}", err=True)


if __name__ == "__main__":
    main()
