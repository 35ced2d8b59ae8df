"""How often a frame that is not this part is called invalid, and how often a defect is.

python -m edgeseg.bench.studies.decide.foreign mvtec_ad more --video video --out foreign

Each category's model is shown its own test images, good images of every other category, frames of
fixed cameras and its own good images with a covered lens. Each clip gets a model of its empty
frames, which is shown its occupied ones: something in view is local, and no foreign frame.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import click
import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from edgeseg.artefact.artefact import Artefact
from edgeseg.bench.harness.accuracy import categories_in, fingerprint, open_limited
from edgeseg.bench.harness.machine import describe
from edgeseg.bench.harness.report import Report, write_report
from edgeseg.bench.harness.tabular import Table, column, table_of
from edgeseg.bench.harness.units import Result, Store, Unit, run_units
from edgeseg.bench.studies.decide.trial import FeatureMemory, remembering
from edgeseg.config import FitConfig
from edgeseg.contract.appearance import appearance_of
from edgeseg.contract.foreign import map_floor
from edgeseg.contract.group_by import GroupBy
from edgeseg.contract.judgement import verdict_on
from edgeseg.data.datasets import Dataset, read_sample
from edgeseg.data.in_memory import open_data
from edgeseg.errors import EdgesegError, UsageError
from edgeseg.fitting.fitting import FitOptions, fit_in
from edgeseg.model.predictor import torch_predictor
from edgeseg.options import FOLDER, note

Frame = NDArray[np.uint8]
SHOWN = 10  # good images of a category that other models see
CLIP_FRAMES = 48  # of each clip, evenly spaced
EMPTY, OCCUPIED = 0.5, 0.25  # shares of them: those most and least like the clip's median
_BATCH = 8


def _covered(change: Callable[[Frame], Any]) -> Callable[[Frame], Frame]:
    return lambda frame: np.ascontiguousarray(change(frame), np.uint8)


def _half(frame: Frame) -> Frame:
    covered: Frame = frame.copy()
    covered[len(frame) // 2 :] = 0
    return covered


def _border(frame: Frame) -> Any:
    """An empty belt: the colour of the picture's border everywhere."""
    around = np.concatenate([frame[:8].reshape(-1, 3), frame[:, :8].reshape(-1, 3)])
    return np.broadcast_to(np.median(around, axis=0), frame.shape)


LENSES: dict[str, Callable[[Frame], Frame]] = {
    "black": _covered(np.zeros_like),
    "grey": _covered(lambda frame: np.full_like(frame, 128)),
    "white": _covered(lambda frame: np.full_like(frame, 250)),
    "blur, sigma 8": _covered(lambda frame: cv2.GaussianBlur(frame, (0, 0), 8)),
    "blur, sigma 20": _covered(lambda frame: cv2.GaussianBlur(frame, (0, 0), 20)),
    "a fifth of the light": _covered(lambda frame: frame * 0.2),
    "lower half black": _half,
    "only the border's colour": _covered(_border),
}


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What a model said of some frames."""

    model: str
    frames: str
    kind: str  # own good, own defects, other category, clip, lens, occupied
    verdicts: dict[str, int]
    by_map: dict[str, int] = field(default_factory=dict)  # without brightness and sharpness
    lowest: float  # floor, in units of the limit
    highest: float

    @property
    def count(self) -> int:
        """How many frames there were."""
        return sum(self.verdicts.values())

    def share(self, verdict: str) -> float:
        """Of the frames."""
        return self.verdicts.get(verdict, 0) / self.count


class Judge:
    """A fitted model that gives verdicts on frames of its size."""

    def __init__(self, artefact: Artefact) -> None:
        self.thresholds = artefact.calibration.thresholds
        if self.thresholds.foreign is None:
            raise UsageError("the model knows no limit of foreign frames; fit on more images")
        self.limit = self.thresholds.foreign
        self._predict = torch_predictor(artefact.model())

    def shown(self, model: str, frames: str, kind: str, pictures: Sequence[Frame]) -> Shown:
        """Let it judge these pictures."""
        verdicts: Counter[str] = Counter()
        by_map: Counter[str] = Counter()
        floors: list[float] = []
        for start in range(0, len(pictures), _BATCH):
            batch = np.stack(pictures[start : start + _BATCH])
            maps, scores = self._predict(batch)
            for frame, map_hw, score in zip(batch, maps, scores.tolist(), strict=True):
                by_map[verdict_on(score, self.thresholds, map_hw=map_hw)] += 1
                looks = appearance_of(frame)
                verdict = verdict_on(score, self.thresholds, map_hw=map_hw, appearance=looks)
                verdicts[verdict] += 1
                floors.append(map_floor(map_hw) / self.limit)
        return Shown(
            model=model,
            frames=frames,
            kind=kind,
            verdicts=dict(verdicts),
            by_map=dict(by_map),
            lowest=min(floors),
            highest=max(floors),
        )


def clip_frames(path: Path, size_hw: tuple[int, int]) -> list[Frame]:
    """Frames of a video, evenly spaced, at the size of the model."""
    capture = cv2.VideoCapture(str(path))
    count = int(capture.get(cv2.CAP_PROP_FRAME_COUNT))
    frames: list[Frame] = []
    for place in np.linspace(0, max(count - 2, 0), CLIP_FRAMES).astype(int):
        capture.set(cv2.CAP_PROP_POS_FRAMES, int(place))
        whole, frame = capture.read()
        if whole:
            small = cv2.resize(frame, size_hw[::-1], interpolation=cv2.INTER_AREA)
            frames.append(np.asarray(cv2.cvtColor(small, cv2.COLOR_BGR2RGB), np.uint8))
    capture.release()
    if len(frames) < CLIP_FRAMES // 2:
        raise UsageError(f"{path}: {len(frames)} frames can be read, expected a whole video")
    return frames


def empty_and_occupied(frames: Sequence[Frame]) -> tuple[list[Frame], list[Frame]]:
    """Those that are most and least like the clip's median picture."""
    stacked = np.stack(frames)
    usual = np.median(stacked, axis=0)
    apart = np.abs(stacked - usual).mean(axis=(1, 2, 3))
    order = np.argsort(apart, kind="stable")
    empty, occupied = int(EMPTY * len(frames)), int(OCCUPIED * len(frames))
    return [frames[i] for i in sorted(order[:empty])], [frames[i] for i in order[-occupied:]]


class Study:
    """Models of categories and of clips, and what each is shown."""

    def __init__(
        self,
        datasets: Sequence[Dataset],
        clips: Sequence[Path],
        *,
        config: FitConfig,
        options: FitOptions,
    ) -> None:
        self.config, self.options = config, options
        self.datasets = {dataset.name: dataset for dataset in datasets}
        self.clips = {path.stem: path for path in clips}
        self._memory = FeatureMemory()  # one for all: categories see each other's images

    def units(self) -> Iterator[Unit]:
        """One for each model."""
        common = {
            "config": self.config.to_dict(),
            "planted": self.options.planted,
            "weights": self.options.weights,
            "looks": "brightness and sharpness",  # earlier results lack them
            "data": [fingerprint(dataset) for dataset in self.datasets.values()],
            "clips": [[name, path.stat().st_size] for name, path in self.clips.items()],
        }
        for name in self.datasets:
            run = partial(_records, partial(self.of_category, name))
            yield Unit(name=f"category {name}", settings=common, run=run, weight=3)
        for name in self.clips:
            run = partial(_records, partial(self.of_clip, name))
            yield Unit(name=f"clip {name}", settings=common, run=run)

    def of_category(self, name: str) -> Iterator[Shown]:
        """A category's model, and all that it is shown."""
        dataset = self.datasets[name]
        judge = self._judge(dataset)
        good, bad = self._test(name, label=0), self._test(name, label=1)
        yield judge.shown(name, "test, good", "own good", good)
        yield judge.shown(name, "test, defective", "own defects", bad)
        for other in self.datasets:
            if other != name:
                pictures = self._test(other, label=0)[:SHOWN]
                yield judge.shown(name, other, "other category", pictures)
        for clip in self.clips:
            yield judge.shown(name, clip, "clip", self._clip(clip)[:: CLIP_FRAMES // SHOWN])
        for lens, cover in LENSES.items():
            pictures = [cover(frame) for frame in good[:SHOWN]]
            yield judge.shown(name, lens, "lens", pictures)

    def of_clip(self, name: str) -> Iterator[Shown]:
        """A model of a clip's empty frames: half of them to fit on, the others to show."""
        empty, occupied = empty_and_occupied(self._clip(name))
        with open_data(empty[::2], size_hw=self.config.size_hw) as dataset:
            judge = self._judge(dataset)
        yield judge.shown(name, "empty", "own good", empty[1::2])
        yield judge.shown(name, "occupied", "occupied", occupied)
        for other in self.clips:
            if other != name:
                yield judge.shown(name, other, "other clip", self._clip(other)[::4])
        for lens, cover in LENSES.items():
            yield judge.shown(name, lens, "lens", [cover(frame) for frame in empty[1:20:2]])

    def _judge(self, dataset: Dataset) -> Judge:
        space = remembering(self.config, memory=self._memory, weights=self.options.weights)
        return Judge(fit_in(space, dataset, self.options))

    def _test(self, name: str, *, label: int) -> list[Frame]:
        samples = [each for each in self.datasets[name].test if each.label == label]
        return [read_sample(sample, self.config.size_hw)[0] for sample in samples]

    def _clip(self, name: str) -> list[Frame]:
        return clip_frames(self.clips[name], self.config.size_hw)


def _records(shown: Callable[[], Iterator[Shown]]) -> Result:
    return {"shown": [vars(each) for each in shown()]}


@dataclass(frozen=True, kw_only=True)
class Row:
    """Shares of verdicts on one kind of frames."""

    what: str = field(metadata=column("shown"))
    frames: int = field(metadata=column("frames"))
    invalid: float = field(metadata=column("invalid"))
    defect: float = field(metadata=column("defect"))
    good: float = field(metadata=column("good or unsure"))
    before: float = field(metadata=column("good by map and score alone"))
    lowest: float = field(metadata=column("lowest floor / limit", digits=2))
    highest: float = field(metadata=column("highest", digits=2))

    @classmethod
    def of(cls, what: str, parts: Sequence[Shown]) -> "Row":
        """All frames of some rows together."""
        total = sum(part.count for part in parts)

        def share(*verdicts: str, among: str = "verdicts") -> float:
            counts: list[dict[str, int]] = [getattr(part, among) for part in parts]
            return sum(count.get(each, 0) for count in counts for each in verdicts) / total

        return cls(
            what=what,
            frames=total,
            invalid=share("invalid"),
            defect=share("defect"),
            good=share("good", "unsure"),
            before=share("good", "unsure", among="by_map"),
            lowest=min(part.lowest for part in parts),
            highest=max(part.highest for part in parts),
        )


TITLES = {
    "own good": "good test images, and empty frames",
    "own defects": "real defects",
    "other category": "good images of other categories",
    "clip": "frames of the clips, to models of categories",
    "lens": "covered lenses",
    "occupied": "occupied frames, to models of the same clip's empty frames",
    "other clip": "frames of other clips",
}


def tables(shown: Sequence[Shown]) -> Iterator[Table]:
    """By kind of frames, by lens and by model."""
    kinds = [kind for kind in TITLES if any(each.kind == kind for each in shown)]
    by_kind = [
        Row.of(TITLES[kind], [each for each in shown if each.kind == kind]) for kind in kinds
    ]
    yield table_of(
        "Verdicts",
        by_kind,
        note="Floor: what three quarters of a map exceed; a frame above its limit is invalid, as "
        "one is that is far darker, brighter or more blurred than the good images.",
    )
    lenses = [
        Row.of(lens, [each for each in shown if (each.kind, each.frames) == ("lens", lens)])
        for lens in LENSES
    ]
    yield table_of("Covered lenses", lenses)
    for model in dict.fromkeys(each.model for each in shown):
        own = [each for each in shown if each.model == model]
        rows = [
            Row.of(TITLES[kind], parts)
            for kind in kinds
            if (parts := [each for each in own if each.kind == kind])
        ]
        yield table_of(f"Model of {model}", rows)


def findings(backbone: str, shown: Sequence[Shown]) -> Iterator[str]:
    """What is called invalid of each kind."""
    for kind in ("other category", "clip", "lens", "own defects", "own good"):
        parts = [each for each in shown if each.kind == kind]
        if parts:
            row = Row.of("", parts)
            share = f"{row.invalid:.1%} of {row.frames}"
            yield f"{backbone}: {share} are called invalid: {TITLES[kind]}"


@click.command()
@click.argument("data", type=FOLDER, nargs=-1, required=True)
@click.option("--video", type=FOLDER, help="Folder of clips of fixed cameras.")
@click.option("--backbone", default=FitConfig.backbone, show_default=True)
@click.option("--weights", help="Backbone weights; found as in `edgeseg fit` when absent.")
@click.option("--train", type=click.IntRange(2), help="Fit on so many images; all by default.")
@click.option("--limit", type=click.IntRange(2), help="Images of each kind, for a rehearsal.")
@click.option("--out", type=FOLDER, required=True, help="Folder of the report and its units.")
@click.option("--fresh", is_flag=True, help="Forget earlier results.")
def main(
    data: tuple[Path, ...],
    video: Path | None,
    backbone: str,
    weights: str | None,
    train: int | None,
    limit: int | None,
    out: Path,
    fresh: bool,
) -> None:
    """Show models what they were not made for."""
    config = FitConfig().with_options({"backbone": backbone})
    # Frames of a clip are near-copies: every one counts here, where no rate is promised.
    apart = GroupBy(text="none")
    options = FitOptions(weights=weights, keep_moments=False, group_by=apart)
    clips = [] if video is None else sorted(video.glob("*.mp4"))
    try:
        folders = [path for root in data for path in categories_in(root)]
        datasets = [open_limited(path, limit=limit) for path in folders]
        datasets = [replace(each, train=each.train[:train]) for each in datasets]
        study = Study(datasets, clips, config=config, options=options)
        done = run_units(list(study.units()), Store(out, fresh=fresh), note=note)
    except EdgesegError as error:
        raise click.ClickException(str(error)) from None
    shown = [Shown(**each) for result in done.results.values() for each in result["shown"]]
    report = Report(
        name="foreign",
        title="Frames that are not this part",
        findings=tuple(findings(backbone, shown)),
        tables=tuple(tables(shown)),
        figures=(),
        facts=describe(threads=torch.get_num_threads())
        | {"commits": list(done.commits), "work_seconds": done.seconds},
        raw=done.results,
    )
    write_report(report, out)
    click.echo(report.tables[0].markdown())
    click.echo(f"wrote {out / 'report.md'}", err=True)


if __name__ == "__main__":
    main()
