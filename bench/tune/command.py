"""Search for the most accurate model within a budget, write everything, and say what is best."""

from pathlib import Path

import click

from edgeseg.bench.tune.options import TuneOptions
from edgeseg.errors import EdgesegError
from edgeseg.files import size_text
from edgeseg.progress import Note, Progress


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
