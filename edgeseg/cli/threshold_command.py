"""`edgeseg threshold`: another false-alarm rate for a model that is there already."""

import json
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import click

from edgeseg.artefact.header import (
    calibration_facts,
    read_floats,
    read_header,
    store_thresholds,
)
from edgeseg.cli.threshold_report import facts_of, table_lines, text_of, write_page
from edgeseg.contract.metadata import MODEL_SUFFIXES, Thresholds
from edgeseg.contract.operating_point import (
    RATES,
    by_rate,
    by_value,
    guarantee,
    operating_point,
    with_band,
)
from edgeseg.contract.signature import check_trusted, no_longer_fits
from edgeseg.errors import ArtefactError, RuntimeFailure, UsageError
from edgeseg.options import FOLDER, PATH, listeners, note, quiet_option, trust_option
from edgeseg.runtime.backends.model_file import file_metadata, store_choice


@click.command()
@click.argument("model", type=PATH)
@click.option("--rate", type=float, help="Store the threshold of this false-alarm rate.")
@click.option("--value", type=float, help="Store this threshold of the score.")
@click.option(
    "--unsure-rate",
    type=float,
    help="A larger rate: scores between the two thresholds are `unsure`. 0: no such band.",
)
@click.option(
    "--defects",
    type=PATH,
    help="Pictures of known defects: show how many of them each rate finds. They choose nothing.",
)
@click.option("--out", "-o", type=FOLDER, help="Folder for a picture and a page of the same.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@trust_option
@quiet_option
def threshold(
    model: Path,
    rate: float | None,
    value: float | None,
    unsure_rate: float | None,
    defects: Path | None,
    out: Path | None,
    as_json: bool,
    trust: tuple[Path, ...],
    quiet: bool,
) -> None:
    """Show what false-alarm rates promise and cost, or store another one.

    MODEL is an .edgeseg, .onnx or .plan file; nothing is fitted again. A choice is stored with its
    history, in the model or in the sidecar of a graph or plan, and is used from then on.

    The threshold of the score decides on a part. The threshold of a pixel only says what is marked
    in its picture: it is chosen for the same rate, by the highest pixels of the good images.

    \b
    edgeseg threshold part.edgeseg
    edgeseg threshold part.edgeseg --defects parts/defective
    edgeseg threshold part.onnx --rate 0.02
    edgeseg threshold part.onnx --rate 0.01 --unsure-rate 0.05
    """

    if rate is not None and value is not None:
        raise UsageError(f"rate={rate} and value={value}: expected one of the two")
    if trust:
        check_trusted(model, trust)
    stored = read_stored(model)
    if (rate, value, unsure_rate) != (None, None, None):
        stored = _choose(stored, rate=rate, value=value, unsure_rate=unsure_rate)
    labelled = () if defects is None else _scores_of(model, defects, trust, quiet=quiet)
    _show(stored, labelled, as_json=as_json, out=out, quiet=quiet)


def _scores_of(
    model: Path, defects: Path, trust: tuple[Path, ...], *, quiet: bool
) -> tuple[float, ...]:
    """What the model itself says of pictures of known defects."""
    from edgeseg.cli.predict_command import opened_judge, pictures_in  # the device may lack both
    from edgeseg.contract.images import read_image

    paths = pictures_in([defects])
    tell, progress = listeners(quiet=quiet)
    with opened_judge(model, trust, allow_random_weights=True, note=tell) as judge:
        scored = progress(paths, length=len(paths), label="Scoring defects")
        return tuple(judge.predict(read_image(path)).score for path in scored)


@dataclass(frozen=True, kw_only=True)
class Stored:
    """What a file says of its operating point."""

    path: Path
    name: str
    thresholds: Thresholds
    scores: tuple[float, ...]
    peaks: tuple[float, ...]
    planted: tuple[float, ...] = ()  # scores of planted defects


def read_stored(model: Path) -> Stored:

    return _read_graph(model) if model.suffix in MODEL_SUFFIXES else _read_artefact(model)


def _read_graph(model: Path) -> Stored:

    metadata = file_metadata(model)
    good = metadata.good_scores
    if not good.scores:
        raise RuntimeFailure(
            f"{model}: it has no scores of good images to choose a threshold from; run "
            f"`edgeseg calibrate {model} GOOD_IMAGES`"
        )
    return Stored(
        path=model,
        name=metadata.name,
        thresholds=metadata.threshold,
        scores=good.scores,
        peaks=good.peaks,
        planted=metadata.planted_scores,
    )


def _read_artefact(model: Path) -> Stored:

    header = read_header(model)
    chosen = calibration_facts(header).thresholds
    scores, peaks = read_floats(model, "good.scores"), read_floats(model, "good.peaks")
    if scores is None or peaks is None or not scores.size or chosen.false_alarm_rate >= 1:
        raise ArtefactError(
            f"{model}: it has no scores of good images that it was not fitted on; export it and "
            "run `edgeseg calibrate MODEL.onnx GOOD_IMAGES`"
        )
    planted = read_floats(model, "planted.scores")
    return Stored(
        path=model,
        name=str(header["data"].get("name", model.stem)),
        thresholds=chosen,
        scores=tuple(sorted(scores.tolist())),
        peaks=tuple(sorted(peaks.tolist())),
        planted=() if planted is None else tuple(planted.tolist()),
    )


def _choose(
    stored: Stored, *, rate: float | None, value: float | None, unsure_rate: float | None
) -> Stored:
    """Make the choice, store it in the file and say so."""

    before = chosen = stored.thresholds
    if rate is not None:
        point = operating_point(stored.scores, stored.peaks, rate=rate)
        if point.shortfall is not None:
            note(point.shortfall)
        chosen = by_rate(before, point)
    elif value is not None:
        chosen = by_value(before, stored.scores, value)
    band = before.unsure_rate if unsure_rate is None else unsure_rate
    if unsure_rate == 0:
        chosen = replace(chosen, unsure=None, unsure_rate=None)
    elif band is not None and (unsure_rate is not None or band > (chosen.requested_rate or 0)):
        chosen = with_band(chosen, stored.scores, rate=band)
    elif band is not None:
        note(f"the band of {before.unsure_rate:g} is not above this rate and is dropped")
    _store(stored, chosen)
    return replace(stored, thresholds=chosen)


def _store(stored: Stored, chosen: Thresholds) -> None:

    model = stored.path
    rule = chosen.method.rpartition("; ")[2]
    if chosen.unsure_rate is not None:
        rule += f", unsure from {chosen.unsure:.4f} (rate {chosen.unsure_rate:g})"
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    store = store_choice if model.suffix in MODEL_SUFFIXES else store_thresholds
    written = store(model, chosen, rule=rule, images=len(stored.scores), when=when)
    if stale := no_longer_fits(model):
        note(stale)
    note(f"wrote {written}: threshold {stored.thresholds.score:.4f} is now {chosen.score:.4f}")


def _show(
    stored: Stored, labelled: tuple[float, ...], *, as_json: bool, out: Path | None, quiet: bool
) -> None:

    chosen = stored.thresholds
    points = [
        operating_point(stored.scores, stored.peaks, rate=rate, planted=stored.planted)
        for rate in sorted({*RATES, chosen.requested_rate or RATES[0]})
    ]
    if as_json:
        facts = facts_of(points, labelled) | {"guarantee": guarantee(chosen.method)}
        about = {"model": str(stored.path), "name": stored.name, "stored": asdict(chosen)}
        click.echo(json.dumps(about | facts, indent=2))
    else:
        click.echo(f"{stored.path}: {len(stored.scores)} good images of {stored.name}\n")
        table = table_lines(points, chosen, labelled)
        click.echo("\n".join([*table, "", *text_of(chosen, stored.scores)]))
    if out is not None:
        for path in write_page(out, stored.name, chosen, stored.scores, points, stored.planted):
            if not quiet:
                note(f"wrote {path}")
