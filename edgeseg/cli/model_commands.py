"""`edgeseg eval`, `edgeseg predict` and `edgeseg info`."""

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from edgeseg.artefact.header import read_config, read_header
from edgeseg.cli.data_options import batch_option, dataset_option, fold_option, max_bad_option
from edgeseg.contract.images import read_image, resize_image
from edgeseg.contract.metadata import MODEL_SUFFIXES
from edgeseg.contract.metrics import METRICS
from edgeseg.data.datasets import open_dataset
from edgeseg.files import check_writable, size_text, write_json
from edgeseg.options import FOLDER, PATH, listeners, note, quiet_option
from edgeseg.progress import Note

artefact_argument = click.argument("artefact", type=PATH)


@click.command("eval")
@artefact_argument
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
    for name in METRICS:
        value = values[name]
        click.echo(f"{name:<13}{'-' if value is None else f'{value:.4f}'}")
    click.echo(f"{'threshold':<13}{values['threshold']:.4f}  ({values['threshold_method']})")
    click.echo(
        f"{'images':<13}{values['images']} ({values['anomalies']} anomalous, "
        f"{values['false_alarms']} good ones flagged), {values['seconds']:.1f} s"
    )


@click.command()
@artefact_argument
@click.argument("images", nargs=-1, required=True, type=PATH)
@click.option("--out", "-o", type=FOLDER, required=True, help="Folder for the pictures.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per image.")
@quiet_option
def predict(
    artefact: Path, images: tuple[Path, ...], out: Path, as_json: bool, quiet: bool
) -> None:
    """Score IMAGES and draw where they are wrong.

    \b
    edgeseg predict bottle.edgeseg part1.png part2.png --out out/
    """
    read_config(artefact)
    for path in images:
        if not path.is_file():
            read_image(path)  # says so
    check_writable(out / "picture.png")

    from edgeseg.api import load
    from edgeseg.evaluation.gallery import Gallery

    started = time.perf_counter()
    model = load(artefact)
    gallery = Gallery(out, model.artefact.calibration)
    for path in images:
        image_hwc = read_image(path)
        result = model.predict(image_hwc)
        frame_hwc = resize_image(image_hwc, result.map_hw.shape)
        row = {
            "image": str(path),
            "score": result.score,
            "threshold": result.threshold,
            "anomalous": result.anomalous,
            "regions": [asdict(region) for region in result.regions],
            "picture": str(gallery.picture(path, frame_hwc, result.map_hw)),
        }
        verdict = "anomalous" if result.anomalous else "good"
        text = f"{path}: {verdict}, {result.score:.3f} (threshold {result.threshold:.3f})"
        click.echo(json.dumps(row) if as_json else text)
    if not quiet:
        seconds = time.perf_counter() - started
        note(f"wrote {len(images)} pictures to {out} in {seconds:.1f} s")


@click.command()
@click.argument("model", type=PATH)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def info(model: Path, as_json: bool) -> None:
    """Say what a model file is: an .edgeseg artefact, an .onnx graph or a .plan engine.

    \b
    edgeseg info bottle.edgeseg
    """
    if model.suffix in MODEL_SUFFIXES:
        from edgeseg.export.inspect_file import describe

        facts: dict[str, Any] = describe(model)
    else:
        facts = read_header(model) | {"size_bytes": model.stat().st_size}
    if as_json:
        click.echo(json.dumps(facts, indent=2, sort_keys=True))
        return
    click.echo(f"{model} ({size_text(model.stat().st_size)})")
    _print_nested(facts, indent=2)


def _print_nested(facts: dict[str, Any], *, indent: int) -> None:
    for name, value in facts.items():
        if isinstance(value, dict):
            click.echo(" " * indent + name)
            _print_nested(value, indent=indent + 2)
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            click.echo(" " * indent + name)
            for facts_of_one in value:
                line = ", ".join(f"{key} {fact}" for key, fact in facts_of_one.items())
                click.echo(" " * (indent + 2) + line)
        elif isinstance(value, list) and value and isinstance(value[0], list):
            click.echo(" " * indent + f"{name:<20} {len(value)} x {len(value[0])} values")
        else:
            click.echo(" " * indent + f"{name:<20} {value}")
