"""What parts that move cost, and what following them saves.

python -m edgeseg.bench.studies.region.pose mvtec_ad/screw mvtec_ad/cable --out bench/results/pose

Every image is shifted and turned by poses that a seed draws, masks with it, and fitted and tested
as it then is: without help, with moments pooled over more neighbours, and located. The poses that a
locator finds are held against the planted ones, on good and on defective parts, and its steps are
timed on one core.
"""

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path

import click
import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.bench.harness.accuracy import open_limited
from edgeseg.bench.harness.machine import command, describe
from edgeseg.bench.harness.tabular import column, table_of
from edgeseg.config import AUTO, FitConfig
from edgeseg.contract.geometry import Geometry, Pose, View
from edgeseg.contract.images import read_image, read_mask, write_image
from edgeseg.data.camera import looked_at
from edgeseg.data.datasets import Dataset, Sample, open_dataset
from edgeseg.data.following import drawn, follow_error, moved
from edgeseg.errors import EdgesegError
from edgeseg.evaluation.evaluate import Evaluation, evaluate
from edgeseg.files import write_json, write_text
from edgeseg.fitting.fitting import FitOptions, fit
from edgeseg.model.predictor import torch_predictor

# How each category is found, in shares of the picture: a mark for those that do not stand out.
# Chosen on good images: with the transistor's body alone they are less alike than as they lie,
# since it moves against its board.
ANCHORS = {
    "cable": (0.12, 0.12, 0.76, 0.76),
    "transistor": (0.15, 0.1, 0.7, 0.85),
    "bracket_brown": (0.25, 0.25, 0.5, 0.5),
    "toothbrush": (0.3, 0.2, 0.4, 0.6),
    "grid": (0.25, 0.25, 0.5, 0.5),
}
_REPEATS = 50  # of a timed step


@dataclass(frozen=True, kw_only=True)
class Row:
    """One category, jitter and way to meet it."""

    category: str = field(metadata=column("category"))
    shift: int = field(metadata=column("shift, px"))
    turn: int = field(metadata=column("turn, degrees"))
    way: str = field(metadata=column("way"))
    pro: float | None = field(metadata=column("PRO", digits=4))
    image_auroc: float | None = field(metadata=column("image AUROC", digits=4))
    recall: float | None = field(metadata=column("recall", digits=3))
    false_alarms: str = field(metadata=column("good ones flagged"))
    not_found: str = field(metadata=column("not found"))
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


@dataclass(frozen=True, kw_only=True)
class Step:
    """Processor time of one step on one core, on a picture of 1920x1080."""

    step: str = field(metadata=column("step, 1920x1080"))
    ms: float = field(metadata=column("ms, median", digits=3))


def jittered(dataset: Dataset, folder: Path, *, shift: float, turn: float, seed: int) -> Dataset:
    """The dataset with every image in another pose, its masks with it; nothing moved: as it is."""
    if not shift and not turn:
        return dataset
    rng = np.random.default_rng(seed)

    def copied(sample: Sample, number: int) -> Sample:
        image = read_image(sample.image)
        pose = drawn(rng, image.shape[:2], shift, turn)
        target = folder / f"{number:05}.png"
        write_image(target, moved(image, pose))
        if sample.mask is None:
            return replace(sample, image=target)
        mask = read_mask(sample.mask).astype(np.uint8) * 255
        mask_target = folder / f"{number:05}_mask.png"
        write_image(mask_target, moved(mask, pose, nearest=True))
        return replace(sample, image=target, mask=mask_target)

    train = tuple(copied(sample, number) for number, sample in enumerate(dataset.train))
    test = tuple(copied(sample, len(train) + n) for n, sample in enumerate(dataset.test))
    return replace(dataset, train=train, test=test)


def ways(category: str, config: FitConfig, dataset: Dataset) -> Iterator[tuple[str, FitConfig]]:
    """What is compared: as it is, more pooling, and the part located."""
    height, width = read_image(dataset.train[0].image).shape[:2]
    yield "none", config
    yield "pool 5", replace(config, pool=5)
    yield "pool auto", replace(config, pool=AUTO)
    yield "blob", replace(config, geometry=Geometry(locate="blob"))
    if category in ANCHORS:
        x, y, w, h = ANCHORS[category]
        box = f"{round(x * width)},{round(y * height)},{round(w * width)},{round(h * height)}"
        anchor = Geometry(locate=f"anchor:{box},angles=10")
        yield "anchor", replace(config, geometry=anchor)


def measured(dataset: Dataset, config: FitConfig, options: FitOptions) -> Evaluation:
    """Fit and evaluate."""
    artefact = fit(dataset, config, options)
    calibration, config = artefact.calibration, artefact.config
    return evaluate(
        torch_predictor(artefact.model()),
        dataset,
        size_hw=config.image_hw,
        geometry=config.geometry,
        grid_hw=config.grid_hw,
        threshold=calibration.score_threshold,
        pixel_threshold=calibration.pixel_threshold,
        threshold_method=calibration.method,
    )


def rows(
    dataset: Dataset,
    config: FitConfig,
    options: FitOptions,
    *,
    category: str,
    jitters: Sequence[tuple[int, int]],
    seed: int,
) -> Iterator[Row]:
    """Every jitter in every way."""
    for shift, turn in jitters:
        with tempfile.TemporaryDirectory(prefix="edgeseg-") as folder:
            moving = jittered(dataset, Path(folder), shift=shift, turn=turn, seed=seed)
            for way, settings in ways(category, config, moving):
                row = Row(
                    category=category,
                    shift=shift,
                    turn=turn,
                    way=way,
                    pro=None,
                    image_auroc=None,
                    recall=None,
                    false_alarms="-",
                    not_found="-",
                )
                try:
                    result = measured(moving, settings, options)
                except EdgesegError as error:  # that parts cannot be found is a result too
                    yield replace(row, error=str(error).partition(";")[0])
                    continue
                good = result.images - result.anomalies
                yield replace(
                    row,
                    pro=result.pro,
                    image_auroc=result.image_auroc,
                    recall=result.recall,
                    false_alarms=f"{result.false_alarms} of {good}",
                    not_found=f"{result.not_found} of {result.images}",
                )


def pose_errors(
    dataset: Dataset, config: FitConfig, *, category: str, shift: float, turn: float, seed: int
) -> Iterator[PoseError]:
    """What locators find of planted poses, on good and on defective parts."""
    for way, settings in ways(category, config, dataset):
        if not settings.geometry.locate:
            continue
        try:
            geometry = looked_at(settings, dataset).geometry
        except EdgesegError:  # the other table says so
            continue
        rng = np.random.default_rng(seed)
        for label, name in enumerate(("good", "defective")):
            samples = [sample for sample in dataset.test if sample.label == label]
            images = [read_image(sample.image) for sample in samples]
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
                images=len(samples),
                p50=p50,
                p90=p90,
                worst=worst,
                not_found=1 - len(errors) / max(len(samples), 1),
            )


def steps(geometries: dict[str, Geometry], image: NDArray[np.uint8]) -> Iterator[Step]:
    """Locating, and the resampling with and without a pose, as thread time on one core."""
    cv2.setNumThreads(1)
    frame_hw = image.shape[:2]
    large = cv2.resize(image, (1920, 1080)).astype(np.uint8, copy=False)
    scale = (1920 / frame_hw[1], 1080 / frame_hw[0])
    pose = Pose(x=970.0, y=530.0, degrees=7.0, home_xy=(960.0, 540.0))
    plain = View(frame_hw=(1080, 1920), size_hw=(256, 256))
    yield Step(step="resize to 256x256", ms=_ms(lambda: plain.picture(large)))
    turned = replace(plain, pose=pose)
    yield Step(step="pose and resize in one", ms=_ms(lambda: turned.picture(large)))
    for way, geometry in geometries.items():
        locate = geometry.locate
        if locate.startswith("anchor"):
            box, _, angles = locate.removeprefix("anchor:").partition(",angles=")
            x, y, w, h = (int(part) for part in box.split(","))
            grown = [round(v * s) for v, s in zip((x, y, w, h), scale * 2, strict=True)]
            locate = f"anchor:{','.join(map(str, grown))},angles={angles}"
        with tempfile.TemporaryDirectory(prefix="edgeseg-") as folder:
            for number in range(3):
                write_image(Path(folder) / f"{number}.png", large)
            learned = looked_at(
                FitConfig(geometry=Geometry(locate=locate)), open_dataset(Path(folder))
            ).geometry
        yield Step(step=f"find by {way}", ms=_ms(partial(learned.find, large)))


def _ms(run: Callable[[], object]) -> float:
    """Median of the thread's own time: others may use the machine."""
    taken = []
    for _ in range(_REPEATS):
        begin = time.thread_time()
        run()
        taken.append(1e3 * (time.thread_time() - begin))
    return float(np.median(taken))


@click.command()
@click.argument("data", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--jitter", "jitters", default="0/0,16/10", show_default=True, help="PX/DEGREES,...")
@click.option("--backbone", default=FitConfig.backbone, show_default=True)
@click.option("--weights", help="Backbone weights; found as in `edgeseg fit` when absent.")
@click.option("--seed", default=0, show_default=True, help="Of the poses.")
@click.option("--limit", type=click.IntRange(4), help="Images of each kind, for a rehearsal.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder.")
def main(
    data: tuple[Path, ...],
    jitters: str,
    backbone: str,
    weights: str | None,
    seed: int,
    limit: int | None,
    out: Path,
) -> None:
    """Measure categories DATA, each a folder as MVTec AD lays it out, under planted jitter."""
    config = FitConfig(backbone=backbone)
    options = FitOptions(weights=weights, keep_moments=False, planted=0)
    pairs = [_pair(text) for text in jitters.split(",")]
    most = (max(shift for shift, _ in pairs), max(turn for _, turn in pairs))
    table_rows: list[Row] = []
    errors: list[PoseError] = []
    times: list[Step] = []
    for path in data:
        dataset = open_limited(path, limit=limit)
        errors += pose_errors(
            dataset, config, category=path.name, shift=most[0], turn=most[1], seed=seed
        )
        for row in rows(dataset, config, options, category=path.name, jitters=pairs, seed=seed):
            click.echo(f"{row.category} {row.shift}/{row.turn} {row.way}: PRO {row.pro}", err=True)
            table_rows.append(row)
            _write(out, table_rows, errors, times, limit=limit)
        if not times:
            located = {way: at.geometry for way, at in ways(path.name, config, dataset)}
            finders = {way: geometry for way, geometry in located.items() if geometry.locate}
            times += steps(finders, read_image(dataset.train[0].image))
    _write(out, table_rows, errors, times, limit=limit)
    click.echo(f"wrote {out / 'report.md'}", err=True)


def _pair(text: str) -> tuple[int, int]:
    shift, _, turn = text.partition("/")
    return int(shift), int(turn)


def _write(
    out: Path,
    measured_rows: list[Row],
    errors: list[PoseError],
    times: list[Step],
    *,
    limit: int | None,
) -> None:
    """After every row: a study of hours that is stopped keeps what it has."""
    values = {
        "rows": [asdict(row) for row in measured_rows],
        "pose_errors": [asdict(row) for row in errors],
        "steps": [asdict(row) for row in times],
        "machine": describe(threads=1),
        "command": command(),
    }
    write_json(out / "report.json", values)
    tables = [table_of("Accuracy under jitter", measured_rows)]
    if errors:
        tables.append(table_of("Found poses against planted ones", errors))
    if times:
        tables.append(table_of("Steps", times))
    cut = "" if limit is None else f" A rehearsal on {limit} images of each kind."
    head = f"# Parts that move\n\n`{values['command']}`{cut}\n\n"
    write_text(out / "report.md", head + "\n\n".join(table.markdown() for table in tables) + "\n")


if __name__ == "__main__":
    main()
