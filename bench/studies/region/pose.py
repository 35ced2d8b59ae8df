"""What parts that move cost, and what following them saves.

python -m edgeseg.bench.studies.region.pose mvtec_ad/screw mvtec_ad/cable --out bench/results/pose
python -m edgeseg.bench.studies.region.pose mvtec_ad/* more/* --pools --out bench/results/pools

Every image is shifted and turned by poses that a seed draws, masks with it, and fitted and tested
as it then is: without help, with moments pooled over more neighbours, and located. The poses that a
locator finds are held against the planted ones, on good and on defective parts, and its steps are
timed on one core. A run that is stopped goes on where it was; the report is of what there is.
"""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch

from edgeseg.bench.harness.accuracy import open_limited
from edgeseg.bench.harness.machine import command, describe
from edgeseg.bench.harness.tabular import column, table_of
from edgeseg.bench.harness.units import Result, Store, Unit, run_units
from edgeseg.bench.studies.region.jitter import Jitter, jittered, views, ways
from edgeseg.bench.studies.region.locating_time import Step, steps
from edgeseg.bench.studies.region.shared_features import evaluated
from edgeseg.config import FitConfig
from edgeseg.contract.geometry import Geometry
from edgeseg.contract.images import read_image
from edgeseg.data.datasets import Dataset
from edgeseg.errors import EdgesegError
from edgeseg.evaluation.evaluate import Evaluation
from edgeseg.files import write_json, write_text
from edgeseg.fitting.fitting import FitOptions
from edgeseg.fitting.locator.following import drawn, follow_error
from edgeseg.fitting.spaces import settle_geometry

JITTERS = ",".join(f"{shift}/{turn}" for shift in (0, 16, 8, 4) for turn in (0, 10, 5))


@dataclass(frozen=True, kw_only=True)
class Row:
    """One category, jitter and way to meet it."""

    category: str = field(metadata=column("category"))
    shift: int = field(metadata=column("shift, px"))
    turn: int = field(metadata=column("turn, degrees"))
    way: str = field(metadata=column("way"))
    pool: int | None = field(default=None, metadata=column("pool"))
    pro: float | None = field(default=None, metadata=column("PRO", digits=4))
    pro_05: float | None = field(default=None, metadata=column("PRO 0.05", digits=4))
    image_auroc: float | None = field(default=None, metadata=column("image AUROC", digits=4))
    recall: float | None = field(default=None, metadata=column("caught", digits=3))
    scored: float | None = field(default=None, metadata=column("of these by score", digits=3))
    false_alarms: str = field(default="-", metadata=column("good ones flagged"))
    f1: float | None = field(default=None, metadata=column("F1"))
    not_found: str = field(default="-", metadata=column("good, defective not found"))
    error: str = field(default="", metadata=column("refused"))


@dataclass(frozen=True, kw_only=True)
class PoseError:
    """Farthest corner of the picture from where the planted pose puts it, in pixels."""

    category: str = field(metadata=column("category"))
    way: str = field(metadata=column("way"))
    parts: str = field(metadata=column("parts"))
    images: int = field(metadata=column("images"))
    p50: float | None = field(metadata=column("p50", digits=2))
    p90: float | None = field(metadata=column("p90", digits=2))
    worst: float | None = field(metadata=column("worst", digits=2))
    not_found: float = field(metadata=column("share not found", digits=3))


def rows(
    dataset: Dataset,
    config: FitConfig,
    options: FitOptions,
    *,
    category: str,
    view: str,
    jitter: Jitter,
    seed: int,
    pools: bool = False,
) -> Iterator[Row]:
    """One jitter in all ways that share a view."""
    shift, turn = jitter
    with tempfile.TemporaryDirectory(prefix="edgeseg-") as folder:
        moving = jittered(dataset, Path(folder), shift=shift, turn=turn, seed=seed)
        compared = ways(view, config, pools=pools)
        blank = [Row(category=category, shift=shift, turn=turn, way=way) for way in compared]
        try:
            for row, (_, artefact, result) in zip(
                blank, evaluated(moving, compared, options), strict=True
            ):
                yield _filled(row, result, pool=int(artefact.config.pool))
        except EdgesegError as error:  # that parts cannot be found is a result too
            yield replace(blank[0], error=str(error).partition(";")[0])


def _filled(row: Row, result: Evaluation, *, pool: int) -> Row:
    verdicts = list(zip(result.labels, result.verdicts, strict=True))
    good, bad = ([verdict for at, verdict in verdicts if at == label] for label in (0, 1))
    lost = [f"{each.count('not_found')} of {len(each)}" for each in (good, bad)]
    return replace(
        row,
        pool=pool,
        pro=result.pro,
        pro_05=result.figures["pro_05"],
        image_auroc=result.image_auroc,
        recall=result.recall,
        scored=bad.count("defect") / len(bad) if bad else None,
        false_alarms=f"{result.false_alarms} of {len(good)}",
        f1=result.f1,
        not_found=", ".join(lost),
    )


def pose_errors(
    dataset: Dataset, config: FitConfig, *, category: str, shift: float, turn: float, seed: int
) -> Iterator[PoseError]:
    """What locators find of planted poses, on good and on defective parts."""
    for way, where in located(category, dataset).items():
        try:
            geometry = settle_geometry(replace(config, geometry=where), dataset).geometry
        except EdgesegError:  # the other table says so
            continue
        rng = np.random.default_rng(seed)
        for label, name in enumerate(("good", "defective")):
            images = [read_image(each.image) for each in dataset.test if each.label == label]
            found = [
                follow_error(geometry, image, drawn(rng, image.shape[:2], shift, turn))
                for image in images
            ]
            errors = [error for error in found if error is not None]
            p50, p90, worst = np.quantile(errors, (0.5, 0.9, 1.0)) if errors else (None,) * 3
            yield PoseError(
                category=category,
                way=way,
                parts=name,
                images=len(images),
                p50=p50,
                p90=p90,
                worst=worst,
                not_found=1 - len(errors) / max(len(images), 1),
            )


def located(category: str, dataset: Dataset) -> dict[str, Geometry]:
    """The views that follow parts."""
    size_hw = read_image(dataset.train[0].image).shape[:2]
    return {view: where for view, where in views(category, size_hw) if where.locate}


@dataclass(frozen=True, kw_only=True)
class Study:
    """What is measured, as units that can be stopped."""

    folders: tuple[Path, ...]
    jitters: tuple[Jitter, ...]
    config: FitConfig
    options: FitOptions
    seed: int
    limit: int | None
    pools: bool

    def units(self) -> list[Unit]:
        """The largest jitter first: what there is of a stopped run should tell most."""
        units = []
        for jitter in self.jitters:
            for folder in self.folders:
                for view, where in self._views(folder):
                    run = partial(self._rows, folder, view, where, jitter)
                    settings = {"jitter": list(jitter), "where": where.locate}
                    name = f"{folder.name} {jitter[0]}/{jitter[1]} {view}"
                    units.append(self._unit(name, settings, run))
        if not self.pools:
            units += [
                self._unit(f"{folder.name} poses", {}, partial(self._poses, folder))
                for folder in self.folders
            ]
            units.append(self._unit("steps", {}, self._steps))
        return units

    def _unit(self, name: str, settings: Result, run: Any) -> Unit:
        common = {"backbone": self.config.backbone, "seed": self.seed, "limit": self.limit}
        return Unit(name=name, settings=common | {"pools": self.pools} | settings, run=run)

    def _views(self, folder: Path) -> list[tuple[str, Geometry]]:
        size_hw = read_image(self._open(folder).train[0].image).shape[:2]
        found = list(views(folder.name, size_hw))
        return found[:1] if self.pools else found

    def _open(self, folder: Path) -> Dataset:
        return open_limited(folder, limit=self.limit)

    def _rows(self, folder: Path, view: str, where: Geometry, jitter: Jitter) -> Result:
        made = rows(
            self._open(folder),
            replace(self.config, geometry=where),
            self.options,
            category=folder.name,
            view=view,
            jitter=jitter,
            seed=self.seed,
            pools=self.pools,
        )
        return {"rows": [asdict(row) for row in made]}

    def _poses(self, folder: Path) -> Result:
        shift, turn = (max(values) for values in zip(*self.jitters, strict=True))
        errors = pose_errors(
            self._open(folder),
            self.config,
            category=folder.name,
            shift=shift,
            turn=turn,
            seed=self.seed,
        )
        return {"pose_errors": [asdict(error) for error in errors]}

    def _steps(self) -> Result:
        made: dict[str, Step] = {}
        for folder in self.folders:
            dataset = self._open(folder)
            finders = {
                f"{view}, {folder.name}": where
                for view, where in located(folder.name, dataset).items()
            }
            for step in steps(finders, read_image(dataset.train[0].image)):
                made.setdefault(step.step, step)
        return {"steps": [asdict(step) for step in made.values()]}


_TABLES = {
    "rows": ("Accuracy under jitter", Row),
    "pose_errors": ("Found poses against planted ones", PoseError),
    "steps": ("Steps", Step),
}


def write_report(out: Path, store: Store, units: Sequence[Unit], *, limit: int | None) -> None:
    """All that is there: a study of hours that is stopped keeps what it has."""
    records = [record for unit in units if (record := store.get(unit)) is not None]
    values: dict[str, Any] = {
        key: [row for record in records for row in record["result"].get(key, ())] for key in _TABLES
    }
    head = f"# Parts that move\n\n`{command()}`"
    if limit is not None:
        head += f" A rehearsal on {limit} images of each kind."
    if len(records) < len(units):
        head += f" {len(records)} of {len(units)} pieces of work are done."
    tables = [
        table_of(title, [kind(**row) for row in values[key]])
        for key, (title, kind) in _TABLES.items()
        if values[key]
    ]
    facts = {"machine": describe(threads=torch.get_num_threads()), "command": command()}
    write_json(out / "report.json", values | facts)
    text = "\n\n".join(table.markdown() for table in tables)
    write_text(out / "report.md", f"{head}\n\n{text}\n")


@click.command()
@click.argument("data", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--jitter", "jitters", default=JITTERS, show_default=True, help="PX/DEGREES,...")
@click.option("--pools", is_flag=True, help="Compare pool 1, 3, 5 and auto, and nothing else.")
@click.option("--backbone", default=FitConfig.backbone, show_default=True)
@click.option("--weights", help="Backbone weights; found as in `edgeseg fit` when absent.")
@click.option("--seed", default=0, show_default=True, help="Of the poses.")
@click.option("--limit", type=click.IntRange(4), help="Images of each kind, for a rehearsal.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder.")
def main(
    data: tuple[Path, ...],
    jitters: str,
    pools: bool,
    backbone: str,
    weights: str | None,
    seed: int,
    limit: int | None,
    out: Path,
) -> None:
    """Measure categories DATA, each a folder as MVTec AD lays it out, under planted jitter."""
    torch.set_num_threads(1)
    study = Study(
        folders=data,
        jitters=tuple(_pair(text) for text in jitters.split(",")),
        config=FitConfig(backbone=backbone),
        options=FitOptions(weights=weights, keep_moments=False, planted=0),
        seed=seed,
        limit=limit,
        pools=pools,
    )
    store, units = Store(out), study.units()

    def note(text: str) -> None:
        click.echo(text, err=True)
        write_report(out, store, units, limit=limit)

    run_units(units, store, note=note)
    write_report(out, store, units, limit=limit)
    click.echo(f"wrote {out / 'report.md'}", err=True)


def _pair(text: str) -> Jitter:
    shift, _, turn = text.partition("/")
    return int(shift), int(turn)


if __name__ == "__main__":
    main()
