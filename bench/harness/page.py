"""The HTML of a report: one file, nothing fetched, readable on paper and on a phone."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

from edgeseg.bench.harness.tabular import Table

_STYLE = """
:root { --ink: #1d2430; --soft: #5d6778; --line: #dfe4ec; --paper: #fff; --band: #f5f7fa;
  --accent: #0b6bcb; --best: #0a7d4b; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf1; --soft: #9aa5b8; --line: #333c4b;
  --paper: #171c25; --band: #1f2632; --accent: #6db3ff; --best: #4fd39a; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .25rem; }
h2 { font-size: 1.15rem; margin: 2.4rem 0 .6rem; }
.when { color: var(--soft); margin: 0 0 1.4rem; }
.findings { margin: 0; padding: 1rem 1.2rem 1rem 2.2rem; background: var(--band);
  border-left: 4px solid var(--accent); border-radius: 4px; }
.findings li { margin: .25rem 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums;
  font-size: .93rem; }
th, td { padding: .42rem .7rem; text-align: right; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
th { color: var(--soft); font-weight: 600; border-bottom: 2px solid var(--line); }
.wide table { font-size: .8rem; }
.wide th, .wide td { padding: .36rem .42rem; }
th:first-child, td:first-child { text-align: left; }
td.long { white-space: normal; text-align: left; min-width: 14rem; }
tbody tr:nth-child(even) { background: var(--band); }
td.best { color: var(--best); font-weight: 700; }
figure { margin: 0; }
img { max-width: 100%; height: auto; border: 1px solid var(--line); border-radius: 4px;
  background: #fff; }
.note { color: var(--soft); font-size: .9rem; margin: .5rem 0 0; }
details { margin-top: 2.4rem; color: var(--soft); font-size: .9rem; }
code { font-size: .88em; overflow-wrap: anywhere; }
section + section { margin-top: 4rem; border-top: 2px solid var(--line); padding-top: 3rem; }
@media (max-width: 640px) { main { padding: 1.2rem .8rem 3rem; } h1 { font-size: 1.5rem; }
  table { font-size: .8rem; } th, td { padding: .35rem .38rem; } }
@media print { main { max-width: none; } h2, table, figure { break-inside: avoid; } }
"""


@dataclass(frozen=True, kw_only=True)
class PagePicture:
    """A PNG with its title and a note below it."""

    title: str
    note: str
    png: bytes = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class PageSection:
    """One report on a page."""

    title: str
    subtitle: str
    findings: tuple[str, ...]
    tables: tuple[Table, ...]
    pictures: tuple[PagePicture, ...]
    notes: tuple[str, ...]  # what is missing or not comparable
    origin: tuple[str, ...]  # how it was made


def render_page(sections: Sequence[PageSection]) -> str:
    """Render reports as one HTML document; figures are inside it."""
    title = escape(sections[0].title) if sections else "edgeseg"
    body = "\n".join(_section(section) for section in sections)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _section(section: PageSection) -> str:
    pictures = [_figure(picture) for picture in section.pictures]
    parts = [
        "<section>",
        f"<h1>{escape(section.title)}</h1>",
        f'<p class="when">{escape(section.subtitle)}</p>',
        _list(section.findings, css="findings"),
        *pictures[:1],  # the picture that tells most comes before the numbers
        *map(_table, section.tables),
        *pictures[1:],
    ]
    if section.notes:
        parts += ["<h2>What is missing or not comparable</h2>", _list(section.notes)]
    parts += [
        f"<details><summary>How this was made</summary>{_list(section.origin)}</details>",
        "</section>",
    ]
    return "\n".join(parts)


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(column.name)}</th>" for column in table.columns)
    rows, best = [], table.best()
    for row, cells in enumerate(table.texts()):
        columns = [
            _cell(text, first=index == 0, best=(row, index) in best)
            for index, text in enumerate(cells)
        ]
        rows.append(f"<tr>{''.join(columns)}</tr>")
    note = f'<p class="note">{escape(table.note)}</p>' if table.note else ""
    css = "scroll wide" if len(table.columns) > 9 else "scroll"
    return (
        f'<h2>{escape(table.title)}</h2>\n<div class="{css}"><table>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n" + "\n".join(rows) + "\n</tbody></table></div>"
        f"\n{note}"
    )


def _cell(text: str, *, first: bool, best: bool) -> str:
    css = "best" if best else "long" if len(text) > 60 and not first else ""
    return f'<td class="{css}">{escape(text)}</td>' if css else f"<td>{escape(text)}</td>"


def _figure(picture: PagePicture) -> str:
    data = base64.b64encode(picture.png).decode("ascii")
    note = f'<figcaption class="note">{escape(picture.note)}</figcaption>' if picture.note else ""
    return (
        f"<h2>{escape(picture.title)}</h2>\n<figure>"
        f'<img alt="{escape(picture.title)}" src="data:image/png;base64,{data}">{note}</figure>'
    )


def _list(lines: Sequence[str], *, css: str = "") -> str:
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f'<ul class="{css}">{items}</ul>' if css else f"<ul>{items}</ul>"
