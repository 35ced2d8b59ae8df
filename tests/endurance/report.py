"""A table of what was tried and what was lost, as JSON and as Markdown.

A run may be cut short, or try a part only: its report is continued, not written anew.
"""

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from edgeseg.base.files import write_json, write_text
from edgeseg.base.options import note
from edgeseg.bench.harness.machine import describe

OUT = Path("bench/results/trust")


def markdown(rows: Sequence[dict[str, Any]]) -> str:
    """A table whose columns are the keys of the first row; lists are counted."""
    columns = list(rows[0])
    lines = [columns, ["---"] * len(columns)]
    lines += [[_cell(row.get(column, "")) for column in columns] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def write_rows(
    out: Path,
    name: str,
    *,
    title: str,
    rows: Sequence[dict[str, Any]],
    known: Collection[str] = (),
) -> None:
    """Write NAME.json with everything, NAME.md with the table and how it was made.

    The first column names a row. Names of `known` that this run did not try keep the rows that
    they have in the report.
    """
    rows = _with_kept(out / f"{name}.json", rows, list(known))
    facts = describe(threads=1)
    facts["command"] = _without_places(facts["command"])
    write_json(out / f"{name}.json", {"title": title, "rows": list(rows), "facts": facts})
    made = f"`{facts['command']}`, commit {facts['commit']}, {facts['processor']}"
    write_text(out / f"{name}.md", f"# {title}\n\n{markdown(rows)}\n{made}\n")
    note(f"wrote {out / name}.md")


def _with_kept(
    path: Path, rows: Sequence[dict[str, Any]], known: list[str]
) -> Sequence[dict[str, Any]]:
    """The rows, among those that the report has of other known names; same columns, known order."""
    columns = list(rows[0])
    key = columns[0]
    left = set(known) - {row[key] for row in rows}
    if not left or not path.is_file():
        return rows
    found = json.loads(path.read_text(encoding="utf-8"))["rows"]
    kept = [{column: row.get(column, "") for column in columns} for row in found]
    merged = [*(row for row in kept if row[key] in left), *rows]
    return sorted(merged, key=lambda row: known.index(row[key]))


def _without_places(command: str) -> str:
    """The command without the folders of one computer."""
    words = (Path(word).name if word.startswith("/") else word for word in command.split())
    return " ".join(words)


def _cell(value: Any) -> str:
    if isinstance(value, list | dict):
        return str(len(value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)
