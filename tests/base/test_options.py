"""Options of commands: numbers, gathering, defaults, and settings said as options."""

from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from edgeseg.base.options import SIZE, Numbers, RegistryName, in_flags, listeners, note, was_typed
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


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("max_bad=2: expected 3", "--max-bad 2: expected 3"),
        ("skip such files with max_bad=N", "skip such files with --max-bad N"),
        ("file 2, and max_bad= allows 1", "file 2, and --max-bad allows 1"),
        ("a smaller size_hw=, k= or rank=", "a smaller --size, --k or rank="),
        ("(max_bad=3)", "(--max-bad 3)"),
        ("start again with resume=True", "start again with --resume"),
        ("leave resume= out", "leave --resume out"),
        ("resume=False: there is no option that says it", None),
        ("use drift=False.", "use --no-drift."),
        ("size_hw=(16, 16): too small", "--size 16x16: too small"),
        ("layers=(2, 1): not in order", "--layers 2,1: not in order"),
        ("targets=('sm86', 'sm89'): two", "--target sm86,sm89: two"),
        ("weights=/x/a.pth: no such file", "--weights /x/a.pth: no such file"),
        ("weights=./a.pth", "--weights ./a.pth"),
        ("weights='a k=3.pth': quotes stay", "--weights 'a k=3.pth': quotes stay"),
        ('weights="a.pth"', '--weights "a.pth"'),
        ("/data/k=3/x.png: a path stays", None),
        ("synthetic:fps=30,k=3: a list stays", None),
        ("keep_moments=False: no parameter of this command", None),
        ("data=x: an argument has no flag", None),
        ("k == 3 and k: words stay", None),
    ],
)
def test_settings_are_said_as_options(sentence, expected):
    assert in_flags(sentence, command.params) == (expected or sentence)
