"""What commands need, told before they begin: one sentence, and the command that installs it."""

from pathlib import Path

import click

from edgeseg.base.errors import EdgesegError
from edgeseg.base.extras import check_installed, install_command, missing, not_installed
from edgeseg.config import FitConfig
from edgeseg.fitting.graph.known_graphs import check_through_graph, graph_for, lacking

FITTING = ("torch", "torchvision", "safetensors")
GRAPHS = ("onnx", "onnxscript", "onnxruntime")
EXPORTING = (*FITTING, *GRAPHS)


def command_name() -> str:
    """Return what the running command is called in sentences."""
    return f"`edgeseg {click.get_current_context().command_path.partition(' ')[2]}`"


def check_needs(*modules: str) -> None:
    """Refuse to begin where modules are not installed."""
    check_installed(command_name(), *modules)


def check_fit_needs(config: FitConfig, graph: Path | None, *modules: str) -> None:
    """Refuse to begin a fit that goes neither by torch and `modules` nor through a graph."""
    if graph is None and not missing(["torch"]):
        check_needs(*FITTING, *modules)
    elif graph is not None or graph_for(config) is not None:
        check_through_graph(command_name(), config, graph)
    else:
        by_torch = not_installed(command_name(), missing([*FITTING, *modules]))
        absent, packages = lacking(config)
        without = install_command(*absent, also=packages)
        raise EdgesegError(by_torch, *([f"; or, without torch: {without}"] if packages else []))
