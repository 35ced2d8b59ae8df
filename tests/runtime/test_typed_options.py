"""A record's fields as options of the command line."""

from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from edgeseg.options import FILE
from edgeseg.runtime.adapter_kinds import ADAPTERS
from edgeseg.runtime.typed_options import options_of, typed


@dataclass(frozen=True, kw_only=True)
class Told:
    address: str | None = typed(None, "Where.", metavar="URL")
    result_buffer: int = typed(16, "How many.")
    wait: float = typed(0.5, "How long.")
    on_verdict: tuple[str, ...] = typed((), "What to run.", metavar="COMMAND")
    secret_file: Path | None = typed(None, "Its key.", kind=FILE)


def told(*arguments: str) -> Told:
    found: list[Told] = []
    command = click.Command(
        "told",
        params=list(options_of(Told)),
        callback=lambda **values: found.append(Told(**values)),
    )
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == 0, done.output
    return found[0]


def test_without_words_the_defaults_of_the_record() -> None:
    assert told() == Told()
    assert Told.result_buffer == 16


def test_every_kind_of_value() -> None:
    words = "--address a --result-buffer 3 --wait 2 --on-verdict x --on-verdict y --secret-file k"
    assert told(*words.split()) == Told(
        address="a", result_buffer=3, wait=2.0, on_verdict=("x", "y"), secret_file=Path("k")
    )


def test_a_word_that_is_no_number_is_refused() -> None:
    command = click.Command("told", params=list(options_of(Told)), callback=lambda **values: None)
    done = CliRunner().invoke(command, ["--result-buffer", "many"])
    assert done.exit_code == 2
    assert "'many' is not a valid integer" in done.output


@pytest.mark.parametrize("kind", ADAPTERS.values(), ids=list(ADAPTERS))
def test_every_option_of_an_adapter_says_what_it_is_for(kind: object) -> None:
    assert all(option.help for option in kind.options)
