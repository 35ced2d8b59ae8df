"""What every study of rounding is asked for, and how it ends."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from edgeseg.bench.harness.accuracy import open_limited
from edgeseg.bench.harness.category_study import gathered
from edgeseg.bench.harness.report import Report
from edgeseg.data.datasets import Dataset
from edgeseg.options import FOLDER, note


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Categories, each a folder as MVTec AD has it, and how they are measured."""

    data: tuple[Path, ...]
    weights: str | None
    limit: int | None
    threads: int
    fresh: bool
    out: Path

    def datasets(self) -> tuple[Dataset, ...]:
        """The categories, cut for a rehearsal."""
        return tuple(open_limited(path, limit=self.limit) for path in self.data)

    def show(self, report: Report) -> None:
        """Print what was found, and say where it is."""
        for table in report.tables:
            click.echo(table.markdown())
        note(f"wrote {self.out / 'report.md'}, report.json and report.html")


def asked_options() -> Callable[[Any], Any]:
    """Options that reach a study as one Asked, `asked`."""
    return gathered(
        "asked",
        Asked,
        click.argument(
            "data", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True)
        ),
        click.option(
            "--weights", type=click.Choice(("random",)), help="Without real ones: a rehearsal."
        ),
        click.option(
            "--limit", type=click.IntRange(2), help="Images of each kind, for a rehearsal."
        ),
        click.option("--threads", type=click.IntRange(1), default=1, show_default=True),
        click.option("--fresh", is_flag=True, help="Forget results in the folder."),
        click.option("--out", "-o", type=FOLDER, required=True, help="Folder of the report."),
    )
