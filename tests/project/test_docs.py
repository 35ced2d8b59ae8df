"""Documents that belong to the code: the reference of commands is current, links lead somewhere."""

import importlib.util
import re
import shlex
from contextlib import suppress
from types import ModuleType

import click
import pytest

from edgeseg.cli.group import COMMANDS, cli
from tests.support.documents import DOCUMENTS, REPO, anchors, blocks, links, parse_command, text_of


def generator() -> ModuleType:
    """docs/cli_reference.py, which is no part of the package."""
    spec = importlib.util.spec_from_file_location("cli_reference", REPO / "docs/cli_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_of_commands_is_current():
    current = generator().reference() == text_of("docs/cli.md")
    assert current, "commands have changed: run `make docs`"


def test_the_reference_names_every_command_and_option():
    text = text_of("docs/cli.md")
    for name in COMMANDS:
        assert f"\n## edgeseg {name}\n" in text
    bench = cli.get_command(click.Context(cli), "bench")
    assert isinstance(bench, click.Group)
    for name, command in bench.commands.items():
        part = text.split(f"\n## edgeseg bench {name}\n")[1].split("\n## ")[0]
        for option in command.params:
            if isinstance(option, click.Option):
                assert option.opts[-1] in part


def relative_links() -> list[pytest.param]:
    found = []
    for path in DOCUMENTS:
        for link in links(path.read_text(encoding="utf-8")):
            if not re.match(r"[a-z]+:", link):
                name = path.relative_to(REPO).as_posix()
                found.append(pytest.param(path, link, id=f"{name} {link}"))
    return found


@pytest.mark.parametrize(("path", "link"), relative_links())
def test_links_lead_somewhere(path, link):
    place, _, anchor = link.partition("#")
    target = path.parent / place if place else path
    assert target.exists(), f"{target} is not there"
    if anchor:
        assert anchor in anchors(target.read_text(encoding="utf-8"))


def test_the_readme_leads_to_every_document():
    reached, new = set(), {REPO / "README.md"}
    while new:
        reached |= new
        targets = {
            (path.parent / link.partition("#")[0]).resolve()
            for path in new
            for link in links(path.read_text(encoding="utf-8"))
        }
        new = targets & set(DOCUMENTS) - reached
    assert set(DOCUMENTS) <= reached


def test_the_index_has_every_page_of_docs():
    index = REPO / "docs" / "README.md"
    pages = {link.partition("#")[0] for link in links(index.read_text(encoding="utf-8"))}
    linked = {(index.parent / page).resolve() for page in pages}
    assert set(index.parent.glob("*.md")) - {index} <= linked
    assert all(path.is_file() for path in linked)


def test_the_index_is_by_task():
    rows = re.findall(r"^\| (.+?) \| (.*?) \|$", text_of("docs/README.md"), re.M)
    assert rows[0][0] == "I want to ..."
    assert all("](" in page or task.startswith("**") for task, page in rows[2:])


def test_figures_name_their_commands():
    """Under every heading of results.md that has figures stands a command, and it exists."""
    parts = re.split(r"^## ", text_of("docs/results.md"), flags=re.M)[1:]
    assert len(parts) >= 4
    for part in parts:
        found = re.findall(r"`(edgeseg bench|python -m edgeseg\.bench)[ .][^`]+`", part)
        assert found, part.splitlines()[0]
    for line in re.findall(r"`edgeseg (bench \w+ [^`]+)`", "".join(parts)):
        parse_command(shlex.split(line))


def commands_in_sentences() -> list[str]:
    """Of pages for users: contributors add options of their own, and changes name old ones."""
    pages = [path for path in DOCUMENTS if path.parent != REPO and path.name != "cli.md"]
    prose = (
        re.sub(r"^```.*?^```$", "", path.read_text("utf-8"), flags=re.M | re.S) for path in pages
    )
    found = {
        " ".join(line.split()) for text in prose for line in re.findall(r"`edgeseg ([^`]+)`", text)
    }
    return sorted(line for line in found if "..." not in line)


@pytest.mark.parametrize("line", commands_in_sentences())
def test_commands_in_sentences_exist(line):
    """What a sentence leaves out may lack; what it says is there, and of its kind."""
    words = shlex.split(line)
    assert words[0] in COMMANDS
    if len(words) > 2:
        with suppress(click.MissingParameter):
            parse_command(words)


def test_make_targets_exist():
    targets = set(re.findall(r"^(\w+):", text_of("Makefile"), re.M))
    texts = "".join(path.read_text("utf-8") for path in DOCUMENTS)
    assert {"docs", "screenshots"} <= set(re.findall(r"`make (\w+)[^`]*`", texts)) <= targets


def modules_to_run() -> list[str]:
    """What `python -m` is to run in documents; reports name commands of their own commit."""
    texts = "".join(path.read_text("utf-8") for path in DOCUMENTS)
    return sorted(set(re.findall(r"python -m ((?:edgeseg|tests|docs)[\w.]*\w)", texts)))


@pytest.mark.parametrize("name", modules_to_run())
def test_modules_to_run_exist(name):
    assert importlib.util.find_spec(name) is not None


@pytest.mark.parametrize(
    "path", DOCUMENTS, ids=lambda path: path.relative_to(REPO).as_posix().replace("/", "-")
)
def test_documents_hold_no_place_of_one_computer(path):
    assert not re.findall(r"(?<![\w./])/(?:work|tmp|root|home)/\S+", path.read_text("utf-8"))


def typed_commands() -> list[str]:
    """What documents and the help of commands tell people to type; `...` marks what is cut."""
    contents = (content for path in DOCUMENTS for _, content in blocks(path.read_text("utf-8")))
    lines = (line for content in contents for line in content.splitlines())
    # Behind two spaces stands what the command does, behind > or | where it goes.
    found = {re.split("  | [>|] ", line)[0] for line in lines if line.startswith("edgeseg ")}
    return sorted(line for line in found if "..." not in line and "[OPTIONS]" not in line)


@pytest.mark.parametrize("line", typed_commands())
def test_commands_to_type_exist(line):
    parse_command(shlex.split(line, comments=True)[1:])
