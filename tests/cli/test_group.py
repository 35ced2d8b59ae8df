"""The group of commands: help without imports, errors in one line, exit codes."""

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

import edgeseg
from edgeseg import __version__
from edgeseg.base.errors import DatasetError, UsageError
from edgeseg.base.messages import Setting
from edgeseg.base.options import SIZE
from edgeseg.cli.fit_settings import LAYERS
from edgeseg.cli.group import COMMANDS, GROUPS, cli
from edgeseg.config import FitConfig
from edgeseg.fitting.options import FitOptions
from tests.support import HANGS_S
from tests.support.commands import FIT, fail, run, succeed


def test_help_lists_every_command():
    parts = [f"{title}: " + " ".join(map(" ".join, own.items())) for title, own in GROUPS.items()]
    text = " ".join(succeed("--help").stdout.split())
    assert text.endswith(" ".join(parts))
    assert [name for own in GROUPS.values() for name in own] == list(COMMANDS)
    assert succeed("-h").stdout == succeed("--help").stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_resolves_and_has_help(name):
    """Its help begins with the sentence of the list, and gives an example to copy."""
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert command.name == name
    text = " ".join(succeed(name, "--help").stdout.split())
    assert next(own[name] for own in GROUPS.values() if name in own) in text
    assert f"edgeseg {name}" in text.split("Options:")[0].split("Usage:")[1]


def test_version():
    assert succeed("--version").stdout == f"edgeseg, version {__version__}\n"


def test_unknown_command():
    assert "No such command 'fitt'. Did you mean fit?" in fail("fitt", code=2)
    assert "Did you mean add-golden?" in fail("recipe", "add-goldn", code=2)
    assert fail("zzzz", code=2).endswith("No such command 'zzzz'.")
    assert "--seed" in fail("fit", "x", "--sed", "1", code=2)


def test_parsers():
    assert SIZE.convert("256", None, None) == (256, 256)
    assert SIZE.convert("704X256", None, None) == (704, 256)
    assert LAYERS.convert("1, 3", None, None) == (1, 3)
    for text in ("", "x", "²", "-1", "1x"):
        with pytest.raises(click.BadParameter):
            SIZE.convert(text, None, None)
    for text in ("", "1,", "a"):
        with pytest.raises(click.BadParameter):
            LAYERS.convert(text, None, None)


def test_interrupting(monkeypatch, artefact_copy):
    def interrupted(path: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("edgeseg.cli.info_command.read_artefact_file", interrupted)
    assert fail("info", artefact_copy, code=130) == "interrupted"


def test_a_bug_keeps_its_traceback(monkeypatch, artefact_copy):
    def broken(path: Path) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("edgeseg.cli.info_command.read_artefact_file", broken)
    with pytest.raises(ZeroDivisionError):
        run("info", artefact_copy)


def test_errors_of_the_library_name_the_options_of_the_command(monkeypatch, artefact_copy, plate):
    """Those of the command that is running: `info` has no --max-bad."""

    def refused(path: Path) -> None:
        again, weights = Setting("resume", True), Setting("weights", repr("k=3.pth"))
        raise UsageError(Setting("max_bad", 2), ": expected 3, or ", again, "; try ", weights)

    monkeypatch.setattr("edgeseg.cli.info_command.read_artefact_file", refused)
    monkeypatch.setattr("edgeseg.cli.eval_command.read_config", refused)
    sentence = "max_bad=2: expected 3, or resume=True; try weights='k=3.pth'"
    assert fail("info", artefact_copy, code=2) == sentence
    assert fail("eval", artefact_copy, plate, code=2) == sentence.replace(
        "max_bad=2", "--max-bad 2"
    )


def test_errors_of_a_command_in_a_group(monkeypatch, tmp_path):
    def refused(*_: object, **__: object) -> None:
        raise UsageError(Setting("rounds", 2), ": expected more")

    monkeypatch.setattr("edgeseg.bench.latency.latency.run_latency", refused)
    model = tmp_path / "m.onnx"
    model.touch()
    sentence = fail("bench", "latency", model, "--out", tmp_path / "out", code=2)
    assert sentence == "--rounds 2: expected more"


def test_one_mistake_is_a_setting_in_python_and_an_option_when_typed(plate, tmp_path):
    fit = ("fit", plate, "--out", tmp_path / "m.edgeseg")
    with pytest.raises(UsageError) as refused:
        FitConfig(size_hw=(16, 16))
    assert str(refused.value) == "size_hw=(16, 16): expected at least 32x32"
    assert fail(*fit, "--size", 16, code=2) == "--size 16x16: expected at least 32x32"


def test_an_error_about_another_names_the_options_of_both(plate, tmp_path):
    with pytest.raises(DatasetError) as refused:
        edgeseg.fit(plate, size_hw=(96, 96), options=FitOptions(weights="random", max_pixels=100))
    fit = ("fit", plate, *FIT, "--max-pixels", 100, "--out", tmp_path / "m.edgeseg")
    begins, ends = "more than max_pixels=100; if it", "skip such files with max_bad=10"
    assert begins in str(refused.value)
    assert str(refused.value).endswith(ends)
    said = fail(*fit, code=1)
    assert "more than --max-pixels 100; if it" in said
    assert said.endswith("skip such files with --max-bad 10")


# --- in a process of its own -----------------------------------------------------------------


def python(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


def loaded(code: str) -> set[str]:
    """The heavy packages that some code brings in."""
    heavy = "{'torch', 'torchvision', 'onnx', 'onnxruntime', 'cv2', 'numpy', 'safetensors'}"
    done = python(f"import sys; {code}; print(*({heavy} & set(sys.modules)))")
    assert (done.returncode, done.stderr) == (0, "")
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    "code",
    ["import edgeseg", "from edgeseg.cli.group import cli; cli(['--help'], standalone_mode=False)"],
    ids=["import", "help"],
)
def test_nothing_heavy_is_loaded_too_early(code):
    assert loaded(code) == set()


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command_loads_no_torch_and_no_onnx(name):
    packages = loaded(
        f"from edgeseg.cli.group import cli; cli(['{name}', '--help'], standalone_mode=False)"
    )
    assert not packages & {"torch", "torchvision", "onnx", "onnxruntime"}


def test_a_missing_package_is_named_with_the_command_that_installs_it(plate, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # without a graph to fit through
    code = "import sys; sys.modules['torch'] = None; from edgeseg.cli.group import main; main()"
    done = python(code, "moments", plate, "--shard", "0/1", "--out", "s")
    assert done.returncode == 1
    assert done.stderr == (
        "Error: `edgeseg moments` needs torch, which is not installed; "
        "run: pip install 'edgeseg[fit]'; or, without torch: pip install "
        "edgeseg-efficientnet-lite1\n"
    )


def test_a_missing_package_where_nothing_tells_the_extras(plate, tmp_path, monkeypatch):
    """A checkout that was never installed knows no extras; the package itself will do."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    code = (
        "import sys; sys.modules['torch'] = None; from importlib import metadata\n"
        "def absent(name): raise metadata.PackageNotFoundError(name)\n"
        "metadata.requires = absent; from edgeseg.cli.group import main; main()"
    )
    done = python(code, "moments", plate, "--shard", "0/1", "--out", "s")
    assert done.stderr == (
        "Error: `edgeseg moments` needs torch, which is not installed; run: pip install torch; "
        "or, without torch: pip install edgeseg-efficientnet-lite1\n"
    )


def test_python_dash_m(plate):
    done = subprocess.run(
        [sys.executable, "-m", "edgeseg", "synthesize", str(plate / "test")],
        capture_output=True,
        text=True,
        timeout=HANGS_S,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"Error: {plate / 'test'}: exists and was not written by edgeseg; choose another folder\n"
    )


EVERY_HELP = """
import click
from click.testing import CliRunner
from edgeseg.cli.group import cli

def every(group, words=()):
    yield words
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        is_group = isinstance(command, click.Group)
        yield from every(command, (*words, name)) if is_group else [(*words, name)]

for words in every(cli):
    short, long = (CliRunner().invoke(cli, [*words, option]) for option in ("-h", "--help"))
    assert (short.exit_code, short.output) == (0, long.output), (words, short.output)
    print(*words)
"""


def test_short_help_everywhere():
    """In a fresh process: click remembers the help option of a command that was run by itself."""
    done = python(EVERY_HELP)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == ""
    assert {"fit", "bench", "bench latency"} <= set(lines)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
@pytest.mark.parametrize(
    ("variables", "coloured"), [({}, True), ({"NO_COLOR": ""}, True), ({"NO_COLOR": "1"}, False)]
)
def test_colours_on_a_terminal_that_wants_them(tmp_path, variables, coloured):
    import pty

    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "edgeseg", "info", str(tmp_path / "m.edgeseg")]
    environment = {k: v for k, v in os.environ.items() if k != "NO_COLOR"} | variables
    done = subprocess.run(command, stderr=theirs, timeout=HANGS_S, env=environment)
    os.close(theirs)
    shown = os.read(ours, 10_000).decode()
    os.close(ours)
    assert done.returncode == 1
    assert "no such file" in shown
    assert ("\x1b[" in shown) is coloured


def test_no_colours_in_a_pipe(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "edgeseg", "info", str(tmp_path / "m.edgeseg")],
        capture_output=True, text=True, timeout=HANGS_S,
    )  # fmt: skip
    assert done.stderr.startswith("Error: ")
    assert "\x1b" not in done.stderr
