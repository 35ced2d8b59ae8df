"""The promise by parts: alarms on new parts where each fitted part was pictured several times.

    python -m edgeseg.bench.studies.decide.near_copies mvtec_ad/bottle surfaces/dagm_1

Of every category's good images some are the fitted parts, each pictured 1, 2 or 8 times, and the
rest are new parts. A picture is a good image taken again: cropped by 1 to 3 pixels at each side,
gamma 0.9 to 1.1, half of them blurred by 0.5 pixels, noise of 2 to 5 grey levels, JPEG of quality
70 to 95, which is not how near-copies are simulated inside the fit. The same pictures are fitted
twice: every picture counted as a part (`--group-by none`), and near-copies found (`auto`).
Intervals are Clopper and Pearson's, at 95 %. `lost` counts images of the untouched category that
are taken for near-copies of others. A category that OUT has already is not run again.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.artefact.artefact import Artefact
from edgeseg.bench.studies.trust.report import markdown, write_rows
from edgeseg.config import FitConfig
from edgeseg.contract.binomial import exact_interval
from edgeseg.contract.group_by import AUTO, GroupBy
from edgeseg.contract.images import images_in, read_image
from edgeseg.contract.operating_point import operating_point
from edgeseg.contract.part_groups import Thumbnails
from edgeseg.contract.prediction import above
from edgeseg.data.in_memory import open_data
from edgeseg.fitting.fitting import fit
from edgeseg.fitting.options import FitOptions
from edgeseg.model.predictor import frame_predictor, torch_predictor
from edgeseg.options import note

NAME = "near_copies"
OUT = Path("bench/results/decide/near_copies")
RATES = (0.01, 0.02, 0.05, 0.10)
PARTS = {1: 50, 2: 50, 8: 15}  # pictures of a part -> fitted parts
WAYS = {"each picture": "none", "each part": AUTO}
Picture = NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True)
class Counted:
    """One category, at one rate, by one way of counting."""

    category: str
    frames: int  # pictures of each fitted part
    counted: str
    parts: int  # as the fit counted them
    asked: float
    promised: float
    new: int  # parts that the fit has not seen
    alarms: int


def taken_again(image_hwc: Picture, rng: np.random.Generator) -> Picture:
    """The same part before the same camera a moment later."""
    height, width = image_hwc.shape[:2]
    top, left, bottom, right = rng.integers(1, 4, 4)
    picture = cv2.resize(image_hwc[top : height - bottom, left : width - right], (width, height))
    lit = np.asarray(255 * (picture / 255) ** rng.uniform(0.9, 1.1), np.float64)
    if rng.random() < 0.5:
        lit = np.asarray(cv2.GaussianBlur(lit, (0, 0), 0.5), np.float64)
    noisy = np.clip(np.round(lit + rng.normal(0, rng.uniform(2, 5), lit.shape)), 0, 255)
    quality = [cv2.IMWRITE_JPEG_QUALITY, int(rng.integers(70, 96))]
    _, data = cv2.imencode(".jpg", noisy.astype(np.uint8), quality)
    return np.asarray(cv2.imdecode(data, cv2.IMREAD_COLOR), np.uint8)


def good_images(path: Path) -> list[Picture]:
    """Of a category in the layout of MVTec AD, to fit on and to test; masks are not needed."""
    folders = (path / "train" / "good", path / "test" / "good")
    return [read_image(image) for folder in folders for image in images_in(folder)]


def counted_before(out: Path) -> tuple[list[Counted], list[dict[str, Any]]]:
    """What a report has already: a run that was stopped goes on with the other categories."""
    if not (out / f"{NAME}.json").is_file():
        return [], []
    stored, lost = (
        json.loads((out / f"{name}.json").read_text(encoding="utf-8"))["rows"]
        for name in (NAME, "lost")
    )
    rows = []
    for row in (each for each in stored if each["category"] != "all"):
        asked, parts = int(row["asked"].rstrip("%")) / 100, row["counted as"]
        rows.append(
            Counted(
                category=row["category"],
                frames=row["pictures of a part"],
                counted=row["counted"],
                parts=parts,
                asked=asked,
                promised=max(asked, 1 / (parts + 1)),
                new=row["new parts"],
                alarms=row["alarms"],
            )
        )
    return rows, lost


def lost_images(images: Sequence[Picture]) -> int:
    """How many are taken for near-copies of others."""
    thumbnails = Thumbnails()
    for place, image_hwc in enumerate(images):
        thumbnails.add(place, image_hwc)
    return len(images) - len(set(thumbnails.groups(range(len(images))).values()))


def counted_alarms(
    artefact: Artefact, new: NDArray[np.floating[Any]], *, category: str, frames: int, way: str
) -> list[Counted]:
    """What each rate promises, and how many new parts exceed it."""
    good = artefact.calibration.good.of_parts
    rows = []
    for rate in RATES:
        point = operating_point(good.scores, good.peaks, rate=rate)
        rows.append(
            Counted(
                category=category,
                frames=frames,
                counted=way,
                parts=point.images,
                asked=rate,
                promised=point.promised_rate,
                new=len(new),
                alarms=int(np.count_nonzero(above(new, point.score))),
            )
        )
    return rows


def study(
    images: Sequence[Picture], config: FitConfig, options: FitOptions, *, category: str
) -> list[Counted]:
    """One category: every number of pictures, counted in both ways."""
    rng = np.random.default_rng(config.seed)
    rows = []
    for frames, most in PARTS.items():
        order = rng.permutation(len(images)).tolist()
        fitted = order[: min(most, 2 * len(order) // 3)]
        pictures = [taken_again(images[at], rng) for at in fitted for _ in range(frames)]
        new = [taken_again(images[at], rng) for at in order[len(fitted) :]]
        for way, by in WAYS.items():
            told = FitOptions(weights=options.weights, planted=0, group_by=GroupBy(text=by))
            with open_data(pictures, size_hw=config.image_hw, seed=config.seed) as dataset:
                artefact = fit(dataset, config, told)
            predict = frame_predictor(torch_predictor(artefact.model()), config)
            shrunk = (cv2.resize(each, config.image_hw[::-1]) for each in new)
            scores = np.array([float(predict(each[None])[1][0]) for each in shrunk])
            rows += counted_alarms(artefact, scores, category=category, frames=frames, way=way)
        note(f"{category}: {frames} pictures of each of {len(fitted)} parts, {len(new)} new parts")
    return rows


def table(rows: Sequence[Counted]) -> list[dict[str, Any]]:
    """Each row with its interval; all categories together come last."""
    totals = [
        Counted(
            category="all",
            frames=frames,
            counted=way,
            parts=sum(row.parts for row in same),
            asked=rate,
            promised=float(np.average([row.promised for row in same], weights=news)),
            new=sum(news),
            alarms=sum(row.alarms for row in same),
        )
        for frames in PARTS
        for rate in RATES
        for way in WAYS
        if (same := [r for r in rows if (r.frames, r.asked, r.counted) == (frames, rate, way)])
        and (news := [row.new for row in same])
    ]
    shown = []
    for row in [*rows, *totals]:
        low, high = exact_interval(row.alarms, row.new)
        shown.append(
            {
                "category": row.category,
                "pictures of a part": row.frames,
                "counted": row.counted,
                "counted as": row.parts,
                "asked": f"{row.asked:.0%}",
                "promised": f"{row.promised:.1%}",
                "new parts": row.new,
                "alarms": row.alarms,
                "rate": f"{row.alarms / max(row.new, 1):.1%}",
                "interval": f"{low:.1%} to {high:.1%}",
            }
        )
    return shown


@click.command(context_settings={"show_default": True})
@click.argument("data", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--backbone", default=FitConfig().backbone)
@click.option("--weights", help="Of the backbone; found as in `edgeseg fit` when absent.")
@click.option("--limit", type=click.IntRange(9), help="Good images of each category.")
@click.option("--size", type=click.IntRange(32), help="Of the images; default: the preset's.")
@click.option("--out", type=click.Path(path_type=Path), default=OUT, help="Folder of the report.")
def main(
    data: tuple[Path, ...],
    backbone: str,
    weights: str | None,
    limit: int | None,
    size: int | None,
    out: Path,
) -> None:
    """Fit each category's parts, pictured once or often, and count the alarms on new parts."""
    config = FitConfig(backbone=backbone)
    if size is not None:
        config = config.with_options({"size_hw": (size, size)})
    rows, lost = counted_before(out)
    done = {row.category for row in rows}
    for path in (each for each in data if each.name not in done):
        images = good_images(path)
        chosen = np.random.default_rng(0).permutation(len(images))[:limit].tolist()
        found = lost_images(images)
        share = f"{found / len(images):.1%}"
        lost.append({"category": path.name, "images": len(images), "lost": found, "share": share})
        some = [images[at] for at in sorted(chosen)]
        rows += study(some, config, FitOptions(weights=weights), category=path.name)
        write_rows(out, "lost", title="Good images taken for near-copies of others", rows=lost)
        title = "False alarms on new parts, by pictures of each fitted part"
        write_rows(out, NAME, title=title, rows=table(rows))
    click.echo(markdown(table(rows)))


if __name__ == "__main__":
    main()
