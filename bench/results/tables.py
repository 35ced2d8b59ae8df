"""Make the tables of README.md and docs/ from the reports: no figure is typed by hand.

    python -m edgeseg.bench.results.tables [FOLDER ...]

A table stands between `<!-- NAME: begin -->` and `<!-- NAME: end -->`. New reports of endurance
runs in FOLDERs (kills.json, faults.json, fuzz.json, flips.json, soak.json) are taken into
bench/results/trust first. A test compares the documents with the reports.
"""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from edgeseg.base.files import write_text
from edgeseg.base.options import FOLDER, note
from edgeseg.bench.choices.replay import rule_rows
from edgeseg.bench.harness.report import read_report
from edgeseg.bench.results.model_tables import all_models, few_models
from edgeseg.bench.results.recall_table import recall_table, rules_table, write_usual_recall
from edgeseg.bench.results.trust_table import ROWS, trust_table
from edgeseg.decision.usual_recall import FILE

RESULTS = Path("bench/results")
BY_IMAGES = Path("decide/by_images")
# Names of blocks, and what makes their Markdown of the folder of reports.
BLOCKS: dict[str, Callable[[Path], str]] = {
    "results": lambda results: few_models(read_report(results / "peers").tables[0]),
    "peers": lambda results: all_models(read_report(results / "peers").tables[0]),
    "trust": lambda results: trust_table(results / "trust"),
    "recall": lambda results: recall_table(read_report(results / BY_IMAGES).tables[0]),
    "rules": lambda results: rules_table(rule_rows(read_report(results / BY_IMAGES))),
}


def documents(root: Path) -> Iterator[Path]:
    """List the pages that may have tables."""
    yield root / "README.md"
    yield from sorted((root / "docs").glob("*.md"))


def with_tables(text: str, results: Path) -> str:
    """Return the text of a page with all its tables made anew."""
    for name, make in BLOCKS.items():
        before, begin, rest = text.partition(f"<!-- {name}: begin -->\n")
        _, end, after = rest.partition(f"<!-- {name}: end -->\n")
        if end:
            text = f"{before}{begin}{make(results)}{end}{after}"
    return text


@click.command()
@click.argument("folders", nargs=-1, type=FOLDER)
def main(folders: tuple[Path, ...]) -> None:
    """Copy new reports, and write all tables anew."""
    for folder in folders:
        for path in sorted(folder.iterdir()):
            if path.stem in ROWS and path.suffix in (".json", ".md"):
                shutil.copyfile(path, RESULTS / "trust" / path.name)
                note(f"took {path.name}")
    if (RESULTS / BY_IMAGES).is_dir():
        write_usual_recall(read_report(RESULTS / BY_IMAGES).tables[0], FILE)
    for page in documents(Path()):
        text = page.read_text(encoding="utf-8")
        made = with_tables(text, RESULTS)
        if made != text:
            write_text(page, made)
            note(f"wrote {page}")


if __name__ == "__main__":
    main()
