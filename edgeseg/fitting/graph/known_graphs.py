"""The backbones' graphs on this computer, and what a fit through one needs; all of it is light."""

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from edgeseg.base.errors import EdgesegError, RuntimeFailure
from edgeseg.base.extras import missing, not_installed
from edgeseg.base.messages import Setting
from edgeseg.base.plain import Malformed
from edgeseg.config import FitConfig
from edgeseg.fitting.graph.graph_facts import KEY, GraphFacts, difference
from edgeseg.model.map_layers import with_backbone_choices
from edgeseg.runtime.backends.onnx_properties import property_text

FOLDER = "edgeseg_backbones"  # that packages of graphs install into: see release/backbones.py
PACKAGED = ("efficientnet_lite0", "efficientnet_lite1")  # with the usual settings
BACKENDS = ("onnxruntime", "openvino")  # either of which runs a graph
MAKERS = ("torch", "torchvision", "onnx", "onnxscript")  # what makes one


def package_of(backbone: str) -> str:
    """Return the name of the package that has the graph of a backbone."""
    return f"edgeseg-{backbone.replace('_', '-')}"


def known_graphs() -> Iterator[tuple[Path, GraphFacts]]:
    """Yield the graphs of packages, and those that were made here."""
    for folder in _folders():
        for path in sorted(folder.glob("*.onnx")):
            try:
                text = property_text(path, key=KEY)
                if text is not None:
                    yield path, GraphFacts.from_json(text)
            except (Malformed, RuntimeFailure, OSError):
                continue  # another version's, or damaged: one that is asked for says so


def graph_for(config: FitConfig) -> Path | None:
    """Return a graph of these settings, or None where there is none on this computer."""
    wanted = with_backbone_choices(config)
    for path, facts in known_graphs():
        if difference(facts.settings, wanted) is None:
            return path
    return None


def can_make() -> bool:
    """Return whether a graph can be made on this computer."""
    return not missing(MAKERS)


def lacking(config: FitConfig, graph: Path | None = None) -> tuple[list[str], list[str]]:
    """Return modules and packages that a fit through a graph lacks here.

    The packages have the graph itself. There is none for settings that are not the usual ones.
    """
    modules = missing(["safetensors"])
    if len(missing(BACKENDS)) == len(BACKENDS):
        modules.append(BACKENDS[0])
    here = graph is not None or graph_for(config) is not None or can_make()
    return modules, [] if here or not _is_packaged(config) else [package_of(config.backbone)]


def check_through_graph(who: str, config: FitConfig, graph: Path | None = None) -> None:
    """Refuse at the beginning if a fit through a graph lacks anything on this computer."""
    modules, packages = lacking(config, graph)
    if modules or packages:
        what = [f"the graph of {config.backbone}"] if packages else []
        raise not_installed(who, modules, what=what, also=packages)
    if graph is None and graph_for(config) is None and not can_make():
        raise no_graph(config)


def no_graph(config: FitConfig) -> EdgesegError:
    """Return the error that there is no graph for these settings."""
    name = config.backbone
    usual = f"run `pip install {package_of(name)}` for the usual ones, or " * (name in PACKAGED)
    return EdgesegError(
        f"no graph of {name} with these settings is here; {usual}make one on a workstation "
        "with `edgeseg export-backbone` and name it: ",
        Setting("graph", "FILE"),
        "; or fit by torch, of edgeseg[fit]",
    )


def cache_folder() -> Path:
    """Return the folder of the graphs that are made here."""
    home = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(home) if home else Path.home() / ".cache") / "edgeseg" / "backbones"


def _is_packaged(config: FitConfig) -> bool:
    usual = with_backbone_choices(FitConfig(backbone=config.backbone))
    return config.backbone in PACKAGED and difference(usual, with_backbone_choices(config)) is None


def _folders() -> Iterator[Path]:
    found = find_spec(FOLDER)
    if found is not None:
        yield from map(Path, found.submodule_search_locations or ())
    yield cache_folder()
