"""A table of what was tried and what was lost, as JSON and as Markdown."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgeseg.bench.harness.machine import describe
from edgeseg.files import write_json, write_text
from edgeseg.options import note

OUT = Path("bench/results/trust")


def markdown(rows: Sequence[dict[str, Any]]) -> str:
    """A table whose columns are the keys of the first row; lists are counted."""
    columns = list(rows[0])
    lines = [columns, ["---"] * len(columns)]
    lines += [[_cell(row[column]) for column in columns] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def write_rows(out: Path, name: str, *, title: str, rows: Sequence[dict[str, Any]]) -> None:
    """NAME.json with everything, NAME.md with the table and how it was made."""
    facts = describe(threads=1)
    facts["command"] = _without_places(facts["command"])
    write_json(out / f"{name}.json", {"title": title, "rows": list(rows), "facts": facts})
    made = f"`{facts['command']}`, commit {facts['commit']}, {facts['processor']}"
    write_text(out / f"{name}.md", f"# {title}\n\n{markdown(rows)}\n{made}\n")
    note(f"wrote {out / name}.md")


def _without_places(command: str) -> str:
    """The command without the folders of one computer."""
    words = (Path(word).name if word.startswith("/") else word for word in command.split())
    return " ".join(words)


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return str(len(value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)
