"""Running commands as people type them, in this process."""

from click.testing import CliRunner, Result

from edgeseg.cli.group import cli

# A fit like small_models.SMALL.
FIT = [
    "--backbone", "mobilenet_v3_small", "--weights", "random", "--size", "96", "-k", "16",
    "--rank", "10", "--folds", "3", "--false-alarm-rate", "0.1", "--ridge", "1e-6",
    "--ridge-unit", "absolute",
]  # fmt: skip


def run(*arguments: object) -> Result:
    """Run a command; anything but our own errors and click's keeps its traceback."""
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert "Traceback" not in result.output
    return result


def succeed(*arguments: object) -> Result:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result


def fail(*arguments: object, code: int) -> str:
    """The one line of an error."""
    result = run(*arguments)
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("Error: ")
    return last.removeprefix("Error: ")
