"""Find a backbone's graph on this computer: of a package, or made here."""

import hashlib
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from edgeseg.base.errors import EdgesegError, RuntimeFailure
from edgeseg.base.failure import FAILURE_FILE, read_failure
from edgeseg.base.files import temporary_folder
from edgeseg.base.messages import Message, Setting
from edgeseg.base.plain import Malformed
from edgeseg.base.progress import ignore
from edgeseg.config import FitConfig
from edgeseg.fitting.feature_space import with_context
from edgeseg.fitting.graph.backbone_graph import BackboneGraph
from edgeseg.fitting.graph.graph_facts import KEY, SHAPING, GraphFacts, difference
from edgeseg.model.artefact import Artefact
from edgeseg.runtime.backends.onnx_properties import property_text

FOLDER = "edgeseg_backbones"  # that packages of graphs install into: see release/backbones.py
Tell = Callable[[Message], None]
PACKAGED = ("efficientnet_lite0", "efficientnet_lite1")  # with the usual settings


def package_of(backbone: str) -> str:
    """Return the name of the package that has the graph of a backbone."""
    return f"edgeseg-{backbone.replace('_', '-')}"


def graph_for(config: FitConfig) -> Path | None:
    """Return a graph of these settings, or None where there is none on this computer."""
    wanted = with_context(config)
    for path, facts in _known_graphs():
        if difference(facts.settings, wanted) is None:
            return path
    return None


def graph_of(artefact: Artefact) -> Path | None:
    """Return a graph that a model was or could have been fitted through, or None."""
    for path, facts in _known_graphs():
        same = facts.weights.sha256 == artefact.origin.sha256
        if same and difference(facts.settings, artefact.config) is None:
            return path
    return None


def graph_of_model(artefact: Artefact, graph: Path | None, *, tell: Tell = ignore) -> BackboneGraph:
    """Open the graph that is named, one at hand or one made now, if it is one of this model."""
    path = graph or graph_of(artefact) or find_or_make(artefact.config, tell=tell)
    opened = BackboneGraph(path)
    opened.check_of(artefact)
    return opened


def find_or_make(config: FitConfig, *, tell: Tell = ignore) -> Path:
    """Return a graph of these settings: there already or, if torch is installed, made now."""
    found = graph_for(config)
    if found is not None:
        return found
    if importlib.util.find_spec("torch") is None:
        raise missing(config)
    path = cache_path(config)
    tell(Message("fit_graph", name=config.backbone))
    with temporary_folder(path.parent, name=path.stem) as folder:
        settings = folder / "settings.json"
        settings.write_text(json.dumps(_plain(config).to_dict()), encoding="utf-8")
        command = [sys.executable, "-m", "edgeseg", "export-backbone", str(path)]
        failure = folder / "failure.json"
        done = subprocess.run(
            [*command, "--settings", str(settings)],
            capture_output=True,
            env={**os.environ, FAILURE_FILE: str(failure)},
        )
        why = read_failure(failure)
    if done.returncode:
        raise EdgesegError(why or Message("fit_graph_failed", name=config.backbone))
    return path


def _plain(config: FitConfig) -> FitConfig:
    """Return the settings without the geometry, on which a graph does not depend."""
    return replace(config, geometry=FitConfig().geometry, frame_hw=None, overlap=0)


def missing(config: FitConfig) -> EdgesegError:
    """Return the error that there is no graph for these settings."""
    name = config.backbone
    usual = f"run `pip install {package_of(name)}` for the usual ones, or " * (name in PACKAGED)
    return EdgesegError(
        f"no graph of {name} with these settings is here; {usual}make one on a workstation "
        "with `edgeseg export-backbone` and name it: ",
        Setting("graph", "FILE"),
        "; or fit by torch, of edgeseg[fit]",
    )


def cache_path(config: FitConfig) -> Path:
    """Return where a graph that is made here is kept."""
    values = {name: getattr(with_context(config), name) for name in SHAPING}
    digest = hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
    return _cache() / f"{config.backbone}-{digest[:12]}.onnx"


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(home) if home else Path.home() / ".cache") / "edgeseg" / "backbones"


def _known_graphs() -> Iterator[tuple[Path, GraphFacts]]:
    for folder in _folders():
        for path in sorted(folder.glob("*.onnx")):
            try:
                text = property_text(path, key=KEY)
                if text is not None:
                    yield path, GraphFacts.from_json(text)
            except (Malformed, RuntimeFailure, OSError):
                continue  # another version's, or damaged: one that is asked for says so


def _folders() -> Iterator[Path]:
    found = importlib.util.find_spec(FOLDER)
    if found is not None:
        yield from map(Path, found.submodule_search_locations or ())
    yield _cache()
