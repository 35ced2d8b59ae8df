"""How often a frame is invalid by its brightness and sharpness alone: good, defective, covered.

python -m edgeseg.bench.studies.decide.appearance mvtec_ad more surfaces --out appearance

No network is needed: limits come from good images as they do in a fit, from all of them and from
draws of ten and of five, and are held against the test images and against lenses that are covered.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click
import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.bench.harness.accuracy import categories_in
from edgeseg.bench.harness.machine import describe
from edgeseg.bench.harness.report import Report, write_report
from edgeseg.bench.harness.tabular import Table, column, table_of
from edgeseg.bench.studies.decide.foreign import LENSES
from edgeseg.config import FitConfig
from edgeseg.contract.appearance import Appearance, GoodAppearance, appearance_of
from edgeseg.contract.images import images_in, read_image, resize_image
from edgeseg.data.layouts import folders_in
from edgeseg.errors import EdgesegError
from edgeseg.options import FOLDER, note

Frame = NDArray[np.uint8]
GOOD, DEFECTIVE = "good test images", "real defects"
SLIGHT: Mapping[str, Callable[[Frame], Frame]] = {
    "blur, sigma 2": lambda frame: np.asarray(cv2.GaussianBlur(frame, (0, 0), 2), np.uint8),
    "a third of the light": lambda frame: np.asarray(frame * 0.33, np.uint8),
    "half the light": lambda frame: np.asarray(frame * 0.5, np.uint8),
    "twice the light": lambda frame: np.asarray(np.clip(frame * 2.0, 0, 255), np.uint8),
}
DRAWS = 20  # of few images
FEW = (10, 5)
_TIMED = 1000


@dataclass(frozen=True, kw_only=True)
class Looks:
    """The figures of a category's pictures."""

    name: str
    train: tuple[Appearance, ...]
    shown: dict[str, tuple[Appearance, ...]]

    @classmethod
    def of(cls, root: Path, size_hw: tuple[int, int]) -> "Looks":
        """Test images of every folder but good are defective; masks are not asked for."""

        def frames(folder: Path) -> list[Frame]:
            return [resize_image(read_image(path), size_hw) for path in images_in(folder)]

        def looks(pictures: Sequence[Frame]) -> tuple[Appearance, ...]:
            return tuple(map(appearance_of, pictures))

        good = frames(root / "test" / "good")
        others = [folder for folder in folders_in(root / "test") if folder.name != "good"]
        shown = {GOOD: looks(good), DEFECTIVE: looks([f for each in others for f in frames(each)])}
        covers = {**LENSES, **SLIGHT}
        shown |= {name: looks([cover(frame) for frame in good]) for name, cover in covers.items()}
        return cls(name=root.name, train=looks(frames(root / "train" / "good")), shown=shown)

    def invalid(self, fitted: int | None, rng: np.random.Generator) -> Iterator[tuple[str, int]]:
        """How many of each kind are invalid with limits of so many good images; None: of all."""
        for _ in range(1 if fitted is None else DRAWS):
            drawn = rng.permutation(len(self.train))[:fitted]
            limits = GoodAppearance.of(self.train[place] for place in drawn).limits
            if limits is None:
                raise EdgesegError(f"{self.name}: too few good images; expected five or more")
            for kind, looks in self.shown.items():
                yield kind, sum(limits.fault_in(look) is not None for look in looks)


@dataclass(frozen=True, kw_only=True)
class Row:
    """Shares of the pictures that are invalid."""

    what: str = field(metadata=column("shown"))
    frames: int = field(metadata=column("frames"))
    whole: float = field(metadata=column("invalid, all good images fitted", digits=4))
    ten: float = field(metadata=column("ten fitted", digits=4))
    five: float = field(metadata=column("five fitted", digits=4))


def rows(categories: Sequence[Looks]) -> Iterator[Row]:
    """One for each kind of picture, over some categories."""
    rng, found = np.random.default_rng(0), {}
    for fitted in (None, *FEW):
        counts: Counter[str] = Counter()
        for category in categories:
            for kind, invalid in category.invalid(fitted, rng):
                counts[kind] += invalid
        found[fitted] = counts
    for kind in categories[0].shown:
        frames = sum(len(category.shown[kind]) for category in categories)
        ten, five = (found[few][kind] / (DRAWS * max(frames, 1)) for few in FEW)
        whole = found[None][kind] / max(frames, 1)
        yield Row(what=kind, frames=frames, whole=whole, ten=ten, five=five)


def milliseconds(size_hw: tuple[int, int]) -> float:
    """Of looking at one input: the median."""
    frame = np.random.default_rng(0).integers(0, 256, (*size_hw, 3), np.uint8)
    times = []
    for _ in range(_TIMED):
        started = time.perf_counter_ns()
        appearance_of(frame)
        times.append(time.perf_counter_ns() - started)
    return float(np.median(times)) / 1e6


@click.command()
@click.argument("data", type=FOLDER, nargs=-1, required=True)
@click.option("--out", type=FOLDER, required=True, help="Folder of the report.")
def main(data: tuple[Path, ...], out: Path) -> None:
    """Hold pictures against the looks of good ones."""
    size_hw, categories = FitConfig().size_hw, []
    try:
        for folder in (path for root in data for path in categories_in(root)):
            categories.append(Looks.of(folder, size_hw))
            note(f"{folder.name}: {len(categories[-1].train)} good images to fit on")
        whole = list(rows(categories))
        tables: list[Table] = [table_of("All categories", whole)]
        tables += [table_of(each.name, list(rows([each]))) for each in categories]
    except EdgesegError as error:
        raise click.ClickException(str(error)) from None
    report = Report(
        name="appearance",
        title="Frames that are dark, glaring or blurred",
        findings=(
            *(f"{row.whole:.1%} of {row.frames} are invalid: {row.what}" for row in whole),
            f"{milliseconds(size_hw):.2f} ms a frame of {size_hw[0]}x{size_hw[1]}",
        ),
        tables=tuple(tables),
        figures=(),
        facts=describe(threads=cv2.getNumThreads()),
        raw={row.what: vars(row) for row in whole},
    )
    write_report(report, out)
    click.echo(report.tables[0].markdown())
    note(f"wrote {out / 'report.md'}")


if __name__ == "__main__":
    main()
