"""`edgeseg export-backbone`."""

import time
from pathlib import Path

import click

from edgeseg.base.errors import UsageError
from edgeseg.base.files import check_writable, size_text
from edgeseg.base.options import FILE, command_line, listeners, quiet_option
from edgeseg.base.plain import Malformed, parse_object, read_bounded
from edgeseg.base.typed_options import GroupedCommand
from edgeseg.cli.data_options import FIT_GROUPS
from edgeseg.cli.fit_settings import FitSettings, settings_options
from edgeseg.cli.needs import EXPORTING, check_needs
from edgeseg.config import FitConfig


@click.command("export-backbone", cls=GroupedCommand, groups=FIT_GROUPS)
@click.argument("out", type=FILE)
@settings_options
@click.option("--settings", "file", type=FILE, hidden=True, help="All of them, as JSON.")
@quiet_option
def export_backbone(out: Path, settings: FitSettings, file: Path | None, quiet: bool) -> None:
    """Write a backbone as the graph that devices fit through, without torch.

    It holds the backbone, W and a blank model. The settings that shape it belong to the graph;
    region, pool, ridge and rates are chosen where the fit is made.

    \b
    edgeseg export-backbone lite1.onnx
    edgeseg fit photos/good --graph lite1.onnx --out part.edgeseg
    """
    check_needs(*EXPORTING)
    note, _ = listeners(quiet=quiet)
    if out.suffix != ".onnx":
        raise UsageError(f"{out}: expected a name ending in .onnx")
    config = settings.config() if file is None else _read_settings(file)
    check_writable(out)

    from edgeseg.export.backbone_export import export_backbone as write

    started = time.perf_counter()
    written = write(config, out, weights=settings.weights, note=note)
    note(
        f"wrote {out} ({size_text(out.stat().st_size)}, weights: "
        f"{written.facts.weights.licence}) in {time.perf_counter() - started:.1f} s; "
        f"next: {command_line('fit', 'GOOD', '--graph', out, '--out', 'part.edgeseg')}"
    )


def _read_settings(path: Path) -> FitConfig:
    try:
        return FitConfig.from_dict(parse_object(read_bounded(path)))
    except (OSError, Malformed) as error:
        raise UsageError(f"settings={path}: {error}; expected the JSON of settings") from None
