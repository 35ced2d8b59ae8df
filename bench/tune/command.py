"""`edgeseg tune`."""

from pathlib import Path

import click

from edgeseg.bench.cli.options import use_weights, weights_option
from edgeseg.bench.latency.turns import Schedule
from edgeseg.bench.tune.options import TuneOptions
from edgeseg.config import DEFAULT_PRESET, PRESETS, FitConfig
from edgeseg.contract.precisions import PRECISIONS
from edgeseg.errors import EdgesegError
from edgeseg.files import size_text
from edgeseg.model.backbones import BACKBONES
from edgeseg.options import FOLDER, PATH, SIZE, Entry, listeners, quiet_option
from edgeseg.progress import Note, Progress
from edgeseg.runtime.backends.choose import backend_names
from edgeseg.runtime.backends.session_options import SessionOptions


@click.command()
@click.argument("data", type=PATH)
@click.option(
    "--budget-ms",
    type=float,
    required=True,
    help="Milliseconds that 95 of 100 frames of a camera may take.",
)
@click.option(
    "--out",
    "-o",
    type=FOLDER,
    default="tune",
    show_default=True,
    help="Folder of the model and the report; a search that was stopped goes on there.",
)
@click.option(
    "--backbone",
    "backbones",
    type=Entry(BACKBONES),
    multiple=True,
    help="May be repeated. [default: all whose weights are here]",
)
@click.option(
    "--precision",
    "precisions",
    type=Entry(PRECISIONS),
    multiple=True,
    help="May be repeated. [default: all that this computer runs]",
)
@click.option(
    "--backend",
    "backends",
    type=click.Choice(backend_names()),
    multiple=True,
    default=TuneOptions.backends,
    show_default=True,
    help="auto is all that is installed. May be repeated.",
)
@click.option(
    "--preset",
    type=Entry(PRESETS),
    default=DEFAULT_PRESET,
    show_default=True,
    help="Settings of the fits.",
)
@click.option("--size", "size_hw", type=SIZE, help="Image size. [default: the preset's]")
@click.option(
    "--planted",
    type=click.IntRange(1),
    default=TuneOptions.planted,
    show_default=True,
    help="Most planted defects to judge by.",
)
@click.option("--threads", type=click.IntRange(1), help="Of the processor. [default: all cores]")
@click.option(
    "--spin/--no-spin",
    default=SessionOptions.spin,
    show_default=True,
    help="Let ONNX Runtime's idle threads watch for the next frame, awake.",
)
@click.option(
    "--rounds",
    type=click.IntRange(2),
    default=Schedule.rounds,
    show_default=True,
    help="Rounds of timing; each gives every candidate ten frames, then five streamed.",
)
@click.option("--weights", type=click.Choice(("random",)), help="Times, without the weights.")
@weights_option
@click.option("--fresh", is_flag=True, help="Forget what was done in the folder.")
@quiet_option
def tune(
    data: Path,
    budget_ms: float,
    out: Path,
    backbones: tuple[str, ...],
    precisions: tuple[str, ...],
    backends: tuple[str, ...],
    preset: str,
    size_hw: tuple[int, int] | None,
    planted: int,
    threads: int | None,
    spin: bool,
    rounds: int,
    weights: str | None,
    weights_folder: Path | None,
    fresh: bool,
    quiet: bool,
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
    use_weights(weights_folder)
    note, progress = listeners(quiet=quiet)
    config = FitConfig.preset(preset)
    options = TuneOptions(
        data=data,
        budget_ms=budget_ms,
        backbones=backbones,
        precisions=precisions,
        backends=backends,
        config=config.with_options({"size_hw": size_hw} if size_hw else {}),
        planted=planted,
        weights=weights,
        session=SessionOptions(threads=threads, spin=spin),
        schedule=Schedule(rounds=rounds),
    )
    run_tune(options, out, fresh=fresh, note=note, progress=progress)


def run_tune(
    options: TuneOptions, out: Path, *, fresh: bool, note: Note, progress: Progress
) -> None:
    """Search, write everything, and say what is best."""
    from edgeseg.data.datasets import open_dataset

    dataset = open_dataset(options.data, seed=options.config.seed)  # before torch is loaded
    import torch

    from edgeseg.bench.harness.machine import describe
    from edgeseg.bench.harness.units import Store
    from edgeseg.bench.latency.report import timing_notes
    from edgeseg.bench.tune.here import grid_here
    from edgeseg.bench.tune.report import best_of, keep_best, rows_of, text_of, write_results
    from edgeseg.bench.tune.search import Search

    torch.set_num_threads(options.session.thread_count)
    facts = describe(threads=options.session.thread_count, seeds=(options.config.seed,))
    grid = grid_here(options)
    search = Search(
        options=options, grid=grid, dataset=dataset, out=out, note=note, progress=progress
    )
    found = search.run(Store(out, fresh=fresh))
    rows = rows_of(found, budget_ms=options.budget_ms)
    notes = timing_notes(found.timed, note=note) if found.timed else []
    report = write_results(found, rows, out, options=options, facts=facts, notes=notes)
    if rows:
        click.echo(text_of(report.tables[0]))
    for sentence in (*report.notes, *report.findings):
        note(sentence)
    best = best_of(rows)
    if best is None:
        raise EdgesegError(
            f"budget_ms={options.budget_ms:g}: no model is fast enough; {out / 'report.md'} has "
            "all of them, allow more or try a smaller image size"
        )
    model = keep_best(search.file(best.backbone, best.precision, best.backend), out)
    note(
        f"wrote {model} ({size_text(model.stat().st_size)}), report.md, report.json, table.csv and "
        f"pareto.png; next: edgeseg stream --model {model} --backend {best.backend} --source 0"
    )
