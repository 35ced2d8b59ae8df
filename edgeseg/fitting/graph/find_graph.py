"""Find a backbone's graph on this computer: of a package, or made here."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from edgeseg.base.errors import EdgesegError
from edgeseg.base.failure import FAILURE_FILE, read_failure
from edgeseg.base.files import temporary_folder
from edgeseg.base.messages import Message
from edgeseg.base.progress import ignore
from edgeseg.config import FitConfig
from edgeseg.fitting.graph.backbone_graph import BackboneGraph
from edgeseg.fitting.graph.graph_facts import SHAPING, difference
from edgeseg.fitting.graph.known_graphs import (
    cache_folder,
    can_make,
    graph_for,
    known_graphs,
    no_graph,
)
from edgeseg.model.artefact import Artefact
from edgeseg.model.map_layers import with_backbone_choices

Tell = Callable[[Message], None]


def graph_of(artefact: Artefact) -> Path | None:
    """Return a graph that a model was or could have been fitted through, or None."""
    for path, facts in known_graphs():
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
    if not can_make():
        raise no_graph(config)
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


def cache_path(config: FitConfig) -> Path:
    """Return where a graph that is made here is kept."""
    values = {name: getattr(with_backbone_choices(config), name) for name in SHAPING}
    digest = hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
    return cache_folder() / f"{config.backbone}-{digest[:12]}.onnx"
