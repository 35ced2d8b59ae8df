"""A folder of results: report.md, report.json, PNG figures and one page to share."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgeseg.base.errors import UsageError
from edgeseg.base.files import write_json, write_text
from edgeseg.bench.harness.page import PagePicture, PageSection, render_page
from edgeseg.bench.harness.tabular import Table

SCHEMA = 1


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A PNG in the folder of the report."""

    title: str
    file: str
    note: str = ""
    shareable: bool = True  # False: shows images of a data set, which stay out of a repository


@dataclass(frozen=True, kw_only=True)
class Report:
    """Sentences, tables and figures of one measurement, with the facts that explain them."""

    name: str  # latency, compare, paper, peers, small, fit-cost
    title: str
    findings: tuple[str, ...]
    tables: tuple[Table, ...]
    figures: tuple[Figure, ...]
    facts: dict[str, Any]  # of edgeseg.bench.harness.machine.describe
    notes: tuple[str, ...] = ()  # what is absent, what cannot be compared
    raw: dict[str, Any] = field(default_factory=dict)

    def markdown(self) -> str:
        """Write the whole report as Markdown, figures by their file names."""
        parts = [f"# {self.title}", "", *[f"- {line}" for line in self.findings], ""]
        for table in self.tables:
            parts += [table.markdown()]
        for figure in self.figures:
            shown = f"![{figure.title}]({figure.file})"
            hidden = f"In report.html and {figure.file}, which are not kept in a repository."
            parts += [f"### {figure.title}", "", shown if figure.shareable else hidden, ""]
            parts += [figure.note, ""] if figure.note else []
        if self.notes:
            parts += ["### What is missing or not comparable", ""]
            parts += [*[f"- {line}" for line in self.notes], ""]
        parts += ["### How this was made", "", *_fact_lines(self.facts)]
        return "\n".join(parts) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values, enough to make the page again."""
        return {
            "schema": SCHEMA,
            "name": self.name,
            "title": self.title,
            "findings": list(self.findings),
            "tables": [table.to_dict() for table in self.tables],
            "figures": [figure.__dict__ for figure in self.figures],
            "facts": self.facts,
            "notes": list(self.notes),
            "raw": self.raw,
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Report":
        """Read what to_dict wrote."""
        return cls(
            name=values["name"],
            title=values["title"],
            findings=tuple(values["findings"]),
            tables=tuple(Table.from_dict(table) for table in values["tables"]),
            figures=tuple(Figure(**figure) for figure in values["figures"]),
            facts=values["facts"],
            notes=tuple(values["notes"]),
            raw=values["raw"],
        )


def write_report(report: Report, folder: Path) -> Path:
    """Write Markdown, JSON and the page; figures are in the folder already."""
    write_text(folder / "report.md", report.markdown())
    write_json(folder / "report.json", report.to_dict())
    page = folder / "report.html"
    write_page([(report, folder)], page)
    return page


def write_page(parts: list[tuple[Report, Path]], target: Path) -> None:
    """Write one self-contained page of reports, each with the folder of its figures."""
    sections = [_section(report, folder) for report, folder in parts]
    write_text(target, render_page(sections))


def read_report(folder: Path) -> Report:
    """Read the report that a run left in a folder."""
    path = folder / "report.json"
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{folder}: no report.json; expected the folder of a bench run") from None
    except json.JSONDecodeError as error:
        raise UsageError(f"{path}: not JSON ({error}); run the measurement again") from None
    if values.get("schema") != SCHEMA:
        raise UsageError(f"{path}: schema {values.get('schema')!r}, expected {SCHEMA}; run again")
    return Report.from_dict(values)


def _section(report: Report, folder: Path) -> PageSection:
    facts = report.facts
    return PageSection(
        title=report.title,
        subtitle=f"{facts['date']} · {facts['processor']} · {facts['threads']} threads",
        findings=report.findings,
        tables=report.tables,
        pictures=tuple(
            PagePicture(title=figure.title, note=figure.note, png=_png(folder / figure.file))
            for figure in report.figures
        ),
        notes=report.notes,
        origin=tuple(line.removeprefix("- ").replace("`", "") for line in _fact_lines(facts)),
    )


def _png(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise UsageError(f"{path}: missing, but the report shows it; run it again") from None


def _fact_lines(facts: dict[str, Any]) -> list[str]:
    versions = ", ".join(f"{name} {number}" for name, number in sorted(facts["versions"].items()))
    lines = [
        f"- command: `{facts['command']}`",
        f"- {facts['date']}, commit {facts['commit']}, seeds {facts['seeds'] or 'none'}",
        f"- {facts['processor']}, {facts['cores']} cores ({facts['threads']} threads used), "
        f"{facts['memory_gb']} GB, GPU: {facts['gpu'] or 'none'}, {facts['system']}",
        f"- Python {facts['python']}, {versions}",
    ]
    if "cores_taken" in facts:
        others, stolen = facts["cores_taken"]["others"], facts["cores_taken"]["stolen"]
        taken = f"other processes {others:.1%}, the host of a virtual machine {stolen:.1%}"
        lines.append(f"- took cores from us while timing: {taken}")
    if set(facts.get("commits", [])) - {facts["commit"]}:
        lines.append(
            f"- measured with commits {', '.join(facts['commits'])}, written with this one"
        )
    if facts.get("work_seconds") is not None:
        lines.append(f"- the measurements took {facts['work_seconds'] / 60:.1f} minutes in all")
    return lines
