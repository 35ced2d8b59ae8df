"""Options of commands: numbers, gathering, defaults, and settings said as options."""

import json
import pickle
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from edgeseg.base.errors import RuntimeFailure, UsageError
from edgeseg.base.messages import Sentence, Setting, write
from edgeseg.base.options import (
    SIZE,
    Numbers,
    RegistryName,
    listeners,
    note,
    say_options,
    was_typed,
)
from edgeseg.base.progress import bar, ignore, silent
from edgeseg.base.typed_options import takes, typed


@dataclass(frozen=True, kw_only=True)
class Run:
    max_bad: int = typed(3, "How many.")
    size_hw: tuple[int, int] = typed((8, 8), "How large.", kind=SIZE, flags=("--size",))


@click.command()
@click.option("--resume", is_flag=True)
@takes("run", Run)
@click.option("--drift/--no-drift", default=True)
@click.option("--weights")
@click.option("-k", "--k", type=int)
@click.option("--layers", type=Numbers("N,N", sign=",", counts=range(1, 9), expected="numbers"))
@click.option("--target", "targets")
@click.argument("data", type=click.Path(path_type=Path), required=False)
def command(
    resume: bool,
    run: Run,
    drift: bool,
    weights: str | None,
    k: int | None,
    layers: tuple[int, ...] | None,
    targets: str | None,
    data: Path | None,
) -> None:
    click.echo(f"{run} {layers} {was_typed('max_bad')}")


def test_options_reach_the_command_as_one_value():
    done = CliRunner().invoke(command, ["--max-bad", "1", "--size", "4x5", "--layers", "1, 2"])
    assert done.output == "Run(max_bad=1, size_hw=(4, 5)) (1, 2) True\n"


def test_a_default_is_the_field_s_own_and_not_given():
    assert CliRunner().invoke(command, []).output == f"{Run()} None False\n"
    assert given_with("--max-bad", str(Run.max_bad))
    assert "[default: 3]" in CliRunner().invoke(command, ["--help"]).output


def given_with(*arguments: str) -> bool:
    return CliRunner().invoke(command, list(arguments)).output.endswith("True\n")


def test_options_stay_in_the_order_in_which_they_are_declared():
    names = [param.name for param in command.params]
    assert names[:4] == ["resume", "max_bad", "size_hw", "drift"]


def test_the_entries_of_a_registry_are_those_it_has_when_asked():
    registry = {"a": 1, "c": 3}

    @click.command()
    @click.option("--kind", type=RegistryName(registry))
    def chosen(kind: str) -> None:
        click.echo(kind)

    refused = CliRunner().invoke(chosen, ["--kind", "b"])
    assert "'b' is not one of 'a', 'c'" in refused.output
    registry["b"] = 2
    assert CliRunner().invoke(chosen, ["--kind", "b"]).output == "b\n"
    assert "[a|c|b]" in CliRunner().invoke(chosen, ["--help"]).output


@pytest.mark.parametrize("text", ["", "x", "1x2x3", "²", "-1", "1.5"])
def test_what_is_no_size(text):
    done = CliRunner().invoke(command, [f"--size={text}"])
    assert done.exit_code == 2
    assert f"{text!r}: expected HEIGHTxWIDTH such as 704x256, or one number" in done.output


def test_numbers_as_they_are_typed():
    assert SIZE.text((704, 256)) == "704x256"


def test_who_listens():
    assert listeners(quiet=True) == (ignore, silent)
    assert listeners(quiet=False) == (note, bar)


say = say_options(command.params)


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        (Setting("max_bad", 2), "--max-bad 2"),
        (Setting("max_bad", "N"), "--max-bad N"),
        (Setting("max_bad"), "--max-bad"),
        (Setting("size_hw"), "--size"),
        (Setting("k"), "--k"),
        (Setting("rank"), "rank="),
        (Setting("resume", True), "--resume"),
        (Setting("resume"), "--resume"),
        (Setting("resume", False), "resume=False"),  # there is no option that says it
        (Setting("drift", True), "--drift"),
        (Setting("drift", False), "--no-drift"),
        (Setting("size_hw", (16, 16)), "--size 16x16"),
        (Setting("layers", (2, 1)), "--layers 2,1"),
        (Setting("targets", ("sm86", "sm89")), "--target sm86,sm89"),
        (Setting("weights", Path("/x/a.pth")), "--weights /x/a.pth"),
        (Setting("weights", "./a.pth"), "--weights ./a.pth"),
        (Setting("weights", repr("a k=3.pth")), "--weights 'a k=3.pth'"),
        (Setting("weights", '"a.pth"'), '--weights "a.pth"'),
        (Setting("weights", None), "--weights None"),
        (Setting("keep_moments", False), "keep_moments=False"),  # no parameter of this command
        (Setting("data", "x"), "data=x"),  # an argument has no flag
    ],
)
def test_settings_are_said_as_options(setting, expected):
    assert say(setting) == expected
    assert str(setting) == f"{setting.name}={setting.value}"


def test_an_error_is_said_in_options():
    error = UsageError("file 2, and ", Setting("max_bad"), " allows 1 (", Setting("k", 3), ").")
    assert str(error) == "file 2, and max_bad= allows 1 (k=3)."
    assert error.text(say) == "file 2, and --max-bad allows 1 (--k 3)."


@pytest.mark.parametrize(
    "words",
    [
        "/data/k=3/x.png: a path stays",
        "synthetic:fps=30,k=3: a list stays",
        "videotestsrc ! udpsink k=3 weights=x: a pipeline stays",
        "line3.toml: 1 mistake: max_bad=2: a key of a file stays",
        "k == 3 and k: words stay",
    ],
)
def test_words_are_not_settings(words):
    assert UsageError(words).text(say) == words
    assert UsageError(words, ": ", Setting("k", 3)).text(say) == f"{words}: --k 3"


def test_an_error_about_another_keeps_its_settings():
    inner = UsageError(Setting("max_bad", 2), ": expected 3")
    outer = RuntimeFailure("a.png: ", inner, "; try ", Setting("resume", True))
    assert str(outer) == "a.png: max_bad=2: expected 3; try resume=True"
    assert outer.text(say) == "a.png: --max-bad 2: expected 3; try --resume"
    assert pickle.loads(pickle.dumps(outer)).text(say) == outer.text(say)


def test_a_sentence_is_a_text_that_keeps_its_settings():
    reason = Sentence("not loaded, ", UsageError(Setting("k", 3), ": too many"))
    assert reason == "not loaded, k=3: too many"
    assert json.dumps(reason) == '"not loaded, k=3: too many"'
    assert write(reason, say) == "not loaded, --k 3: too many"
    assert write(Sentence("recipe A: ", reason), say) == "recipe A: not loaded, --k 3: too many"
    assert UsageError("recipe A: ", reason).text(say) == "recipe A: not loaded, --k 3: too many"
