"""`edgeseg eval`: the accuracy of a model on a labelled test set."""

import json
from pathlib import Path
from typing import Any

import click

from edgeseg.artefact.header import read_config
from edgeseg.cli.data_options import batch_option, dataset_option, fold_option, max_bad_option
from edgeseg.contract.metrics import METRICS
from edgeseg.data.datasets import open_dataset
from edgeseg.files import check_writable, write_json
from edgeseg.options import FOLDER, PATH, listeners, quiet_option
from edgeseg.progress import Note


@click.command("eval")
@click.argument("artefact", type=PATH)
@click.argument("data", type=PATH)
@click.option(
    "--json",
    "json_path",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    help="Write all figures to this file; - prints them instead of the table.",
)
@click.option(
    "--pictures",
    type=FOLDER,
    help="Write a picture per test image and a contact sheet into this folder.",
)
@click.option("--store", is_flag=True, help="Keep the figures in the model, for export and stream.")
@dataset_option
@fold_option
@max_bad_option
@batch_option
@quiet_option
def evaluate(
    artefact: Path,
    data: Path,
    json_path: Path | None,
    pictures: Path | None,
    store: bool,
    layout: str | None,
    fold: int | None,
    max_bad: int,
    batch_size: int,
    quiet: bool,
) -> None:
    """Measure ARTEFACT on the labelled test set of DATA.

    \b
    edgeseg eval bottle.edgeseg mvtec_ad/bottle --json r.json --pictures out/
    """
    config = read_config(artefact)
    dataset = open_dataset(data, layout=layout, fold=fold, seed=config.seed)
    for path in (json_path, pictures / "sheet.png" if pictures else None):
        if path is not None and path != Path("-"):
            check_writable(path)

    from edgeseg.api import load
    from edgeseg.evaluation.gallery import Gallery

    tell, progress = listeners(quiet=quiet)
    model = load(artefact)
    gallery = Gallery(pictures, model.artefact.calibration) if pictures else None
    result = model.evaluate(
        dataset,
        batch_size=batch_size,
        max_bad=max_bad,
        note=tell,
        progress=progress,
        visit=gallery.add if gallery else None,
    )
    _print_figures(result.to_dict() | {"config": config.to_dict()}, json_path, note=tell)
    if gallery:
        tell(f"wrote {gallery.finish(title=result.dataset)}")
    if store:
        model.with_accuracy(result).save(artefact)
        tell(f"stored in {artefact}; next: edgeseg export {artefact}")


def _print_figures(values: dict[str, Any], json_path: Path | None, *, note: Note) -> None:
    if json_path == Path("-"):
        click.echo(json.dumps(values, indent=2, sort_keys=True, allow_nan=False))
        return
    _print_table(values)
    if json_path:
        write_json(json_path, values)
        note(f"wrote {json_path}")


def _print_table(values: dict[str, Any]) -> None:
    width = max(map(len, METRICS)) + 2
    for name in METRICS:
        value = values[name]
        click.echo(f"{name:<{width}}{'-' if value is None else f'{value:.4f}'}")
    click.echo(f"{'threshold':<{width}}{values['threshold']:.4f}  ({values['threshold_method']})")
    click.echo(
        f"{'images':<{width}}{values['images']} ({values['anomalies']} anomalous, "
        f"{values['false_alarms']} good ones flagged), {values['seconds']:.1f} s"
    )
