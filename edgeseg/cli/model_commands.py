"""`edgeseg predict` and `edgeseg info`."""

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from edgeseg.artefact.header import read_config, read_header
from edgeseg.contract.images import read_image, resize_image
from edgeseg.contract.metadata import MODEL_SUFFIXES
from edgeseg.files import check_writable, size_text
from edgeseg.options import FOLDER, PATH, note, quiet_option

_LISTED = 12  # values of a list that are shown one by one
artefact_argument = click.argument("artefact", type=PATH)


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
        elif isinstance(value, list) and len(value) > _LISTED:
            words = f"{len(value)} values, {value[0]} to {value[-1]}"
            click.echo(" " * indent + f"{name:<20} {words}")
        else:
            click.echo(" " * indent + f"{name:<20} {value}")
