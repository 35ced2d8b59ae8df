"""The table of what was tried and lost, from the reports of the endurance runs."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

_RUN = "python -m tests.endurance."


class TrustRow(NamedTuple):
    """One row of the table; the names are its heading."""

    what: str
    how_often: str
    lost: str
    command: str


def fuzz(report: dict[str, Any]) -> TrustRow:
    """Count damaged files and messages."""
    rows = report["rows"]
    cases = [row["cases"] for row in rows]
    found = sum(len(row["findings"]) for row in rows)
    slowest = max(row["slowest_s"] for row in rows)
    formats = sorted(row["format"] for row in rows)
    each = f"{min(cases):,}" if min(cases) == max(cases) else f"{min(cases):,} or more"
    return TrustRow(
        f"damaged files and messages of {len(formats)} formats: {', '.join(formats)}",
        f"{each} each, {sum(cases):,} in all, in bounded time and memory",
        f"{found or 'none'} ended as none may; the slowest took {slowest:.1f} s",
        f"{_RUN}fuzz --format all --count 100000 --seed 7",
    )


def flips(report: dict[str, Any]) -> TrustRow:
    """Count turned bits."""
    models = report["rows"]
    pieces = sum(len(model["refused"]) for model in models)
    tried = sum(model["flips_each"] * len(model["refused"]) for model in models)
    loaded = tried - sum(sum(model["refused"].values()) for model in models)
    return TrustRow(
        "a bit turned over in every piece of a model that decides",
        f"{tried:,}, in {pieces} pieces of {len(models)} files",
        f"{loaded or 'none'} was loaded",
        f"{_RUN}bit_flips",
    )


def kills(report: dict[str, Any]) -> TrustRow:
    """Count commands that were killed."""
    rows = report["rows"]
    tried = [row["tried"] for row in rows]
    each = f"{min(tried)} to {max(tried)}" if min(tried) < max(tried) else str(min(tried))
    return TrustRow(
        "SIGKILL at random moments: " + ", ".join(row["job"] for row in rows),
        f"{each} each, {sum(tried):,} in all, {sum(row['killed'] for row in rows):,} of them "
        "before the command had ended",
        _losses(rows),
        f"{_RUN}kills --count {max(tried)}",
    )


def faults(report: dict[str, Any]) -> TrustRow:
    """Count commands that ran out of something."""
    rows = report["rows"]
    well, said = (sum(row[key] for row in rows) for key in ("went_well", "one_sentence"))
    return TrustRow(
        ", ".join(row["fault"] for row in rows) + ", spread over all commands that write",
        f"{rows[0]['runs']} each, {sum(row['runs'] for row in rows):,} in all",
        f"{_losses(rows)}; {well} went well, {said} ended in one sentence",
        f"{_RUN}faults --count 40",
    )


def soak(report: dict[str, Any]) -> TrustRow:
    """Count frames, triggers and results of a whole line."""
    rows = report["rows"]
    total = {key: sum(row[key] for row in rows) for key in ("in", "scored", "dropped", "triggers")}
    answered = sum(row["received"] for row in rows if row["triggers"])
    apart = sum(abs(row["not accounted for"]) for row in rows)
    ends = [row["threads"].split(" to ") for row in rows]
    same = all(least == most for least, most in ends)
    counted = (
        f"{total['in']:,} in = {total['scored']:,} scored + {total['dropped']:,} dropped"
        f"{f', {apart} not accounted for' if apart else ''}; {total['triggers']:,} triggers, "
        f"{answered:,} results"
    )
    return TrustRow(
        "a line of four cameras, three viewers, and PLCs that trigger over Modbus and MQTT",
        f"{rows[0]['minutes']:.0f} minutes, {total['in']:,} frames, {total['triggers']:,} triggers",
        f"{counted}; threads {'stay' if same else 'vary'}; descriptors: "
        f"{_by_stream(rows, 'descriptors')}; p99 of the quarters in ms: "
        f"{_by_stream(rows, 'p99 ms by quarter')}; MB an hour with 95 % confidence: "
        f"{_by_stream(rows, 'MB per hour')}",
        f"{_RUN}soak_line --model part.onnx --minutes 60",
    )


def _losses(rows: Sequence[dict[str, Any]]) -> str:
    """Count in words the entries of all lists in the rows: a list holds what was lost."""
    keys = [key for key, value in rows[0].items() if isinstance(value, list)]
    counts = {key: sum(len(row[key]) for row in rows) for key in keys}
    words = [f"{count} {key.replace('_', ' ')}" for key, count in counts.items() if count]
    return ", ".join(words) or "nothing"


def _by_stream(rows: Sequence[dict[str, Any]], key: str) -> str:
    return "; ".join(f"{row['stream']} {row[key]}" for row in rows)


# By the name of the report; one that is not there has no row.
ROWS: dict[str, Callable[[dict[str, Any]], TrustRow]] = {
    "fuzz": fuzz,
    "flips": flips,
    "kills": kills,
    "faults": faults,
    "soak": soak,
}


def _rows(folder: Path) -> Iterator[TrustRow]:
    for name, make in ROWS.items():
        path = folder / f"{name}.json"
        if path.is_file():
            row = make(json.loads(path.read_text(encoding="utf-8")))
            yield row._replace(command=f"`{row.command}`")


def trust_table(folder: Path) -> str:
    """Write the table of the reports in a folder in Markdown."""
    heads = [name.replace("_", " ") for name in TrustRow._fields]
    lines = [heads, ["---"] * len(heads), *_rows(folder)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
