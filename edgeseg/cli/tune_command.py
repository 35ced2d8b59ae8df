"""`edgeseg tune`."""

from dataclasses import dataclass
from pathlib import Path

import click

from edgeseg.base.options import FOLDER, PATH, SIZE, RegistryName, Shared, listeners
from edgeseg.base.typed_options import REQUIRED, same_as, takes, typed
from edgeseg.bench.compare.candidates import TuneOptions
from edgeseg.bench.compare.tune import run_tune
from edgeseg.bench.latency.turns import Schedule
from edgeseg.cli.bench_options import TimedRun, random_option, use_weights, weights_option
from edgeseg.config import DEFAULT_PRESET, PRESETS, FitConfig
from edgeseg.model.backbones import BACKBONES
from edgeseg.modelfile.precisions import PRECISIONS
from edgeseg.runtime.backends.choose import backend_names
from edgeseg.runtime.backends.session_options import SessionOptions
from edgeseg.runtime.settings.opening_options import OpeningOptions


@dataclass(frozen=True, kw_only=True)
class TuneWishes:
    """The budget, what may be tried, and how it is timed."""

    budget_ms: float = typed(REQUIRED, "Milliseconds that 95 of 100 frames of a camera may take.")
    out: Path = typed(
        Path("tune"),
        "Folder of the model and the report; a search that was stopped goes on there.",
        kind=FOLDER,
        flags=("--out", "-o"),
    )
    backbones: tuple[str, ...] = typed(
        (),
        "May be repeated. [default: all whose weights are here]",
        kind=RegistryName(BACKBONES),
        flags=("--backbone",),
    )
    precisions: tuple[str, ...] = typed(
        (),
        "May be repeated. [default: all that this computer runs]",
        kind=RegistryName(PRECISIONS),
        flags=("--precision",),
    )
    backends: tuple[str, ...] = typed(
        TuneOptions.backends,
        "auto is all that is installed. May be repeated.",
        kind=click.Choice(backend_names()),
        flags=("--backend",),
    )
    preset: str = typed(DEFAULT_PRESET, "Settings of the fits.", kind=RegistryName(PRESETS))
    size_hw: tuple[int, int] | None = typed(
        None, "Image size. [default: the preset's]", kind=SIZE, flags=("--size",)
    )
    planted: int = typed(
        TuneOptions.planted, "Most planted defects to judge by.", kind=click.IntRange(1)
    )
    threads: int | None = typed(
        None, "Of the processor. [default: all cores]", kind=click.IntRange(1)
    )
    spin: bool = same_as(OpeningOptions, "spin")
    rounds: int = same_as(TimedRun, "rounds")
    fresh: bool = typed(False, "Forget what was done in the folder.")
    quiet: bool = same_as(Shared, "quiet")


@click.command()
@click.argument("data", type=PATH)
@takes("wishes", TuneWishes)
@random_option
@weights_option
def tune(data: Path, wishes: TuneWishes, weights: str | None, weights_folder: Path | None) -> None:
    """Find the most accurate model that this computer runs within a budget.

    Backbones, precisions and backends are fitted, exported, verified and timed as a stream runs
    them; a rounded model is fitted again and judged in each backend's own session. All are judged
    on the good images of DATA and on defects planted on copies of them: no defective image is
    looked at.

    \b
    edgeseg tune photos/good --budget-ms 5
    edgeseg tune photos/good --budget-ms 20 --backend openvino --out tuned
    """
    use_weights(weights_folder)
    note, progress = listeners(quiet=wishes.quiet)
    size = {"size_hw": wishes.size_hw} if wishes.size_hw else {}
    options = TuneOptions(
        data=data,
        budget_ms=wishes.budget_ms,
        backbones=wishes.backbones,
        precisions=wishes.precisions,
        backends=wishes.backends,
        preset=wishes.preset,
        config=FitConfig.preset(wishes.preset).with_options(size),
        planted=wishes.planted,
        weights=weights,
        session=SessionOptions(threads=wishes.threads, spin=wishes.spin),
        schedule=Schedule(rounds=wishes.rounds),
    )
    run_tune(options, wishes.out, fresh=wishes.fresh, note=note, progress=progress)
