"""`--graph`: fit, change and write models through a backbone's graph, where torch is not needed."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from edgeseg.config import FitConfig

if TYPE_CHECKING:
    from edgeseg.artefact.artefact import Artefact
    from edgeseg.fitting.feature_space import FeatureSpace
    from edgeseg.fitting.options import FitOptions
    from edgeseg.model.predictor import Embedder


def graph_settings(graph: Path) -> FitConfig:
    """The settings that a graph was made with."""
    from edgeseg.device.backbone_graph import read_facts

    return read_facts(graph).settings


def space_for(config: FitConfig, graph: Path | None, options: "FitOptions") -> "FeatureSpace":
    """By torch, or through the graph that is named or, without torch, at hand."""
    from edgeseg.fitting.feature_space import FeatureSpace

    if graph is None and find_spec("torch") is not None:
        return FeatureSpace.load(config, weights=options.weights, note=options.note)
    from edgeseg.device.at_hand import graph_for, missing
    from edgeseg.device.backbone_graph import BackboneGraph

    path = graph or graph_for(config)
    if path is None:
        raise missing(config)
    return BackboneGraph(path).space(config)


def embedder_for(model: "Artefact", graph: Path | None) -> "Embedder | None":
    """The way to embeddings of a model that is changed; None: its backbone, by torch."""
    from edgeseg.device.at_hand import graph_of_model

    if graph is None and find_spec("torch") is not None:
        return None
    return graph_of_model(model, graph).embed
