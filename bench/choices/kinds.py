"""How often the kind of a found region is right, and what is said of planted changes.

python -m edgeseg.bench.choices.kinds mvtec_ad more surfaces --out kinds

Kinds: some defects of each kind are known, drawn by picture, and the others are judged as a station
judges them, by their strongest region. Changes: spots that are darker, lighter, of another colour
or blurred are planted on good test images, so that the right word is known.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import click
import numpy as np
import torch
from numpy.typing import NDArray

from edgeseg.base.errors import EdgesegError
from edgeseg.base.options import FOLDER, note
from edgeseg.bench.choices.planted_changes import CHANGES, planted_changes
from edgeseg.bench.harness.accuracy import categories_in, fingerprint, open_limited
from edgeseg.bench.harness.machine import describe
from edgeseg.bench.harness.report import Report, write_report
from edgeseg.bench.harness.tabular import column, table_of
from edgeseg.bench.harness.units import FAILED, Result, Store, Unit, run_units
from edgeseg.config import FitConfig
from edgeseg.data.datasets import Dataset, Sample, read_sample
from edgeseg.decision.explain import Explainer
from edgeseg.decision.judgement import mark_pixels, verdict_on
from edgeseg.decision.prediction import Region, regions_of
from edgeseg.fitting.fitting import FitOptions, fit
from edgeseg.fitting.known_kinds import known_rows, make_kinds, projection_of
from edgeseg.fitting.spaces import space_of
from edgeseg.model.artefact import Artefact
from edgeseg.model.predictor import FrameScorer, torch_scorer

FEWEST = 2  # kinds of a category: with one there is nothing to tell apart


@dataclass(frozen=True, kw_only=True)
class KindsRow:
    """What the kinds of one category are worth, over all draws."""

    category: str = field(metadata=column("category"))
    kinds: int = field(metadata=column("kinds"))
    judged: int = field(metadata=column("regions judged"))
    right: float = field(metadata=column("right"))
    wrong: float = field(metadata=column("wrong"))
    unknown: float = field(metadata=column("unknown"))
    stated: float = field(metadata=column("right, as the fit states it"))
    largest: float = field(metadata=column("share of the largest kind"))
    unseen: int = field(metadata=column("defects without a region"))


@dataclass(frozen=True, kw_only=True)
class ChangesRow:
    """What is said of planted spots of one change, over all categories."""

    change: str = field(metadata=column("planted"))
    found: int = field(metadata=column("found"))
    planted: int = field(metadata=column("of"))
    right: float = field(metadata=column("said so"))
    wrong: float = field(metadata=column("another change said"))
    layer: float = field(metadata=column("a layer alone"))
    nothing: float = field(metadata=column("nothing stands out"))
    other: str = field(metadata=column("most often said instead"))


@dataclass(frozen=True)
class RegionJudge:
    """A fitted model that finds regions and describes them, as a station does."""

    artefact: Artefact
    score: FrameScorer

    def strongest(
        self, input_hwc: NDArray[np.uint8]
    ) -> tuple[Region, NDArray[np.float32], NDArray[np.bool_]] | None:
        """Return the strongest region of an input, the mean z of its cells, and its pixels."""
        config, calibration = self.artefact.config, self.artefact.calibration
        prediction = self.score(input_hwc, None)
        explain = Explainer(
            map_hw=prediction.map_hw,
            apart_pk=prediction.apart_pk,
            grid_hw=config.grid_hw,
            input_hwc=input_hwc,
            kinds=None,
            reasons=self.artefact.reasons,
        )
        seen: list[NDArray[np.bool_]] = []

        def describe_region(region_hw: NDArray[np.bool_]) -> tuple[None, object]:
            seen.append(region_hw)
            return explain(region_hw)  # type: ignore[return-value]

        verdict = verdict_on(prediction.score, calibration.thresholds, map_hw=prediction.map_hw)
        marked_hw = mark_pixels(prediction, verdict, calibration.pixel_threshold)
        regions, _ = regions_of(
            prediction.map_hw,
            marked_hw,
            size_hw=config.image_hw,
            describe=describe_region,  # type: ignore[arg-type]
        )
        cells = explain.cells(seen[0]) if seen else None
        return None if cells is None else (regions[0], cells.mean(axis=0), seen[0])


def measure(
    dataset: Dataset, config: FitConfig, options: FitOptions, *, known: int, draws: int
) -> Result:
    """Fit on a category, and measure kinds and planted changes on its test images."""
    try:
        artefact = fit(dataset, config, options)
        judge = RegionJudge(artefact, torch_scorer(artefact.model(), artefact.config))
        return {
            "kinds": _kinds(dataset, judge, options, known=known, draws=draws),
            "changes": list(_changes(dataset, judge)),
        }
    except EdgesegError as error:
        return {FAILED: str(error)}


def _kinds(
    dataset: Dataset, judge: RegionJudge, options: FitOptions, *, known: int, draws: int
) -> Result | None:
    artefact = judge.artefact
    counts = Counter(str(sample.kind) for sample in dataset.test if sample.label)
    names = sorted(name for name, count in counts.items() if count > known)
    if len(names) < FEWEST:
        return None
    samples = [each for each in dataset.test if each.label and each.kind in names]
    space = space_of(artefact, options)
    rows, kinds = known_rows(space, artefact.head(), samples, options)
    found = [_found_row(judge, sample) for sample in samples]
    if artefact.moments is None:
        raise EdgesegError("the fit keeps no moments")
    projection = projection_of(space.windows.pool_moments(artefact.moments))
    tally: Counter[str] = Counter()
    stated = []
    for draw in range(draws):
        rng = np.random.default_rng([artefact.config.seed, draw])
        chosen = [
            place
            for name in names
            for place in rng.choice(
                [at for at, kind in enumerate(kinds) if kind == name], known, replace=False
            ).tolist()
        ]
        learned = make_kinds(
            rows[chosen], [kinds[place] for place in chosen], projection=projection
        )
        stated.append(learned.right / learned.tried)
        for place in set(range(len(kinds))) - set(chosen):
            row = found[place]
            if row is None:
                tally["unseen"] += 1
                continue
            guess = learned.nearest(row)
            tally["unknown" if guess.name is None else str(guess.name == kinds[place])] += 1
            tally[f"kind {kinds[place]}"] += 1
    largest = max(count for name, count in tally.items() if name.startswith("kind "))
    return {
        "names": names,
        "right": tally["True"],
        "wrong": tally["False"],
        "unknown": tally["unknown"],
        "unseen": tally["unseen"],
        "largest": largest,
        "stated": float(np.mean(stated)),
    }


def _found_row(judge: RegionJudge, sample: Sample) -> NDArray[np.float32] | None:
    config = judge.artefact.config
    seen = judge.strongest(read_sample(sample, config.image_hw, config.geometry)[0])
    return None if seen is None else seen[1]


def _changes(dataset: Dataset, judge: RegionJudge) -> Iterator[Result]:
    config = judge.artefact.config
    good = [sample for sample in dataset.test if not sample.label]
    frames = [read_sample(sample, config.image_hw, config.geometry)[0] for sample in good]
    for change, image_hwc, mask_hw in planted_changes(frames, seed=config.seed):
        seen = judge.strongest(image_hwc)
        said, layer = None, None
        hit = seen is not None and bool((seen[2] & mask_hw).any())
        if seen is not None and hit and seen[0].why is not None:
            said, layer = seen[0].why.change, seen[0].why.layer
        yield {"change": change, "found": hit, "said": said, "layer": layer}


def kinds_rows(results: dict[str, Result]) -> Iterator[KindsRow]:
    """Make a row for each category that has several kinds."""
    for category, result in results.items():
        told = result["kinds"]
        if told is None:
            continue
        judged = told["right"] + told["wrong"] + told["unknown"]
        yield KindsRow(
            category=category,
            kinds=len(told["names"]),
            judged=judged,
            right=told["right"] / judged,
            wrong=told["wrong"] / judged,
            unknown=told["unknown"] / judged,
            stated=told["stated"],
            largest=told["largest"] / judged,
            unseen=told["unseen"],
        )


def changes_rows(results: dict[str, Result]) -> Iterator[ChangesRow]:
    """Make a row for each change that was planted."""
    every = [row for result in results.values() for row in result["changes"]]
    for change in CHANGES:
        rows = [row for row in every if row["change"] == change]
        found = [row for row in rows if row["found"]]
        others = Counter(
            row["said"] for row in found if row["said"] not in (change, None)
        ).most_common(1)
        yield ChangesRow(
            change=change,
            found=len(found),
            planted=len(rows),
            right=_share(row["said"] == change for row in found),
            wrong=_share(row["said"] not in (change, None) for row in found),
            layer=_share(row["said"] is None and row["layer"] is not None for row in found),
            nothing=_share(row["said"] is None and row["layer"] is None for row in found),
            other=f"{others[0][0]} ({others[0][1]})" if others else "-",
        )


def _share(hits: Iterator[bool]) -> float:
    values = list(hits)
    return sum(values) / len(values) if values else float("nan")


@click.command()
@click.argument("data", type=FOLDER, nargs=-1, required=True)
@click.option("--known", type=click.IntRange(2), default=5, show_default=True)
@click.option("--draws", type=click.IntRange(1), default=5, show_default=True)
@click.option("--weights", help="Backbone weights; found as in `edgeseg fit` when absent.")
@click.option("--category", "only", multiple=True, help="These alone; all by default.")
@click.option("--out", type=FOLDER, required=True, help="Folder of the report and its units.")
@click.option("--fresh", is_flag=True, help="Forget earlier results.")
def main(
    data: tuple[Path, ...],
    known: int,
    draws: int,
    weights: str | None,
    only: tuple[str, ...],
    out: Path,
    fresh: bool,
) -> None:
    """Measure kinds and reasons on every category of folders laid out as MVTec AD."""
    try:
        folders = [path for root in data for path in categories_in(root)]
        opened = [open_limited(path, limit=None) for path in folders]
        datasets = [each for each in opened if not only or each.name in only]
        config, options = FitConfig(), FitOptions(weights=weights, planted=0)
        work = list(_units(datasets, config, options, known=known, draws=draws))
        done = run_units(work, Store(out, fresh=fresh), note=note)
    except EdgesegError as error:
        raise click.ClickException(str(error)) from None
    failed = {name: each[FAILED] for name, each in done.results.items() if FAILED in each}
    results = {name: each for name, each in done.results.items() if name not in failed}
    tables = (
        table_of(
            "Kinds of found regions",
            list(kinds_rows(results)),
            note=f"{known} known defects a kind, drawn {draws} times; the others are judged by the "
            "strongest region. Kinds of too few pictures are left out.",
        ),
        table_of(
            "What is said of planted changes",
            list(changes_rows(results)),
            note="Spots on good test images, by the strongest region, where it touches the spot.",
        ),
    )
    report = Report(
        name="kinds",
        title="Kinds of defects, and what is said of them",
        findings=(),
        tables=tables,
        figures=(),
        facts=describe(threads=torch.get_num_threads(), seeds=(0,))
        | {"commits": list(done.commits), "work_seconds": done.seconds},
        notes=tuple(f"{name} failed: {reason}" for name, reason in failed.items()),
        raw=done.results,
    )
    write_report(report, out)
    click.echo("\n".join(table.markdown() for table in tables))
    click.echo(f"wrote {out / 'report.md'}", err=True)


def _units(
    datasets: Sequence[Dataset], config: FitConfig, options: FitOptions, *, known: int, draws: int
) -> Iterator[Unit]:
    for dataset in datasets:
        yield Unit(
            name=dataset.name,
            settings={
                "config": config.to_dict(),
                "data": fingerprint(dataset),
                "known": known,
                "draws": draws,
                "weights": options.weights,
            },
            run=partial(measure, dataset, config, options, known=known, draws=draws),
        )


if __name__ == "__main__":
    main()
