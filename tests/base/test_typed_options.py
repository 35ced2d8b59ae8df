"""A record's fields as options of the command line."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import click
import pytest
from click.testing import CliRunner

from edgeseg.base.options import FILE, SIZE, Names
from edgeseg.base.typed_options import REQUIRED, GroupedCommand, options_of, same_as, takes, typed
from edgeseg.runtime.settings.adapter_kinds import ADAPTERS


@dataclass(frozen=True, kw_only=True)
class Told:
    address: str | None = typed(None, "Where.", metavar="URL")
    result_buffer: int = typed(16, "How many.")
    wait: float = typed(0.5, "How long.")
    on_verdict: tuple[str, ...] = typed((), "What to run.", metavar="COMMAND")
    secret_file: Path | None = typed(None, "Its key.", kind=FILE)
    size_hw: tuple[int, int] = typed((8, 9), "How large.", kind=SIZE, flags=("--size",))
    gpus: tuple[str, ...] = typed((), "For which.", kind=Names("a,b"))
    mode: Literal["fast", "exact"] | None = typed(None, "How.", alone="exact", group="the run")
    chained: bool = typed(False, "Hash them.")
    spin: bool = typed(True, "Watch.", flags=("--spin/--no-spin",))
    grid: bool = typed(True, "Leave it out.", flags=("--no-grid",))
    inside: int = 4  # no option


@dataclass(frozen=True, kw_only=True)
class Needy:
    source: tuple[str, ...] = typed(REQUIRED, "From where.", group="the source")
    wait: float = same_as(Told, "wait", default=2.0)


def told(*arguments: str, record: type = Told) -> object:
    found: list[object] = []

    @click.command()
    @takes("value", record)
    def command(value: object) -> None:
        found.append(value)

    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == 0, done.output
    return found[0]


def test_without_words_the_defaults_of_the_record() -> None:
    assert told() == Told()
    assert Told.result_buffer == 16
    assert told("--source", "0", record=Needy) == Needy(source=("0",), wait=2.0)


def test_every_kind_of_value() -> None:
    words = "--address a --result-buffer 3 --wait 2 --on-verdict x --on-verdict y --secret-file k"
    words += " --size 3x4 --gpus a,b --mode fast --chained --no-spin --no-grid"
    assert told(*words.split()) == Told(
        address="a",
        result_buffer=3,
        wait=2.0,
        on_verdict=("x", "y"),
        secret_file=Path("k"),
        size_hw=(3, 4),
        gpus=("a", "b"),
        mode="fast",
        chained=True,
        spin=False,
        grid=False,
    )
    assert told("--mode") == Told(mode="exact")


def test_what_is_required_and_not_given_is_refused() -> None:
    command = click.Command("needy", params=list(options_of(Needy)), callback=lambda **values: None)
    done = CliRunner().invoke(command, [])
    assert done.exit_code == 2
    assert "Missing option '--source'" in done.output


def test_the_help_has_a_part_for_each_group() -> None:
    groups = ("the source", "the run", "nothing")
    params = [*options_of(Told), options_of(Needy, "the run")[0]]
    command = GroupedCommand("told", params=params, groups=groups)
    parts = command.option_groups(click.Context(command))
    names = {title: [option.name for option in options] for title, options in parts.items()}
    assert list(names) == ["The source", "The run", "Options"]
    assert names["The source"] == ["source"]
    assert names["The run"] == ["mode"]
    assert parts["Options"][-1].opts[-1] == "--help"
    text = CliRunner().invoke(command, ["--help"]).output
    assert [text.index(f"{title}:") for title in names] == sorted(
        text.index(f"{title}:") for title in names
    )


def test_a_word_that_is_no_number_is_refused() -> None:
    command = click.Command("told", params=list(options_of(Told)), callback=lambda **values: None)
    done = CliRunner().invoke(command, ["--result-buffer", "many"])
    assert done.exit_code == 2
    assert "'many' is not a valid integer" in done.output


@pytest.mark.parametrize("kind", ADAPTERS.values(), ids=list(ADAPTERS))
def test_every_option_of_an_adapter_says_what_it_is_for(kind: object) -> None:
    assert all(option.help for option in options_of(kind.record))
