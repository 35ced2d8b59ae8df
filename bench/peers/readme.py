"""The table of README.md, as a run with peers writes it: `readme-table.md`.

    python -m edgeseg.bench.peers.readme bench/results/peers

Times of one row are computed in one arithmetic, which it says, and threads spin in all or in none.
"""

from dataclasses import replace
from pathlib import Path

import click

from edgeseg.bench.harness.report import read_report
from edgeseg.bench.harness.tabular import Table

# Columns by their names in the report: their names in the README, and digits.
SHOWN = {
    "model": ("model", 0),
    "PRO": ("PRO", 3),
    "PRO 0.05": ("PRO .05", 3),
    "image AUROC": ("image AUROC", 3),
    "recall": ("recall", 2),
    "false alarms": ("false alarms", 2),
    "F1": ("F1", 2),
    "fit s": ("fit s", 0),
    "peak MB": ("fit MB", 0),
    "p50 ms": ("ms", 1),
    "streamed p50 ms": ("ms streamed", 1),
    "processor ms": ("processor ms", 1),
    "p50 ms OpenVINO": ("ms OpenVINO", 1),
    "arithmetic": ("arithmetic", 0),
    "spin": ("spin", 0),
    "MB": ("MB", 0),
}
# Written by version 0.1.0, whose runs did not say in what they computed: as the README had it.
_UNSAID = ("p50 ms OpenVINO",)


def readme_table(table: Table) -> list[str]:
    """The lines to paste, of the first table of a report of peers."""
    names = [column.name for column in table.columns]
    left_out = () if "arithmetic" in names else _UNSAID
    wanted = [name for name in SHOWN if name in names and name not in left_out]
    places = [names.index(name) for name in wanted]
    columns = tuple(
        replace(table.columns[place], name=SHOWN[name][0], digits=SHOWN[name][1])
        for name, place in zip(wanted, places, strict=True)
    )
    rows = tuple(tuple(row[place] for place in places) for row in table.rows)
    lines = Table(title="", columns=columns, rows=rows).lines()
    return [line.replace(" 0.", " .").replace("*0.", "*.") for line in lines]


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
def main(folder: Path) -> None:
    """Print the table of the README from the report in FOLDER."""
    click.echo("\n".join(readme_table(read_report(folder).tables[0])))


if __name__ == "__main__":
    main()
