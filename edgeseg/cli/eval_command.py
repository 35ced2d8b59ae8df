"""`edgeseg eval`: the accuracy of a model on a labelled test set."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgeseg.base.files import check_writable, write_json, write_text
from edgeseg.base.options import FOLDER, PATH, command_line, listeners, trust_option
from edgeseg.base.progress import Note
from edgeseg.base.tables import align_columns
from edgeseg.base.typed_options import takes
from edgeseg.cli.data_options import LayoutOptions
from edgeseg.cli.needs import FITTING, check_needs
from edgeseg.data.datasets import open_dataset
from edgeseg.decision.metric_registry import METRICS
from edgeseg.modelfile.header import read_config
from edgeseg.modelfile.signature import admit, note_stale

if TYPE_CHECKING:
    from edgeseg.api import Model
    from edgeseg.evaluation.evaluate import Evaluation
    from edgeseg.evaluation.mistakes import Mistake

SHOWN = 5  # mistakes in the terminal
# Beside good and defect; the first two are alarms whatever their score.
_OTHERS = {
    "invalid": "called invalid: not this part",
    "not_found": "not found",
    "unsure": "unsure: no alarm",
}


@click.command("eval")
@click.argument("artefact", type=PATH)
@click.argument("data", type=PATH)
@click.option(
    "--json",
    "json_path",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    help="Write all figures and mistakes to this file; - prints them instead of the table.",
)
@click.option(
    "--csv",
    "csv_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the misses and false alarms to this file, the worst first.",
)
@click.option(
    "--pictures",
    type=FOLDER,
    help="Write a picture per test image and a contact sheet, mistakes first, into this folder.",
)
@click.option("--store", is_flag=True, help="Keep the figures in the model, for export and stream.")
@takes("images", LayoutOptions)
@trust_option
def evaluate(
    artefact: Path,
    data: Path,
    json_path: Path | None,
    csv_path: Path | None,
    pictures: Path | None,
    store: bool,
    images: LayoutOptions,
    trust: tuple[Path, ...],
) -> None:
    """Measure ARTEFACT on the labelled test set of DATA.

    Labels are enough for figures of images. PRO and pixel AUROC need a mask of every defective
    image, and are a dash without.

    \b
    edgeseg eval bottle.edgeseg mvtec_ad/bottle --json r.json --pictures out/
    """
    admit(artefact, trust)
    config = read_config(artefact)
    check_needs(*FITTING)
    several = bool(config.variants)
    dataset = open_dataset(
        data, layout=images.layout, fold=images.fold, seed=config.seed, variants=several
    )
    for path in (json_path, csv_path, pictures / "sheet.png" if pictures else None):
        if path is not None and path != Path("-"):
            check_writable(path)

    from edgeseg.api import load
    from edgeseg.evaluation.gallery import Gallery

    tell, progress = listeners(quiet=images.quiet)
    for line in dataset.notes:
        tell(line)
    model = load(artefact)
    gallery = Gallery(pictures, model.artefact.calibration) if pictures else None
    result = model.evaluate(
        dataset,
        batch_size=images.batch_size,
        max_bad=images.max_bad,
        max_pixels=images.max_pixels,
        note=tell,
        progress=progress,
        visit=gallery.add if gallery else None,
    )
    _give(model, result, json_path=json_path, csv_path=csv_path, model_path=artefact, note=tell)
    if gallery:
        tell(f"wrote {gallery.finish(title=result.dataset)}")
    if store:
        model.with_accuracy(result).save(artefact)
        note_stale(artefact, tell)
        tell(f"stored in {artefact}; next: {command_line('export', artefact)}")


def _give(
    model: "Model",
    result: "Evaluation",
    *,
    model_path: Path,
    json_path: Path | None,
    csv_path: Path | None,
    note: Note,
) -> None:
    """Print figures and mistakes, and write them to files."""
    from edgeseg.evaluation.by_variant import variant_lines
    from edgeseg.evaluation.mistakes import limit_sentence, mistakes, mistakes_csv

    calibration = model.artefact.calibration
    good_scores = calibration.good.of_parts.scores
    wrong = mistakes(result, good_scores)
    values = result.to_dict() | {
        "config": model.artefact.config.to_dict(),
        "limit": limit_sentence(
            result, good_scores, promise=calibration.promise, model=str(model_path)
        ),
        "mistakes": [asdict(each) for each in wrong],
    }
    if json_path == Path("-"):
        click.echo(json.dumps(values, indent=2, sort_keys=True, allow_nan=False))
    else:
        _print_table(values)
        for line in variant_lines(result):
            click.echo(line)
        _print_mistakes(wrong)
        if values["limit"]:
            click.echo(values["limit"])
        if json_path:
            write_json(json_path, values)
            note(f"wrote {json_path}")
    if csv_path:
        write_text(csv_path, mistakes_csv(wrong))
        note(f"wrote {csv_path}")


def _print_table(values: dict[str, Any]) -> None:
    width = max(map(len, METRICS)) + 2
    for name in METRICS:
        value = values[name]
        click.echo(f"{name:<{width}}{'-' if value is None else f'{value:.4f}'}")
    click.echo(f"{'threshold':<{width}}{values['threshold']:.4f}  ({values['threshold_method']})")
    missed = len(values["mistakes"]) - values["false_alarms"]
    others = "".join(
        f", {count} {words}"
        for verdict, words in _OTHERS.items()
        if (count := values["verdicts"].count(verdict))
    )
    click.echo(
        f"{'images':<{width}}{values['images']} ({values['anomalies']} anomalous, {missed} missed, "
        f"{values['false_alarms']} good ones flagged{others}), {values['seconds']:.1f} s"
    )


def _print_mistakes(wrong: Sequence["Mistake"]) -> None:
    """Print the worst mistakes; the files have all of them."""
    if not wrong:
        return
    rows = [
        (each.error, each.kind, each.verdict, f"{each.score:.4f}", f"{each.p_value:.3f}", each.path)
        for each in wrong[:SHOWN]
    ]
    for line in align_columns(
        [("worst", "kind", "verdict", "score", "p-value", "path"), *rows], last_left=True
    ):
        click.echo(line)
    if len(wrong) > SHOWN:
        click.echo(f"... and {len(wrong) - SHOWN} more: --csv FILE has all of them")
