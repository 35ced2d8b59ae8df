"""README.md: every command in it is run, or parses and says why it is not run."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from edgeseg.bench.results.tables import BLOCKS
from edgeseg.cli.group import COMMANDS
from tests.support import HANGS_S
from tests.support.commands import succeed
from tests.support.documents import DOCUMENTS, REPO, blocks, links, parse_command, section, text_of

README = text_of("README.md")
# What cannot be run in a test, by the words that show it.
NOT_RUN = {
    "--source 0": "needs a camera",
    "--precision fp16 --trt": "needs an NVIDIA GPU",
    "learn line3": "needs marks of an operator; tests/teach has them",
    "--precision int8": "not true to a part this small; test_export_quantise.py runs it",
}
# The same commands on a small part: the options change the time they take and nothing else.
SMALLER = {
    "synthesize": ["--size", "64", "--train", "8", "--test-good", "2", "--test-defective", "2"],
    "fit": ["--size", "64"],
    "eval": ["--quiet"],
    "stream": ["--threads", "2"],
    "bench": ["--rounds", "2", "--threads", "1"],
}
TOOLS = {"make", "pip", "edgeseg", "tail"}
MOST_WORDS = 1300  # of prose: a busy engineer reads to the end
PARTS = [
    *("Thirty seconds", "Five minutes", "On the device", "Teach", "Results", "Limits"),
    "Documents",
]


def commands() -> list[list[str]]:
    """Lines of `sh` blocks, and what stands behind `$` in `console` blocks."""
    found = []
    for language, content in blocks(README):
        assert language in {"sh", "console", "python", ""}, f"a block of {language}: who runs it?"
        lines = content.splitlines() if language in {"sh", "console"} else []
        if language == "console":
            lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        found += [shlex.split(line, comments=True) for line in lines]
    return found


def edgeseg_commands() -> list[list[str]]:
    return [words[1:] for words in commands() if words[0] == "edgeseg"]


def reason_not_to_run(words: list[str]) -> str | None:
    line = shlex.join(words)
    return next((reason for shown, reason in NOT_RUN.items() if shown in line), None)


def test_the_reader_finds_the_commands():
    assert {words[0] for words in commands()} == TOOLS
    assert {"fit", "eval", "export", "stream", "bench"} <= {
        words[0] for words in edgeseg_commands()
    }
    assert {reason_not_to_run(words) for words in edgeseg_commands()} == {None, *NOT_RUN.values()}
    shown = {line for line in shown_outputs() if not line.startswith("tail ")}
    assert len(shown) >= 6
    assert shown <= {shlex.join(words) for words in edgeseg_commands()}


@pytest.mark.parametrize("words", edgeseg_commands(), ids=shlex.join)
def test_every_command_parses(words):
    parse_command(words)


def test_commands_in_sentences_parse():
    """Shortened ones, with `...`, need only exist."""
    found = re.findall(r"`edgeseg ([^`]+)`", re.sub(r"^```.*?^```$", "", README, flags=re.M | re.S))
    assert found
    for line in found:
        words = shlex.split(line)
        if "..." in line or len(words) < 3:
            assert words[0] in COMMANDS
        else:
            parse_command(words)


def shown_outputs() -> dict[str, list[str]]:
    """What the README shows below each command of the tour."""
    (tour,) = [content for language, content in blocks(README) if language == "console"]
    parts = [part.splitlines() for part in tour.split("$ ")[1:]]
    return {lines[0].removeprefix("edgeseg "): lines[1:] for lines in parts}


def shape(text: str) -> str:
    """A line without what depends on the data and the computer."""
    text = re.sub(r"\b(defect|unsure|good),", "VERDICT,", text)
    odd = r"one good part in \d+ looks this odd|odder than all \d+ good parts|as a good part looks"
    text = re.sub(f", ({odd})", "", text)
    text = re.sub(r"\d[\d.]*(e[+-]\d+)?%?( [kM]?B)?", "N", text)
    return " ".join(text.split())


def was_printed(line: str, output: str) -> bool:
    """Whether a line of the README, cut at `...`, is of the shape of one that was printed."""
    pattern = ".*".join(re.escape(shape(piece)) for piece in line.split("..."))
    return any(re.search(pattern, shape(printed)) for printed in output.splitlines())


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the commands fill."""
    return tmp_path_factory.mktemp("readme")


def test_commands_run_in_the_order_of_the_readme(workplace, monkeypatch):
    monkeypatch.chdir(workplace)
    shown = shown_outputs()
    for words in edgeseg_commands():
        if reason_not_to_run(words) is None:
            output = succeed(*words, *SMALLER.get(words[0], [])).output
            for line in filter(str.strip, shown.get(shlex.join(words), [])):
                assert was_printed(line, output), f"{words[0]} does not print {line!r}"
    for name in ("gear.edgeseg", "gear.onnx", "gear-rtx.plan", "events.jsonl"):
        assert Path(name).is_file(), name
    assert Path("events.jsonl").read_text().splitlines()[-2].startswith('{"schema":1,"event":"')


def test_output_that_was_never_printed_is_noticed():
    printed = "fitting on 8 good images of gears\nwrote gear.edgeseg (7.1 MB) in 3.2 s; next: it"
    assert was_printed("fitting on 40 good images of gears", printed)
    assert was_printed("wrote gear.edgeseg (111.9 MB) in ...; next: it", printed)
    assert not was_printed("fitted on 40 good images of gears", printed)


def test_python_runs(workplace):
    """After the commands, whose files it reads; in a process of its own, as for a reader."""
    (code,) = [content for language, content in blocks(README) if language == "python"]
    assert len(code.splitlines()) <= 10
    done = subprocess.run(
        [sys.executable, "-c", code.replace('out="', 'size_hw=(64, 64), out="')],
        cwd=workplace,
        capture_output=True,
        text=True,
        timeout=HANGS_S,
    )
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first.startswith(("True ", "False "))
    assert float(second) > 0


def test_make_targets_are_there():
    targets = set(re.findall(r"^(\w+):", text_of("Makefile"), re.M))
    asked = {words[1] for words in commands() if words[0] == "make"}
    assert asked <= targets
    assert re.search(r"^demo: setup\n\t\$\(BIN\)/edgeseg demo$", text_of("Makefile"), re.M)


def test_extras_exist():
    known = set(re.findall(r"^([\w-]+) = \[", text_of("pyproject.toml"), re.M))
    asked = re.findall(r"edgeseg\[([\w,-]+)\]", README)
    assert {extra for extras in asked for extra in extras.split(",")} <= known


def test_it_can_be_read_to_the_end():
    assert re.findall(r"^## (.+)$", README, re.M) == PARTS
    prose = re.sub(r"^```.*?^```$|<!--.*?-->|^\|.*?$", "", README, flags=re.M | re.S)
    assert len(prose.split()) <= MOST_WORDS


def test_one_table_of_five_rows_and_six_columns_from_the_report():
    table = re.findall(r"^\|.*$", README, re.M)
    begin, end = "<!-- results: begin -->\n", "<!-- results: end -->\n"
    made = README.split(begin)[1].split(end)[0]
    assert "\n".join(table) + "\n" == made == BLOCKS["results"](REPO / "bench" / "results")
    assert len(table) == 2 + 5
    assert {line.count("|") for line in table} == {7}


def test_pictures_are_small_and_shown():
    pictures = set((REPO / "docs" / "pictures").iterdir())
    shown = {
        (path.parent / link).resolve()
        for path in DOCUMENTS
        for link in links(path.read_text(encoding="utf-8"))
    }
    assert pictures <= shown
    assert {path.name for path in pictures if path.stat().st_size > 150_000} == set()
    assert "docs/pictures/teach-collect.jpg" in section(README, "Teach")
