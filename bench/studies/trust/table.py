"""The table of docs/trust.md, and in short that of README.md: no figure is typed by hand.

    python -m edgeseg.bench.studies.trust.table [FOLDER ...]

Reports in FOLDERs (kills.json, faults.json, fuzz.json, soak.json ...) are taken into
bench/results/trust first. A test holds both pages to the reports.
"""

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from edgeseg.bench.studies.trust.faults import LOSSES as FAULT_LOSSES
from edgeseg.bench.studies.trust.kills import LOSSES as KILL_LOSSES
from edgeseg.bench.studies.trust.report import OUT
from edgeseg.contract.precisions import PRECISIONS
from edgeseg.files import write_text
from edgeseg.options import FOLDER, note
from edgeseg.runtime.web.connections import MAX_CONNECTIONS

PAGE, README = Path("docs/trust.md"), Path("README.md")
BEGIN, END = "<!-- trust: begin -->\n", "<!-- trust: end -->\n"
TAKEN = ("kills", "faults", "fuzz", "flips", "soak", "score_numbers", "promise")
_STUDY = "python -m edgeseg.bench.studies."


class Line(NamedTuple):
    """One line of the table."""

    what: str
    often: str
    lost: str
    command: str
    short: str = ""  # what was lost in short; empty: as it is

    @property
    def brief(self) -> tuple[str, str, str]:
        """For readers who want to know if they have to read on."""
        return (
            self.what.partition(": ")[0],
            self.often.partition(", in ")[0],
            self.short or self.lost,
        )


def _number(count: float) -> str:
    return f"{count:,.0f}"


def _lists(rows: Sequence[dict[str, Any]], *keys: str) -> str:
    """How many entries the lists of all rows have, in words."""
    counts = {key: sum(len(row[key]) for row in rows) for key in keys}
    words = [f"{count} {key.replace('_', ' ')}" for key, count in counts.items() if count]
    return ", ".join(words) or "nothing"


def kills(report: dict[str, Any]) -> Line:
    """Commands that were killed."""
    rows = report["rows"]
    tried = [row["tried"] for row in rows]
    each = f"{min(tried)} to {max(tried)}" if min(tried) < max(tried) else str(min(tried))
    return Line(
        "SIGKILL at random moments: " + ", ".join(row["job"] for row in rows),
        f"{each} each, {_number(sum(tried))} in all, {_number(sum(r['killed'] for r in rows))} of "
        "them before the command had ended",
        _lists(rows, *KILL_LOSSES),
        f"{_STUDY}trust.kills --count 200",
    )


def faults(report: dict[str, Any]) -> Line:
    """Commands that ran out of something."""
    rows = report["rows"]
    well, said = (sum(row[key] for row in rows) for key in ("went_well", "one_sentence"))
    lost = _lists(rows, *FAULT_LOSSES)
    return Line(
        ", ".join(row["fault"] for row in rows) + ", spread over all commands that write",
        f"{rows[0]['runs']} each, {_number(sum(row['runs'] for row in rows))} in all",
        f"{lost}; {well} went well, {said} ended in one sentence",
        f"{_STUDY}trust.faults --count 40",
        short=lost,
    )


def fuzz(report: dict[str, Any]) -> Line:
    """Damaged input."""
    formats = report["formats"]
    cases = [facts["cases"] for facts in formats.values()]
    found = sum(len(facts["findings"]) for facts in formats.values())
    slowest = max(facts["slowest_s"] for facts in formats.values())
    each = _number(min(cases)) if min(cases) == max(cases) else f"{_number(min(cases))} or more"
    return Line(
        f"damaged files and messages of {len(formats)} formats: {', '.join(sorted(formats))}",
        f"{each} each, {_number(sum(cases))} in all, in bounded time and memory",
        f"{found or 'none'} ended as none may; the slowest took {slowest:.1f} s",
        f"{_STUDY}fuzz --format all --count 100000 --seed 7",
        short=f"{found or 'nothing'}",
    )


def flips(report: dict[str, Any]) -> Line:
    """Turned bits."""
    models = report["models"].values()
    pieces = sum(len(model["refused"]) for model in models)
    tried = sum(model["flips_each"] * len(model["refused"]) for model in models)
    loaded = tried - sum(sum(model["refused"].values()) for model in models)
    return Line(
        "a bit turned over in every piece of a model that decides",
        f"{_number(tried)}, in {pieces} pieces of {len(models)} files",
        f"{loaded or 'none'} was loaded",
        f"{_STUDY}trust.bit_flips",
    )


def soak(report: dict[str, Any]) -> Line:
    """The whole line."""
    rows = report["rows"]
    total = {key: sum(row[key] for row in rows) for key in ("in", "scored", "dropped", "triggers")}
    answered = sum(row["received"] for row in rows if row["triggers"])
    same = all(row["threads"].split(" to ")[0] == row["threads"].split(" to ")[1] for row in rows)
    counted = (
        f"{_number(total['in'])} in = {_number(total['scored'])} scored + "
        f"{_number(total['dropped'])} dropped{_off(rows)}; {_number(total['triggers'])} triggers, "
        f"{_number(answered)} results"
    )
    return Line(
        "a line of four cameras, three viewers, and PLCs that trigger over Modbus and MQTT",
        f"{rows[0]['minutes']:.0f} minutes, {_number(total['in'])} frames, "
        f"{_number(total['triggers'])} triggers",
        f"{counted}; threads {'stay' if same else 'vary'}; descriptors: "
        f"{_by_stream(rows, 'descriptors')}; p99 of the quarters in ms: "
        f"{_by_stream(rows, 'p99 ms by quarter')}; MB an hour with 95 % confidence: "
        f"{_by_stream(rows, 'MB per hour')}",
        f"{_STUDY}line.soak_line --model part.onnx --minutes 60",
        short=counted,
    )


def _by_stream(rows: Sequence[dict[str, Any]], key: str) -> str:
    return "; ".join(f"{row['stream']} {row[key]}" for row in rows)


def _off(rows: Sequence[dict[str, Any]]) -> str:
    off = sum(abs(row["not accounted for"]) for row in rows)
    return f", {off} not accounted for" if off else ""


def score_numbers(report: dict[str, Any]) -> Line:
    """Scores as numbers."""
    rows = report["rows"]
    broken = [row["what"] for row in rows if not row["kept"]]
    named = {row["what"].partition(",")[0] for row in rows}
    tried = ", ".join(name for name in PRECISIONS if name in named)
    return Line(
        f"scores in {tried}, ONNX Runtime and OpenVINO: finite, the same in any order, batch and "
        "number of threads, larger for larger spots, within the bounds of export",
        f"{max(row['frames'] for row in rows)} frames",
        ", ".join(broken) or f"none of {len(rows)} bounds",
        f"{_STUDY}precision.score_numbers --count 1000",
    )


def promise(report: dict[str, Any]) -> Line:
    """False alarms."""
    rows = report["rows"]
    whole = [row for row in rows if row["category"] == "all"] or rows
    told = "; ".join(
        f"asked {row['asked']}: {row['alarms']} alarms, {row['interval']}" for row in whole
    )
    names = sorted({row["category"] for row in rows} - {"all"})
    return Line(
        f"false alarms on unseen good images: {', '.join(names)}",
        f"{whole[0]['good images']} images",
        told,
        f"{_STUDY}decide.promise CATEGORY ...",
    )


def triggers(report: dict[str, Any]) -> Line:
    """Triggers and cuts."""
    rows = report["tallies"]
    keys = ("lost", "doubled", "out_of_order", "good_without_inspection")
    counts = {key: sum(row[key] for row in rows) for key in keys}
    lost = [f"{count} {key.replace('_', ' ')}" for key, count in counts.items() if count]
    adapters = ", ".join(dict.fromkeys(row["adapter"] for row in rows))
    return Line(
        f"triggers over {adapters}; camera, broker and connection cut at random",
        f"{_number(sum(row['triggers'] for row in rows))}, and "
        f"{sum(row['cuts'] for row in rows)} cuts",
        ", ".join(lost) or "none; none doubled, out of order, or good without an inspection",
        f"{_STUDY}line.triggers --opcua-triggers 10000",
    )


def changeovers(*reports: dict[str, Any]) -> Line:
    """Recipes under load."""
    rows = [row for report in reports for row in report["phases"]]
    wrong = sum(row["wrong_recipe"] + row["out_of_order"] for row in rows)
    lost = sum(row["triggers"] - row["results"] for row in rows)
    return Line(
        "recipes changed under load",
        f"{sum(row['changes'] for row in rows)}",
        f"{lost or 'no'} trigger; {wrong or 'none'} judged by another recipe",
        f"{_STUDY}line.changeover",
    )


def lenses(report: dict[str, Any]) -> Line:
    """Frames that show no part."""
    shown = [one for group in report["raw"].values() for one in group["shown"]]
    rows = [one for one in shown if one["kind"] == "lens"]
    good: Counter[str] = Counter()
    for row in rows:
        good[row["frames"]] += row["verdicts"].get("good", 0)
    told = ", ".join(f"{name} {count}" for name, count in good.items() if count)
    return Line(
        "lenses covered, blurred and darkened: " + ", ".join(good),
        f"{sum(sum(row['verdicts'].values()) for row in rows)} frames",
        f"called good: {told or 'none'}",
        f"{_STUDY}decide.foreign mvtec_ad more --video video --train 80 --out out",
    )


def connections(test: str) -> Line:
    """Connections that hold their places; the counts are the server's own."""
    return Line(
        "connections that send a byte now and then",
        f"{MAX_CONNECTIONS}, and {2 * MAX_CONNECTIONS} more",
        "no health check" if "2 * MAX_CONNECTIONS" in test else "?",
        "pytest tests/runtime/web/test_connections.py",
    )


def addresses(test: str) -> Line:
    """Made-up passwords; the count is the test's own."""
    found = re.search(r"range\(([\d_]+)\)", test)
    return Line(
        "addresses with made-up passwords",
        _number(int(found[1])) if found else "?",
        "no four characters of one",
        "pytest tests/runtime/capture/test_redact.py",
    )


# What is read, and the line that is made of it; reports that are not there are left out.
SOURCES: tuple[tuple[Callable[..., Line], tuple[str, ...]], ...] = (
    (fuzz, ("bench/results/trust/fuzz.json",)),
    (flips, ("bench/results/trust/flips.json",)),
    (kills, ("bench/results/trust/kills.json",)),
    (faults, ("bench/results/trust/faults.json",)),
    (soak, ("bench/results/trust/soak.json",)),
    (triggers, ("bench/results/line/triggers.json",)),
    (
        changeovers,
        ("bench/results/line/changeover.json", "bench/results/line/changeover-models.json"),
    ),
    (score_numbers, ("bench/results/trust/score_numbers.json",)),
    (promise, ("bench/results/trust/promise.json",)),
    (lenses, ("bench/results/decide/foreign/report.json",)),
    (connections, ("tests/runtime/web/test_connections.py",)),
    (addresses, ("tests/runtime/capture/test_redact.py",)),
)


def lines_of(root: Path) -> Iterator[Line]:
    """One for every report that is there."""
    for make, names in SOURCES:
        found = [_read(root / name) for name in names if (root / name).is_file()]
        if found:
            yield make(*found)


def table(root: Path) -> str:
    """All lines, as Markdown."""
    rows = [(one.what, one.often, one.lost, f"`{one.command}`") for one in lines_of(root)]
    return _markdown(("what", "how often", "lost", "command"), rows)


def short_table(root: Path) -> str:
    """The same in short."""
    return _markdown(("what", "how often", "lost"), [one.brief for one in lines_of(root)])


def _markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _read(path: Path) -> Any:
    text = path.read_text(encoding="utf-8")
    return json.loads(text) if path.suffix == ".json" else text


def page_with(text: str, made: str) -> str:
    """The page with another table between its marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{made}{END}{after}"


@click.command()
@click.argument("folders", nargs=-1, type=FOLDER)
def main(folders: tuple[Path, ...]) -> None:
    """Take reports in, and write both tables anew."""
    for folder in folders:
        for path in sorted(folder.iterdir()):
            if path.stem in TAKEN and path.suffix in (".json", ".md"):
                shutil.copyfile(path, OUT / path.name)
                note(f"took {path.name}")
    for page, made in ((PAGE, table(Path())), (README, short_table(Path()))):
        write_text(page, page_with(page.read_text(encoding="utf-8"), made))
        note(f"wrote {page}")


if __name__ == "__main__":
    main()
