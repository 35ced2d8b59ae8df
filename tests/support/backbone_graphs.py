"""The graph of a small backbone, traced once for all tests that fit through it."""

import hashlib
import io
import json
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

from edgeseg.config import FitConfig
from edgeseg.data.datasets import Dataset, open_dataset
from edgeseg.export.backbone_export import export_backbone
from edgeseg.fitting.fitting import fit_in
from edgeseg.fitting.graph.backbone_graph import BackboneGraph
from edgeseg.fitting.graph.graph_facts import KEY
from edgeseg.fitting.options import FitOptions
from edgeseg.model.artefact import Artefact
from edgeseg.model.backbone_weights import BackboneWeights
from edgeseg.runtime.backends.onnx_message import with_constants, with_property
from edgeseg.runtime.backends.onnx_outline import read_outline
from edgeseg.runtime.backends.onnx_properties import graph_sha256
from tests.support.export_models import SHORT, data, weights

_FOLDER = tempfile.TemporaryDirectory(prefix="edgeseg-tests-")
OPTIONS = FitOptions(batch_size=4, planted=4)


@cache
def graph_path(config: FitConfig = SHORT) -> Path:
    """The file."""
    # The settings with the weights of `export_models` decide all that is in it.
    settings = hashlib.sha256(json.dumps(config.to_dict(), sort_keys=True).encode()).hexdigest()
    path = Path(_FOLDER.name) / settings[:16] / f"{config.backbone}.onnx"
    export_backbone(config, path, weights=str(weights(config.backbone)))
    return path


@cache
def graph(config: FitConfig = SHORT) -> BackboneGraph:
    """Opened."""
    return BackboneGraph(graph_path(config))


def earlier_graph(newer: BackboneGraph, out: Path) -> BackboneGraph:
    """As it was written before it gave the output `apart`."""
    names = [output.name for output in read_outline(newer.path).outputs]
    outputs = [name for name in names if name != "apart"]
    plain = with_constants(newer.path.read_bytes(), {}, outputs=outputs)
    digest = graph_sha256(io.BytesIO(plain))
    facts = replace(newer.facts, explains=False, graph_sha256=digest)
    out.write_bytes(with_property(plain, KEY, facts.to_json()))
    return BackboneGraph(out)


def good() -> Dataset:
    """Eight good pictures."""
    return open_dataset(data())


@cache
def _taught(config: FitConfig) -> Artefact:
    return fit_in(graph(config).space(config), good(), OPTIONS)


def taught(config: FitConfig = SHORT) -> Artefact:
    """A model fitted through the graph, whose weights nobody has looked for yet."""
    model = _taught(config)
    return replace(model, weights=BackboneWeights(model.config, model.origin, None))
