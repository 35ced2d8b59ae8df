"""Rules for the threshold side by side, on the scores that a run of by_images kept.

python -m edgeseg.bench.choices.replay bench/results/decide/by_images

Nothing is fitted: rules.md and recall.png are written beside the report, in seconds.
"""

from pathlib import Path

import click

from edgeseg.base.errors import EdgesegError
from edgeseg.base.files import write_text
from edgeseg.base.options import FOLDER, note
from edgeseg.bench.choices.by_images import ImagesRow, kept_results, rows
from edgeseg.bench.choices.threshold_rules import RULES, TAIL
from edgeseg.bench.harness.figures import Curve, curves
from edgeseg.bench.harness.report import Report, read_report
from edgeseg.bench.harness.tabular import table_of

_HOW = (
    "Made of report.json beside it by `python -m edgeseg.bench.choices.replay FOLDER`. A rule that "
    "leaves scores out still says what all of them could promise."
)


def rule_rows(report: Report) -> list[ImagesRow]:
    """Return a row for each number of images and rule."""
    return list(rows(kept_results(report.raw), RULES))


def rules_page(report: Report) -> str:
    """Write the rows as a page."""
    table = table_of("Rules for the threshold", rule_rows(report), note=report.tables[0].note)
    return f"{table.markdown()}\n{_HOW}\n"


def draw_recall(report: Report, target: Path) -> None:
    """Plot what fits find and flag over their number of images, with 95 %."""
    results = kept_results(report.raw)
    whole = [len(tried.good) for draw, tried in results.items() if draw.images is None]
    shown = list(rows(results, [TAIL]))
    numbers = sorted({draw.images for draw in results if draw.images is not None})
    images = [*map(float, numbers), sum(whole) / len(whole)]
    curves(
        [
            Curve(
                name="defects found",
                x=images,
                y=[each.recall for each in shown],
                low=[each.recall_low for each in shown],
                high=[each.recall_high for each in shown],
            ),
            Curve(
                name="good parts flagged",
                x=images,
                y=[each.flagged for each in shown],
                low=[each.flagged_low for each in shown],
                high=[each.flagged_high for each in shown],
            ),
        ],
        target,
        x_name="good images (the last point: all that there are, in the mean)",
        y_name="share, with 95 % over kinds of parts",
        log_x=True,
    )


@click.command()
@click.argument("folder", type=FOLDER)
def main(folder: Path) -> None:
    """Judge rules on the scores that the report in FOLDER kept."""
    try:
        report = read_report(folder)
    except EdgesegError as error:
        raise click.ClickException(str(error)) from None
    write_text(folder / "rules.md", rules_page(report))
    draw_recall(report, folder / "recall.png")
    note(f"wrote {folder / 'rules.md'} and {folder / 'recall.png'}")


if __name__ == "__main__":
    main()
