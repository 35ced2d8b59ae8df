"""`edgeseg ignore`: regions that do not matter, for a model that is there already."""

from dataclasses import replace
from pathlib import Path

import click

from edgeseg.base.errors import RuntimeFailure, UsageError
from edgeseg.base.files import check_writable
from edgeseg.base.options import FILE, PATH, SIZE, listeners, note, quiet_option, trust_option
from edgeseg.base.progress import Note, Progress
from edgeseg.base.utc import utc_time
from edgeseg.cli.needs import check_needs
from edgeseg.modelfile.header import check_artefact_name, read_config
from edgeseg.modelfile.ignore_on_device import with_regions_ignored
from edgeseg.modelfile.metadata import MODEL_SUFFIXES, Decision
from edgeseg.modelfile.signature import admit, note_stale
from edgeseg.runtime.backends.model_file import file_metadata, write_sidecar
from edgeseg.vision.geometry import Polygon
from edgeseg.vision.ignored import parse_region, read_regions


@click.command("ignore")
@click.argument("model", type=FILE)
@click.option(
    "--region",
    "regions",
    metavar="X,Y,W,H",
    multiple=True,
    help="Rectangle to ignore, or the corners X,Y,X,Y,X,Y of a polygon. May be repeated.",
)
@click.option(
    "--mask",
    type=FILE,
    help="Regions to ignore: a JSON file of polygons, or a picture that is white there.",
)
@click.option("--clear", is_flag=True, help="Remove the regions that this command has added.")
@click.option(
    "--camera",
    "camera_hw",
    type=SIZE,
    help="Size of the camera's pictures, if the model does not know it.",
)
@click.option(
    "--good",
    type=PATH,
    help="Good images that were not fitted: choose the threshold from their scores.",
)
@click.option("--out", "-o", type=FILE, help="Write the model here instead.")
@trust_option
@quiet_option
def ignore(
    model: Path,
    regions: tuple[str, ...],
    mask: Path | None,
    clear: bool,
    camera_hw: tuple[int, int] | None,
    good: Path | None,
    out: Path | None,
    trust: tuple[Path, ...],
    quiet: bool,
) -> None:
    """Ignore regions of the camera's picture in MODEL, without a new fit.

    Cells that a region touches leave map, score and verdict; all others see what they saw in the
    fit. The threshold of an .edgeseg file is taken again from what is left of its held-out good
    images, or from --good. In a .onnx or .plan file regions are added to those of its export, in
    the sidecar beside it; its threshold stays: run `edgeseg calibrate` for a sharper one. Where
    something glaring may lie in a region, `edgeseg fit --ignore` paints it over.

    \b
    edgeseg ignore part.edgeseg --region 120,40,200,60
    edgeseg ignore part.onnx --mask serial.png
    """
    added = [parse_region(text) for text in regions]
    if mask is not None:
        added += read_regions(mask)
    if not added and not clear:
        raise UsageError("nothing to ignore: give --region X,Y,W,H, --mask FILE or --clear")
    admit(model, trust)
    tell, progress = listeners(quiet=quiet)
    if model.suffix in MODEL_SUFFIXES:
        if good is not None or out is not None:
            raise UsageError("--good and --out are for .edgeseg files; run edgeseg calibrate after")
        written = _in_sidecar(model, added, clear=clear, camera_hw=camera_hw, note=tell)
    else:
        written = out or model
        _in_artefact(
            model,
            added,
            written,
            clear=clear,
            camera_hw=camera_hw,
            good=good,
            note=tell,
            progress=progress,
        )
    note_stale(out or model, note)
    note(f"wrote {written}")


def _in_artefact(
    model: Path,
    added: list[Polygon],
    out: Path,
    *,
    clear: bool,
    camera_hw: tuple[int, int] | None,
    good: Path | None,
    note: Note,
    progress: Progress,
) -> None:
    config = read_config(model)
    check_needs("safetensors")
    check_artefact_name(out)
    check_writable(out)

    from edgeseg.data.datasets import open_dataset
    from edgeseg.fitting.ignoring import ignore_in_model
    from edgeseg.fitting.options import FitOptions
    from edgeseg.model.artefact import load_artefact, save_artefact

    regions = [*(() if clear else config.geometry.uncounted), *added]
    artefact = load_artefact(model)
    changed = ignore_in_model(
        artefact,
        regions,
        camera_hw=camera_hw,
        good=None if good is None else open_dataset(good),
        options=FitOptions(note=note, progress=progress),
    )
    save_artefact(changed, out)
    if clear:
        _tell_kept(config.geometry.ignore, note, how="fit again without --ignore")
    before, after = artefact.calibration, changed.calibration
    click.echo(
        f"threshold {after.score_threshold:.4f} (was {before.score_threshold:.4f}), "
        f"{after.method}; {changed.config.geometry.words}"
    )


def _tell_kept(regions: tuple[Polygon, ...], note: Note, *, how: str) -> None:
    """Say which regions stay: --clear removes those of this command, not those of the fit."""
    if regions:
        note(f"{len(regions)} regions that it was made with stay ignored; to look there, {how}")


def _in_sidecar(
    model: Path,
    added: list[Polygon],
    *,
    clear: bool,
    camera_hw: tuple[int, int] | None,
    note: Note,
) -> Path:
    """Store the regions in the sidecar, beside those that the graph itself leaves out."""
    metadata = file_metadata(model)
    if "grid" not in metadata.outputs or metadata.tiles is not None:
        raise RuntimeFailure(
            f"{model}: an export of tiles or without its grid, which cannot leave cells out; "
            "ignore the regions in its .edgeseg file and export that"
        )
    known = metadata.looks.camera_hw or metadata.camera_hw or camera_hw
    if known is None:
        raise UsageError(
            f"{model}: it does not know the size of the camera's pictures, in whose pixels "
            "regions are; give it: --camera HEIGHTxWIDTH"
        )
    here = (*(() if clear else metadata.ignored_here), *added)
    changed = with_regions_ignored(metadata, here, rule=metadata.rule, camera_hw=known)
    if metadata.rule.top == 1:
        note(
            "its score is the highest pixel of the map, which may rise beside a region: take the "
            f"threshold again with `edgeseg calibrate {model} GOOD_IMAGES`"
        )
    if clear and metadata.geometry is not None:
        _tell_kept(metadata.geometry.regions, note, how="export a model without them")
    decision = Decision(
        when=utc_time(),
        action="ignore",
        rule=f"{len(here)} regions ignored since the export",
        images=0,
        before=metadata.threshold.score,
        after=metadata.threshold.score,
    )
    return write_sidecar(model, replace(changed, history=(*metadata.history, decision)))
