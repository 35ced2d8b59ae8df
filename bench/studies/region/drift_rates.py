"""How often the drift watch warns: of moved light, focus and cameras, and of defects.

python -m edgeseg.bench.studies.region.drift_rates DATA --category grid --category screw \
    --out drift.json
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import numpy as np
import torch
from numpy.typing import NDArray

from edgeseg.artefact.artefact import Artefact
from edgeseg.bench.studies.line.disturb import Disturbance, Frame, disturbances
from edgeseg.config import FitConfig
from edgeseg.contract.images import write_image
from edgeseg.contract.metadata import DriftBaseline
from edgeseg.contract.prediction import above
from edgeseg.data.datasets import Dataset, open_dataset, read_sample
from edgeseg.files import size_text, write_json
from edgeseg.fitting.fitting import FitOptions, fit
from edgeseg.runtime.drift.watch import DriftWatch

WHOLE_HW, MARGIN = (256, 256), 16
SIZE_HW = (WHOLE_HW[0] - 2 * MARGIN, WHOLE_HW[1] - 2 * MARGIN)
WINDOW = 200  # frames; the default of the runtime
BEFORE, AFTER = 300, 400  # frames of a stream before and after something happens
STREAMS = 20
BATCH = 8


@dataclass(frozen=True, kw_only=True)
class Pool:
    """Images, and what the model says of them."""

    frames: tuple[Frame, ...]
    grids: NDArray[np.float32]  # (n, h, w)
    alarms: NDArray[np.bool_]  # (n,): score above the threshold


@dataclass(frozen=True, kw_only=True)
class Rate:
    """How the watch took one kind of stream."""

    category: str
    family: str
    strength: str
    streams: int
    warned: float  # share of streams with a warning
    named: float | None  # share of the warned ones whose kind was right; None: there is no right
    frames_to_warning: float | None  # median
    alarm_rate: float  # share of the frames after the change whose score is above the threshold
    found: float | None  # share of defective images above the threshold under the same change


def inside(whole: Frame) -> Frame:
    """What the camera sees: a margin is left for it to move, so that a shift shows real image."""
    return np.ascontiguousarray(whole[MARGIN:-MARGIN, MARGIN:-MARGIN])


def fit_inside(dataset: Dataset, config: FitConfig, *, weights: str | None) -> Artefact:
    """Fit on the inside of a dataset's good images."""
    with TemporaryDirectory() as folder:
        samples = []
        for index, sample in enumerate(dataset.train):
            path = Path(folder) / f"{index:05d}.png"
            write_image(path, inside(read_sample(sample, WHOLE_HW)[0]))
            samples.append(replace(sample, image=path))
        options = FitOptions(weights=weights, keep_moments=False)
        return fit(replace(dataset, train=tuple(samples)), config, options)


class Bench:
    """One category: a model fitted on its good images, and streams made of its test images."""

    def __init__(
        self,
        category: Path,
        *,
        config: FitConfig,
        weights: str | None = None,
        seed: int = 0,
        streams: int = STREAMS,
    ) -> None:
        self.name, self._rng = category.name, np.random.default_rng(seed)
        self._streams = streams
        dataset = open_dataset(category)
        artefact = fit_inside(dataset, replace(config, size_hw=SIZE_HW), weights=weights)
        self._threshold = artefact.calibration.score_threshold
        self._model = artefact.model()
        self._baseline = baseline_of(artefact)
        whole = [(sample.label, read_sample(sample, WHOLE_HW)[0]) for sample in dataset.test]
        self._good = [frame for label, frame in whole if label == 0]
        self._bad = [frame for label, frame in whole if label == 1]
        self.good, self.bad = self.score(self._good), self.score(self._bad)

    @torch.no_grad()
    def score(self, whole: Sequence[Frame]) -> Pool:
        """Run the reference model on the inside of whole images."""
        frames = [inside(frame) for frame in whole]
        grids, scores = [], []
        for start in range(0, len(frames), BATCH):
            batch = torch.from_numpy(np.stack(frames[start : start + BATCH]))
            _, score, grid = self._model(batch)
            grids.append(grid.numpy())
            scores.append(score.numpy())
        alarms = above(np.concatenate(scores), self._threshold)
        return Pool(frames=tuple(frames), grids=np.concatenate(grids), alarms=alarms)

    def undisturbed(self) -> Iterator[Rate]:
        """Streams that should not warn: good parts, and good and defective ones."""
        good = [self._any(self.good)] * self._streams
        yield self._rate("good parts", "", good)
        yield self._rate("one good part stays", "", self._each(self.good))
        for share in (0.1, 0.3, 0.5, 1.0):
            mixed = [self._mixed(share)] * self._streams
            yield self._rate("defects", f"{share:.0%} of parts", mixed)
        yield self._rate("one defective part stays", "", self._each(self.bad))

    def disturbed(self, change: Disturbance) -> Rate:
        """Streams of good parts in which something happens to the camera or the light."""
        good = self.score([change.apply(frame) for frame in self._good])
        bad = self.score([change.apply(frame) for frame in self._bad])
        return self._rate(
            change.family,
            change.strength,
            [self._any(good)] * self._streams,
            kind=change.expected_kind,
            caught=float(bad.alarms.mean()),
        )

    def _each(self, pool: Pool) -> list["Pick"]:
        """A part that stays in view: the same frame again and again, a stream for each part."""
        return [lambda i=i: (pool, i) for i in range(len(pool.frames))]  # type: ignore[misc]

    def _any(self, pool: Pool) -> "Pick":
        return lambda: (pool, int(self._rng.integers(len(pool.frames))))

    def _mixed(self, share: float) -> "Pick":
        good, bad = self._any(self.good), self._any(self.bad)
        return lambda: (bad if self._rng.random() < share else good)()

    def _stream(self, pick: "Pick") -> tuple[str | None, int, float]:
        """Good frames, then what `pick` gives: the kind warned of, when, and the alarm rate."""
        watch = DriftWatch(self._baseline, window=WINDOW)
        before = self._any(self.good)
        kind, first, alarms = None, 0, 0
        for position in range(BEFORE + AFTER):
            pool, index = before() if position < BEFORE else pick()
            alarm = bool(pool.alarms[index])
            state = watch.update(pool.grids[index], anomalous=alarm, frame_hwc=pool.frames[index])
            alarms += alarm and position >= BEFORE
            if state.level == "warn":
                first = first or position - BEFORE + 1
                kind = state.kind  # as the page would show it at the end
        return kind, first, alarms / AFTER

    def _rate(
        self,
        family: str,
        strength: str,
        picks: Sequence["Pick"],
        *,
        kind: str | None = None,
        caught: float | None = None,
    ) -> Rate:
        streams = [self._stream(pick) for pick in picks]
        warned = [stream for stream in streams if stream[0] is not None]
        right = [guess == kind for guess, _, _ in warned]
        return Rate(
            category=self.name,
            family=family,
            strength=strength,
            streams=len(streams),
            warned=len(warned) / len(streams),
            named=float(np.mean(right)) if kind is not None and warned else None,
            frames_to_warning=float(np.median([s[1] for s in warned])) if warned else None,
            alarm_rate=float(np.mean([alarms for _, _, alarms in streams])),
            found=caught,
        )


Pick = Callable[[], tuple[Pool, int]]


def baseline_of(artefact: Artefact) -> DriftBaseline:
    """The baseline that an export of this artefact would carry."""
    good = artefact.calibration.good
    return DriftBaseline.of(mean_hw=good.d2_mean, std_hw=good.d2_std, frame_d2=good.frame_d2)


HEAD = (
    "| category | streams | | warned | kind right | frames to warning | alarms | found |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- |"
)


def row(rate: Rate) -> str:
    """One line of Markdown."""
    named = "" if rate.named is None else f"{rate.named:.0%}"
    frames = "" if rate.frames_to_warning is None else f"{rate.frames_to_warning:.0f}"
    caught = "" if rate.found is None else f"{rate.found:.0%}"
    return (
        f"| {rate.category} | {rate.family} | {rate.strength} | {rate.warned:.0%} | {named} "
        f"| {frames} | {rate.alarm_rate:.1%} | {caught} |"
    )


@click.command()
@click.argument("data", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--category", "categories", multiple=True, required=True, help="Folder in DATA.")
@click.option("--backbone", default=FitConfig().backbone, show_default=True)
@click.option("--weights", help="Backbone weights; found as in `edgeseg fit` when absent.")
@click.option("--seed", default=0, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), help="JSON with all rates.")
def main(
    data: Path,
    categories: tuple[str, ...],
    backbone: str,
    weights: str | None,
    seed: int,
    out: Path | None,
) -> None:
    """Measure warnings of the drift watch on real images in the layout of MVTec AD."""
    rates: list[Rate] = []
    click.echo(HEAD)
    for category in categories:
        config = FitConfig(backbone=backbone)
        bench = Bench(data / category, config=config, weights=weights, seed=seed)
        for rate in chain(bench.undisturbed(), map(bench.disturbed, disturbances())):
            click.echo(row(rate))
            rates.append(rate)
    if out is not None:
        write_json(out, [asdict(rate) for rate in rates])
        click.echo(f"wrote {out}, {size_text(out.stat().st_size)}", err=True)


if __name__ == "__main__":
    main()
