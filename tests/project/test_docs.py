"""Documents that belong to the code: the reference of commands is current, links lead somewhere."""

import importlib.util
import re
import shlex
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


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
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
