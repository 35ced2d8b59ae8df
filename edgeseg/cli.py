"""The command line: names of commands, and how errors end. Commands load when they are used."""

import importlib
import sys
from typing import Any

import click

from edgeseg import __version__
from edgeseg.errors import EdgesegError

# name -> where its click command is. Nothing heavy is imported to print the help.
COMMANDS = {
    "fit": "edgeseg.cli_fit:fit",
    "eval": "edgeseg.cli_model:evaluate",
    "predict": "edgeseg.cli_model:predict",
    "info": "edgeseg.cli_model:info",
    "synthesize": "edgeseg.cli_fit:synthesize",
    "export": "edgeseg.export.command:export",
    "stream": "edgeseg.runtime.stream:stream",
    "bench": "edgeseg.bench.command:bench",
}


class LazyGroup(click.Group):
    """Finds its commands by name and turns our errors into one line and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order in which people need them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of one command."""
        if cmd_name not in COMMANDS:
            return None
        module, attribute = COMMANDS[cmd_name].split(":")
        command = getattr(importlib.import_module(module), attribute)
        return command if isinstance(command, click.Command) else None

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; a user's mistake ends in one sentence, a bug keeps its traceback."""
        try:
            return super().invoke(ctx)
        except EdgesegError as error:
            click.secho(f"Error: {error}", fg="red", err=True)
            ctx.exit(error.exit_code)
        except ModuleNotFoundError as error:
            needed = _extra_of(error.name or "")
            if needed is None:
                raise
            click.secho(
                f"Error: `edgeseg {ctx.invoked_subcommand}` needs {error.name}, which is not "
                f"installed; run: pip install 'edgeseg[{needed}]'",
                fg="red",
                err=True,
            )
            ctx.exit(1)


def _extra_of(module: str) -> str | None:
    top = module.split(".")[0]
    if top in {"torch", "torchvision", "safetensors", "onnx", "onnxscript", "matplotlib"}:
        return "fit"
    return {"onnxruntime": "cpu", "openvino": "openvino", "prometheus_client": "web"}.get(top)


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
    """Entry point of the `edgeseg` script."""
    try:
        cli(prog_name="edgeseg")
    except KeyboardInterrupt:
        sys.exit(130)
