"""The promise of a threshold: how many unseen good images it flags, at 1, 5 and 10 %.

    python -m edgeseg.bench.studies.decide.promise mvtec_ad/bottle mvtec_ad/cable

Each category is fitted on its training images and asked about the good ones of its test. Fewer
good images than a rate needs promise a larger rate, which stands beside it. Intervals are
Clopper and Pearson's, at 95 %.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from edgeseg.artefact.artefact import Artefact, load_artefact
from edgeseg.bench.harness.accuracy import open_limited
from edgeseg.bench.studies.trust.report import OUT, markdown, write_rows
from edgeseg.config import FitConfig
from edgeseg.contract.binomial import exact_interval
from edgeseg.contract.operating_point import operating_point
from edgeseg.contract.prediction import above
from edgeseg.data.datasets import Dataset
from edgeseg.data.samples import read_sample
from edgeseg.fitting.fitting import fit
from edgeseg.fitting.options import FitOptions
from edgeseg.model.predictor import frame_predictor, torch_predictor
from edgeseg.options import note

RATES = (0.01, 0.05, 0.10)


@dataclass(frozen=True, kw_only=True)
class Kept:
    """One category at one rate."""

    category: str
    asked: float
    promised: float  # by as many good images as there were
    images: int
    alarms: int


def scores_of_good(artefact: Artefact, dataset: Dataset) -> list[float]:
    """Of the good images of the test, which no threshold has seen."""
    predict = frame_predictor(torch_predictor(artefact.model()), artefact.config)
    scores: list[float] = []
    for sample in dataset.test:
        if sample.label == 0:
            frame, _ = read_sample(sample, artefact.config.image_hw)
            scores += predict(frame[None])[1].tolist()
    return scores


def kept(artefact: Artefact, scores: Sequence[float], *, category: str) -> list[Kept]:
    """What the rates promise, and what came."""
    good = artefact.calibration.good.of_parts
    rows = []
    for rate in RATES:
        point = operating_point(good.scores.tolist(), good.peaks.tolist(), rate=rate)
        alarms = int(np.count_nonzero(above(np.asarray(scores), point.score)))
        rows.append(
            Kept(
                category=category,
                asked=rate,
                promised=point.promised_rate,
                images=len(scores),
                alarms=alarms,
            )
        )
    return rows


def table(rows: Sequence[Kept]) -> list[dict[str, Any]]:
    """Each row with its interval, and all categories together at each rate."""
    totals = [
        Kept(
            category="all",
            asked=rate,
            promised=float(np.mean([row.promised for row in rows if row.asked == rate])),
            images=sum(row.images for row in rows if row.asked == rate),
            alarms=sum(row.alarms for row in rows if row.asked == rate),
        )
        for rate in RATES
    ]
    shown = []
    for row in [*rows, *totals]:
        low, high = exact_interval(row.alarms, row.images)
        shown.append(
            {
                "category": row.category,
                "asked": f"{row.asked:.0%}",
                "promised": f"{row.promised:.1%}",
                "good images": row.images,
                "alarms": row.alarms,
                "rate": f"{row.alarms / max(row.images, 1):.1%}",
                "interval": f"{low:.1%} to {high:.1%}",
            }
        )
    return shown


@click.command(context_settings={"show_default": True})
@click.argument("data", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--backbone", default=FitConfig().backbone)
@click.option("--weights", help="Of the backbone; found as in `edgeseg fit` when absent.")
@click.option("--models", type=click.Path(path_type=Path), help="Folder of fitted NAME.edgeseg.")
@click.option("--limit", type=click.IntRange(2), help="Images of each kind, for a rehearsal.")
@click.option("--size", type=click.IntRange(32), help="Of the images; default: the preset's.")
@click.option("--out", type=click.Path(path_type=Path), default=OUT, help="Folder of the report.")
def main(
    data: tuple[Path, ...],
    backbone: str,
    weights: str | None,
    models: Path | None,
    limit: int | None,
    size: int | None,
    out: Path,
) -> None:
    """Fit each category, count the alarms on its good test images, and show the intervals."""
    config = FitConfig(backbone=backbone)
    if size is not None:
        config = config.with_options({"size_hw": (size, size)})
    rows: list[Kept] = []
    for path in data:
        dataset = open_limited(path, limit=limit)
        stored = None if models is None else models / f"{path.name}.edgeseg"
        if stored is not None and stored.is_file():
            artefact = load_artefact(stored)
        else:
            artefact = fit(dataset, config, FitOptions(weights=weights, planted=0))
        rows += kept(artefact, scores_of_good(artefact, dataset), category=path.name)
        note(f"{path.name}: {rows[-1].images} good test images")
        write_rows(out, "promise", title="False alarms on unseen good images", rows=table(rows))
    click.echo(markdown(table(rows)))


if __name__ == "__main__":
    main()
