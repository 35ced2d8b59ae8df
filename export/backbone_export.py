"""Export a backbone and W as one graph for fits on a device, with a blank model behind it.

settings, weights, W --reference forward with a blank head--> trace --> graph with one output more
"""

import io
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from onnx import ModelProto, helper, numpy_helper

from edgeseg import __version__
from edgeseg.base.errors import ExportError
from edgeseg.base.extras import versions
from edgeseg.base.files import atomic_path
from edgeseg.base.progress import Note, ignore
from edgeseg.config import FitConfig
from edgeseg.export.graph import (
    COUNTED,
    FACTOR,
    MAP_FACTOR,
    MAP_WEIGHT,
    GraphOptions,
    build_graph,
    check_graph,
    initializers,
    is_large,
    quadratic_forms,
)
from edgeseg.export.precision.refit import centring, embedding_tensor
from edgeseg.fitting.feature_space import FeatureSpace
from edgeseg.fitting.graph.graph_facts import KEY, GraphFacts
from edgeseg.model.factors import Factors, MapForm, kept_directions
from edgeseg.model.map_layers import map_width
from edgeseg.model.reference import ReferenceModel
from edgeseg.runtime.backends.onnx_properties import graph_sha256

_MAKERS = ("torch", "onnx")
_HALF = 0.5  # no 1 and no 0, which the exporter would fold away


@dataclass(frozen=True, kw_only=True)
class BackboneExport:
    """The file that was written, and the facts inside it."""

    path: Path
    facts: GraphFacts


def export_backbone(
    config: FitConfig, out: Path, *, weights: str | None = None, note: Note = ignore
) -> BackboneExport:
    """Write the graph; the same settings and weights give the same bytes."""
    space = FeatureSpace.load(config, weights=weights, note=note)
    if space.config.geometry.regions:
        raise ExportError("ignore: regions come with the fit on the device; leave them out here")
    graph = _blank(
        build_graph(_maskable_model(space), GraphOptions(), size_hw=space.config.size_hw)
    )
    if is_large(graph):
        raise ExportError(
            "the graph holds over 2 GB, too much for one file; take a larger share or a smaller "
            "size, k or rank"
        )
    tensor = embedding_tensor(graph)
    shape = [1, space.windows.cells, space.k]
    graph.graph.output.append(helper.make_tensor_value_info(tensor, 1, shape))
    graph = check_graph(graph)
    facts = GraphFacts(
        config=space.config.to_dict(),
        weights=space.origin,
        embedding=tensor,
        mean=str(centring(graph).input[1]),
        factor=FACTOR,
        kept="kept",
        gain="gain",
        explains=True,
        versions={"edgeseg": __version__} | versions(_MAKERS),
    )
    digest = graph_sha256(io.BytesIO(graph.SerializeToString(deterministic=True)))
    facts = replace(facts, graph_sha256=digest)
    helper.set_model_props(graph, {KEY: facts.to_json()})
    with atomic_path(out) as temporary:
        temporary.write_bytes(graph.SerializeToString(deterministic=True))
    return BackboneExport(path=out, facts=facts)


def _maskable_model(space: FeatureSpace) -> ReferenceModel:
    """Make the reference model with a head of the right shapes and a mask of ignored cells."""
    windows, k = space.windows, space.k
    rank, width = kept_directions(space.config.rank, k), map_width(space.config)
    form = MapForm(width=width, ridge=_HALF, own_ridge=_HALF)
    model = ReferenceModel(
        space.config,
        backbone=space.weights.backbone,
        embedding=space.embedding,
        factors=Factors(
            mean=np.full((windows.count, k), _HALF, np.float32),
            factor=np.full((windows.covariances, k, rank), _HALF, np.float32),
            shown=form.blank(windows.covariances, kept=rank, k=k, fill=_HALF) if width else None,
        ),
        explains=True,
    )
    model.kept = torch.full(space.config.grid_hw, _HALF)
    model.gain = torch.full(space.config.size_hw, _HALF)
    if width:
        # Another number than that of `kept`, or the exporter makes one constant of both.
        model.counted = torch.full(space.config.grid_hw, _HALF / 2)
    return model


def _blank(graph: ModelProto) -> ModelProto:
    """Write zeros where a fit will write, so that nobody takes the graph for a model."""
    constants = initializers(graph)
    names = [str(centring(graph).input[1]), FACTOR, "kept", "gain"]
    names += [MAP_WEIGHT, MAP_FACTOR, COUNTED] * (len(quadratic_forms(graph)) > 1)
    for name in names:
        if name not in constants:
            raise ExportError(f"the exporter of torch left no {name} in the graph; report it")
        shape = tuple(constants[name].dims)
        constants[name].CopyFrom(numpy_helper.from_array(np.zeros(shape, np.float32), name))
    return graph
