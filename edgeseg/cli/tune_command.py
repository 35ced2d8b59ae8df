"""`edgeseg tune`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from edgeseg.base.options import FOLDER, PATH, SIZE, Shared, listeners
from edgeseg.base.typed_options import same_as, takes, typed
from edgeseg.bench.compare.candidates import TuneOptions
from edgeseg.bench.compare.tune import run_tune
from edgeseg.cli.bench_options import TimedRunOptions, use_weights, weights_folder_option
from edgeseg.cli.needs import EXPORTING, check_needs
from edgeseg.config import FitConfig
from edgeseg.runtime.backends.session_options import SessionOptions
from edgeseg.runtime.settings.opening_options import OpeningOptions


@dataclass(frozen=True, kw_only=True)
class TuneRunOptions(TimedRunOptions):
    """Options of how `edgeseg tune` fits and times, and where the model goes."""

    size_hw: tuple[int, int] | None = typed(
        None, "Image size.  [default: the preset's]", kind=SIZE, flags=("--size",)
    )
    spin: bool = same_as(OpeningOptions, "spin")
    out: Path = typed(
        Path("tune"),
        "Folder of the model and the report; a search that was stopped goes on there.",
        kind=FOLDER,
        flags=("--out", "-o"),
    )
    quiet: bool = same_as(Shared, "quiet")


@click.command()
@click.argument("data", type=PATH)
@takes("asked", TuneOptions, made=dict)
@takes("run", TuneRunOptions)
@weights_folder_option
def tune(
    data: Path, asked: dict[str, Any], run: TuneRunOptions, weights_folder: Path | None
) -> None:
    """Find the most accurate model that this computer runs within a budget.

    Backbones, precisions and backends are fitted, exported, verified and timed as a stream runs
    them; a rounded model is fitted again and judged in each backend's own session. All are judged
    on the good images of DATA and on defects planted on copies of them: no defective image is
    looked at.

    \b
    edgeseg tune photos/good --budget-ms 5
    edgeseg tune photos/good --budget-ms 20 --backend openvino --out tuned
    """
    check_needs(*EXPORTING)
    use_weights(weights_folder)
    note, progress = listeners(quiet=run.quiet)
    size = {"size_hw": run.size_hw} if run.size_hw else {}
    options = TuneOptions(
        data=data,
        config=FitConfig.preset(asked["preset"]).with_options(size),
        session=SessionOptions(threads=run.threads, spin=run.spin),
        schedule=run.schedule,
        **asked,
    )
    run_tune(options, run.out, fresh=run.fresh, note=note, progress=progress)
