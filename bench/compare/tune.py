"""`edgeseg tune`: the most accurate model that this computer runs within a budget.

Light to import: torch is loaded when the data is known to be there.
"""

from pathlib import Path

import click

from edgeseg.base.errors import EdgesegError
from edgeseg.base.files import size_text
from edgeseg.base.messages import Setting
from edgeseg.base.progress import Note, Progress
from edgeseg.bench.compare.candidates import TuneOptions


def run_tune(
    options: TuneOptions, out: Path, *, fresh: bool, note: Note, progress: Progress
) -> None:
    """Search, print the table, and say what is best."""
    from edgeseg.base.tables import align_columns
    from edgeseg.data.datasets import open_dataset

    dataset = open_dataset(options.data, seed=options.config.seed)  # before torch is loaded
    from edgeseg.bench.compare.search import search

    report, best = search(options, dataset, out, fresh=fresh, note=note, progress=progress)
    table = report.tables[0]
    if table.rows:
        heads = [column.name for column in table.columns]
        click.echo("\n".join(align_columns([heads, *table.texts()])))
    for sentence in (*report.notes, *report.findings):
        note(sentence)
    if best is None:
        raise EdgesegError(
            Setting("budget_ms", f"{options.budget_ms:g}"),
            f": no model is fast enough; {out / 'report.md'} has all of them, allow more or "
            "try a smaller image size",
        )
    model = out / "best.onnx"
    note(
        f"wrote {model} ({size_text(model.stat().st_size)}), report.md, report.json, table.csv and "
        f"pareto.png; next: edgeseg stream --model {model} --backend {best.backend} --source 0"
    )
