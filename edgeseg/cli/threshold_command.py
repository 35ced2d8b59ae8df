"""`edgeseg threshold`: another false-alarm rate for a model that is there already."""

import json
from dataclasses import replace
from pathlib import Path
from typing import get_args

import click
import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import DatasetError, UsageError
from edgeseg.base.messages import Setting
from edgeseg.base.options import (
    FOLDER,
    PATH,
    json_option,
    listeners,
    note,
    quiet_option,
    trust_option,
)
from edgeseg.base.utc import utc_time
from edgeseg.cli.data_options import max_pixels_option
from edgeseg.cli.threshold_evidence import Evidence, read_evidence
from edgeseg.cli.threshold_report import facts_of, table_lines, text_of, write_page
from edgeseg.decision.lost_defects import loss_between
from edgeseg.decision.operating_point import (
    by_rate,
    by_value,
    guarantee,
    operating_point,
    with_band,
)
from edgeseg.decision.score_origin import Promise, good_words
from edgeseg.decision.thresholds import Thresholds
from edgeseg.modelfile.header import store_thresholds
from edgeseg.modelfile.metadata import MODEL_SUFFIXES
from edgeseg.modelfile.signature import admit, note_stale
from edgeseg.runtime.backends.model_file import store_choice
from edgeseg.runtime.backends.session_options import SessionOptions


@click.command()
@click.argument("model", type=PATH)
@click.option("--rate", type=float, help="Store the threshold of this false-alarm rate.")
@click.option(
    "--promise",
    type=click.Choice(get_args(Promise)),
    help="How a rate becomes a threshold. tail: by how the highest good scores fall off, so that "
    "one odd picture does not decide it. conformal: by ranks alone.  [default: the model's]",
)
@click.option("--value", type=float, help="Store this threshold of the score.")
@click.option(
    "--unsure-rate",
    type=float,
    help="A larger rate: scores between the two thresholds are `unsure`. 0: no such band.",
)
@click.option(
    "--defects",
    type=PATH,
    help="Pictures of known defects: show how many of them each rate finds. "
    "The threshold does not depend on them.",
)
@click.option(
    "--good",
    type=FOLDER,
    help="Folder of the good pictures of the fit: the page of --out shows those that decide, and "
    "where they are odd. A model knows their names alone.",
)
@max_pixels_option
@click.option(
    "--out", "-o", type=FOLDER, help="Folder for a page with the table and a picture of the scores."
)
@json_option
@trust_option
@quiet_option
def threshold(
    model: Path,
    rate: float | None,
    promise: Promise | None,
    value: float | None,
    unsure_rate: float | None,
    defects: Path | None,
    good: Path | None,
    max_pixels: int,
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
    edgeseg threshold part.edgeseg --good parts/good --out page
    edgeseg threshold part.onnx --rate 0.02
    edgeseg threshold part.onnx --rate 0.02 --promise conformal
    edgeseg threshold part.onnx --rate 0.01 --unsure-rate 0.05
    """

    if rate is not None and value is not None:
        raise UsageError(
            Setting("rate", rate), " and ", Setting("value", value), ": expected one of the two"
        )
    if value is not None and promise is not None:
        raise UsageError(
            Setting("value", value), ": promises no rate; leave ", Setting("promise"), " out"
        )
    if good is not None and out is None:
        raise UsageError(
            Setting("good", good), ": its pictures are for a page; add ", Setting("out")
        )
    admit(model, trust)
    evidence = read_evidence(model)
    if promise is not None:
        evidence = replace(evidence, chosen=replace(evidence.chosen, promise=promise))
        rate = evidence.chosen.requested_rate if rate is None else rate
    if (rate, value, unsure_rate) != (None, None, None):
        evidence = _choose(model, evidence, rate=rate, value=value, unsure_rate=unsure_rate)
    if defects is not None:
        labelled = _scores_of(model, defects, trust, max_pixels=max_pixels, quiet=quiet)
        evidence = replace(evidence, labelled=labelled)
    sheet = None
    if good is not None:
        sheet = _sheet(model, evidence, good, trust, max_pixels=max_pixels, quiet=quiet)
    _show(model, evidence, as_json=as_json)
    if out is not None:
        for path in write_page(out, evidence, sheet=sheet):
            if not quiet:
                note(f"wrote {path}")


def _scores_of(
    model: Path, defects: Path, trust: tuple[Path, ...], *, max_pixels: int, quiet: bool
) -> tuple[float, ...]:
    """Score pictures of known defects with the model."""
    from edgeseg.cli.predict_command import open_judge, pictures_in  # the device may lack both
    from edgeseg.vision.images import read_image
    from edgeseg.vision.unreadable import unreadable_error

    paths = pictures_in([defects])
    tell, progress = listeners(quiet=quiet)
    with open_judge(model, _opening(trust), note=tell) as judge:
        scores, faults = [], []
        for path in progress(paths, length=len(paths), label="Scoring defects"):
            try:
                frame_hwc = read_image(path, max_pixels=max_pixels)
            except DatasetError as error:
                faults.append(error)
            else:
                scores.append(judge.predict(frame_hwc).score)
    if faults:
        raise unreadable_error(faults, of=len(paths))
    return tuple(scores)


def _sheet(
    model: Path,
    evidence: Evidence,
    good: Path,
    trust: tuple[Path, ...],
    *,
    max_pixels: int,
    quiet: bool,
) -> NDArray[np.uint8] | None:
    """Draw the good images that decide, as far as they are below a folder."""
    from edgeseg.cli.deciding_pictures import judged_sheet, pictures_by_name
    from edgeseg.cli.predict_command import open_judge  # the device may lack both

    names = [row.image for row in evidence.deciding]
    if not names:
        note("no picture is shown: the model does not name the good images that decide")
        return None
    found = pictures_by_name(good, names)
    tell, _ = listeners(quiet=quiet)
    if len(found) < len(names):
        missing = ", ".join(name for name in names if name not in found)
        tell(f"not shown, because not found under one place below {good}: {missing}")
    with open_judge(model, _opening(trust), note=tell) as judge:
        return judged_sheet(
            judge, evidence.deciding, found, name=evidence.name, max_pixels=max_pixels
        )


def _opening(trust: tuple[Path, ...]) -> SessionOptions:
    return SessionOptions(trust=trust, allow_random_weights=True)


def _choose(
    model: Path,
    stored: Evidence,
    *,
    rate: float | None,
    value: float | None,
    unsure_rate: float | None,
) -> Evidence:
    """Choose the threshold, store it in the file and say so."""
    before = chosen = stored.chosen
    if rate is not None:
        point = operating_point(
            stored.scores,
            stored.peaks,
            rate=rate,
            promise=before.promise,
            pictures=stored.pictures,
        )
        if point.shortfall is not None:
            note(point.shortfall)
        chosen = by_rate(before, point)
    elif value is not None:
        chosen = by_value(before, stored.scores, value)
    band = before.unsure_rate if unsure_rate is None else unsure_rate
    if unsure_rate == 0:
        chosen = replace(chosen, unsure=None, unsure_rate=None)
    elif band is not None and (unsure_rate is not None or band > chosen.requested_rate):
        chosen = with_band(chosen, stored.scores, rate=band)
    elif band is not None:
        note(f"the band of {before.unsure_rate:g} is not above this rate and is dropped")
    if chosen.score > before.score:
        note(str(loss_between(before.score, chosen.score, planted=stored.planted).sentence))
    asked = None if value is not None else rate or before.requested_rate
    _store(model, before, chosen, rate=asked, images=stored.pictures or len(stored.scores))
    return replace(stored, chosen=chosen)


def _store(
    model: Path, before: Thresholds, chosen: Thresholds, *, rate: float | None, images: int
) -> None:
    rule = chosen.rule
    if chosen.unsure_rate is not None:
        rule += f", unsure from {chosen.unsure:.4f} (rate {chosen.unsure_rate:g})"
    when = utc_time()
    store = store_choice if model.suffix in MODEL_SUFFIXES else store_thresholds
    written = store(model, chosen, rule=rule, rate=rate, images=images, when=when)
    note_stale(model, note)
    note(f"wrote {written}: threshold {before.score:.4f} is now {chosen.score:.4f}")


def _show(model: Path, evidence: Evidence, *, as_json: bool) -> None:
    chosen = evidence.chosen
    if as_json:
        facts = facts_of(evidence) | {"guarantee": str(guarantee(chosen))}
        about = {"model": str(model), "name": evidence.name, "stored": chosen.to_dict()}
        click.echo(json.dumps(about | facts, indent=2))
    else:
        words = good_words(evidence.pictures, len(evidence.scores))
        click.echo(f"{model}: {words} of {evidence.name}\n")
        click.echo("\n".join([*table_lines(evidence), "", *text_of(evidence)]))
