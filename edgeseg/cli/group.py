"""The command line: names of commands, and how errors end. Commands load when they are used."""

import errno
import importlib
import os
from collections.abc import Iterator
from typing import Any, NoReturn

import click

from edgeseg import __version__
from edgeseg.base.errors import EdgesegError
from edgeseg.base.extras import install_command
from edgeseg.base.failure import write_failure
from edgeseg.base.memory_limit import out_of_memory
from edgeseg.base.options import say_options
from edgeseg.base.typed_options import NearestGroup

# Part of the help -> name of a command -> the first sentence of its own help, so that the list is
# printed without importing any.
GROUPS = {
    "Make a model": {
        "fit": "Fit a model on the good images in DATA.",
        "teach": "Go from good pictures to a station that runs: collect, fit, judge, make "
        "the recipe.",
        "learn": "Make what people marked in PROJECT the next version of its model.",
        "update": "Add the good images in MORE to MODEL, or take images out, without "
        "fitting again.",
        "moments": "Sum up a part of the good images in DATA, for `edgeseg merge`.",
        "merge": "Join the shards of one data set, or models of the same settings, into one model.",
        "export-backbone": "Write a backbone as the graph that devices fit through, without torch.",
        "synthesize": "Make a data set of a synthetic part, with defects and exact masks.",
    },
    "Decide": {
        "eval": "Measure ARTEFACT on the labelled test set of DATA.",
        "predict": "Score IMAGES and draw where they are wrong.",
        "threshold": "Show what false-alarm rates promise and cost, or store another one.",
        "calibrate": "Choose the threshold of MODEL on this computer, from its scores of "
        "GOOD_IMAGES.",
        "ignore": "Ignore regions of the camera's picture in MODEL, without a new fit.",
    },
    "Run": {
        "export": "Turn ARTEFACT into one graph for the device.",
        "stream": "Score every frame, say what is wrong and how long it took.",
        "demo": "Fit, evaluate, export, verify and stream, then write one page about it.",
        "doctor": "Say what this computer has, what is missing and the command that helps.",
        "completion": "Print the script by which SHELL completes commands, options and files.",
    },
    "The line": {
        "recipe": "Keep a folder for each product: model, region, operating point, golden "
        "pictures.",
        "check": "Say whether RECIPE still is what was approved, on this computer.",
        "cameras": "List the cameras of this computer and of its network, by what --source "
        "calls them.",
    },
    "Trust": {
        "info": "Say what a model file is: an .edgeseg artefact, an .onnx graph or a .plan engine.",
        "keygen": "Make a pair of keys: KEY to sign with, and a .pub beside it to give to devices.",
        "sign": "Sign FILES: models with their sidecars, or all that is in the folder of a recipe.",
        "verify-signature": "Say who signed FILES, and whether they are still what was signed.",
        "verify-log": "Say whether a chained event log was altered, cut or reordered, and where.",
    },
    "Measure": {
        "tune": "Find the most accurate model that this computer runs within a budget.",
        "bench": "Measure speed and accuracy on this machine.",
    },
}
# A command stands in the file of its name; these stand together.
_TOGETHER = {
    "grow_commands": ("update", "moments", "merge"),
    "sign_commands": ("keygen", "sign", "verify-signature"),
    "recipe_commands": ("recipe",),
    "bench_commands": ("bench",),
}
# Name -> the module that has its click command, by the same name.
COMMANDS = {
    name: f"edgeseg.cli.{name.replace('-', '_')}_command" for own in GROUPS.values() for name in own
} | {name: f"edgeseg.cli.{file}" for file, names in _TOGETHER.items() for name in names}


class LazyGroup(NearestGroup):
    """A group that imports a command when it is used, and prints errors in one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List the names of the commands in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of one command."""
        if cmd_name not in COMMANDS:
            return None
        found = vars(importlib.import_module(COMMANDS[cmd_name])).values()
        commands = (each for each in found if isinstance(each, click.Command))
        return next((each for each in commands if each.name == cmd_name), None)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing any."""
        # One width for all parts, so that their sentences stand below each other.
        width = max(map(len, COMMANDS))
        for title, own in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), line) for name, line in own.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; a user's mistake ends in one sentence, a bug keeps its traceback."""
        try:
            return super().invoke(ctx)
        except EdgesegError as error:
            running = self.get_command(ctx, ctx.invoked_subcommand or "")
            _stop(ctx, error.text(say_options(_params(running))), exit_code=error.exit_code)
        except ModuleNotFoundError as error:
            install = install_command(error.name or "")
            if install is None:
                raise
            _stop(
                ctx,
                f"`edgeseg {ctx.invoked_subcommand}` needs {error.name}, which is not "
                f"installed; run: {install}",
            )
        except Exception as error:
            if out_of_memory(error):
                _stop(
                    ctx,
                    f"`edgeseg {ctx.invoked_subcommand}` ran out of memory ({_origin(error)}); "
                    "close other programs, raise the limit (ulimit -v), or take smaller images or "
                    "batches",
                )
            if not isinstance(error, OSError):
                raise
            if error.errno in (None, errno.EPIPE):  # click knows how to end a broken pipe
                raise
            where = f"{error.filename}: " if error.filename else ""
            _stop(ctx, f"{where}{error.strerror}; look at the path, its permissions and the disk")
        except KeyboardInterrupt:
            _stop(ctx, "interrupted", exit_code=130)


def _origin(error: BaseException) -> str:
    """Return the first line of the error that caused this one."""
    if error.__cause__ is not None:
        return _origin(error.__cause__)
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def _stop(ctx: click.Context, reason: str, *, exit_code: int = 1) -> NoReturn:
    write_failure(reason)
    click.secho(f"Error: {reason}", fg="red", err=True)
    ctx.exit(exit_code)


def _params(command: click.Command | None) -> Iterator[click.Parameter]:
    """Yield the parameters of a command and of all in it: click does not say which one ran."""
    if command is not None:
        yield from command.params
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            yield from _params(inner)


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "--version", prog_name="edgeseg")
def cli() -> None:
    """Find what is wrong with a part, from pictures of good ones.

    \b
    edgeseg fit parts/good --out part.edgeseg     fit on good images
    edgeseg eval part.edgeseg parts               measure on a labelled test set
    edgeseg export part.edgeseg --out part.onnx   one fused graph for the device
    edgeseg stream --model part.onnx --source 0   run it on a camera
    """


def main() -> None:
    """Run the command line: the entry point of the `edgeseg` script."""
    # click leaves colours out by itself where the output is no terminal.
    cli(prog_name="edgeseg", color=False if os.environ.get("NO_COLOR") else None)
