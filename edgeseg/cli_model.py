"""`edgeseg eval`, `edgeseg predict` and `edgeseg info`."""

import importlib
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from edgeseg.cli_fit import (
    batch_option,
    dataset_option,
    fold_option,
    max_bad_option,
    note,
    quiet_option,
)
from edgeseg.files import size_text, write_json

artefact_argument = click.argument("artefact", type=click.Path(path_type=Path))


@click.command("eval")
@artefact_argument
@click.argument("data", type=click.Path(path_type=Path))
@click.option(
    "--json",
    "json_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write all figures to this file.",
)
@click.option(
    "--pictures",
    type=click.Path(path_type=Path, file_okay=False),
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
    from edgeseg.artefact import load_artefact, save_artefact
    from edgeseg.datasets import open_dataset
    from edgeseg.evaluate import evaluate as run_evaluation
    from edgeseg.evaluate import torch_predictor
    from edgeseg.gallery import Gallery
    from edgeseg.progress import bar, silent

    say = (lambda _: None) if quiet else note
    loaded = load_artefact(artefact)
    dataset = open_dataset(data, layout=layout, fold=fold, seed=loaded.config.seed)
    gallery = Gallery(pictures, loaded.calibration) if pictures else None
    result = run_evaluation(
        torch_predictor(loaded.model()),
        dataset,
        size_hw=loaded.config.size_hw,
        threshold=loaded.calibration.score_threshold,
        threshold_method=loaded.calibration.method,
        batch_size=batch_size,
        max_bad=max_bad,
        progress=silent if quiet else bar,
        on_bad=lambda _, reason: say(f"skipped {reason}"),
        visit=gallery.add if gallery else None,
    )
    _print_table(result.to_dict())
    if json_path:
        write_json(json_path, result.to_dict() | {"config": loaded.config.to_dict()})
        say(f"wrote {json_path}")
    if gallery:
        say(f"wrote {gallery.finish(title=dataset.name)}")
    if store:
        others = [entry for entry in loaded.accuracy if entry["dataset"] != dataset.name]
        save_artefact(replace(loaded, accuracy=[*others, result.summary()]), artefact)
        say(f"stored in {artefact}; next: edgeseg export {artefact}")


def _print_table(values: dict[str, Any]) -> None:
    names = ("pro", "pixel_auroc", "image_auroc", "f1", "precision", "recall")
    for name in names:
        value = values[name]
        click.echo(f"{name:<13}{'-' if value is None else f'{value:.4f}'}")
    click.echo(f"{'threshold':<13}{values['threshold']:.4f}  ({values['threshold_method']})")
    click.echo(
        f"{'images':<13}{values['images']} ({values['anomalies']} anomalous, "
        f"{values['false_alarms']} good ones flagged), {values['seconds']:.1f} s"
    )


@click.command()
@artefact_argument
@click.argument("images", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--out",
    "-o",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Folder for the pictures.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per image.")
@quiet_option
def predict(
    artefact: Path, images: tuple[Path, ...], out: Path, as_json: bool, quiet: bool
) -> None:
    """Score IMAGES and draw where they are wrong.

    \b
    edgeseg predict bottle.edgeseg part1.png part2.png --out out/
    """
    from edgeseg.artefact import load_artefact
    from edgeseg.evaluate import torch_predictor
    from edgeseg.gallery import Gallery
    from edgeseg.images import read_image, resize_image

    started = time.perf_counter()
    loaded = load_artefact(artefact)
    predictor = torch_predictor(loaded.model())
    gallery = Gallery(out, loaded.calibration)
    threshold = loaded.calibration.score_threshold
    for path in images:
        frame = resize_image(read_image(path), loaded.config.size_hw)
        maps, scores = predictor(frame[None])
        anomalous = bool(scores[0] > threshold)
        picture = gallery.picture(path, frame, maps[0])
        row = {
            "image": str(path),
            "score": float(scores[0]),
            "threshold": threshold,
            "anomalous": anomalous,
            "picture": str(picture),
        }
        verdict = "anomalous" if anomalous else "good"
        click.echo(
            json.dumps(row)
            if as_json
            else f"{path}: {verdict}, {scores[0]:.3f} (threshold {threshold:.3f})"
        )
    if not quiet:
        seconds = time.perf_counter() - started
        note(f"wrote {len(images)} pictures to {out} in {seconds:.1f} s")


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def info(model: Path, as_json: bool) -> None:
    """Say what a model file is: an .edgeseg artefact, an .onnx graph or a .plan engine.

    \b
    edgeseg info bottle.edgeseg
    """
    if model.suffix in {".onnx", ".plan"}:
        # Looked up by name: the core does not depend on export.
        describe = importlib.import_module("edgeseg.export.describe").describe
        facts: dict[str, Any] = describe(model)
    else:
        from edgeseg.artefact import read_header

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
        elif isinstance(value, list) and value and isinstance(value[0], list):
            click.echo(" " * indent + f"{name:<20} {len(value)} x {len(value[0])} values")
        else:
            click.echo(" " * indent + f"{name:<20} {value}")
