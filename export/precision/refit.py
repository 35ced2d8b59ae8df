"""Take the moments again through a rounded graph: the covariance then includes the rounding.

rounded graph --cut--> frames to embeddings, in the session that will run --fitting--> mean,
factors, threshold and drift baseline --with_factors--> the graph again

Rounding hurts most in the directions of smallest variance, which are the ones that a distance
counts most. Backbone and projection do not depend on mean and factors, so one pass is enough.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from edgeseg.base.progress import Note, Progress
from edgeseg.data.datasets import Dataset
from edgeseg.export.graph import (
    FACTOR,
    MAP_FACTOR,
    MAP_WEIGHT,
    MEANS,
    VARIANT_BIAS,
    VARIANT_WEIGHT,
    ancestors,
    check_graph,
    initializers,
    quadratic_form,
)
from edgeseg.export.sessions import Run
from edgeseg.fitting.feature_space import FeatureSpace
from edgeseg.fitting.fitting import fit_in
from edgeseg.fitting.options import FitOptions
from edgeseg.fitting.variants import check_same
from edgeseg.model.artefact import Artefact
from edgeseg.model.predictor import Embedder
from edgeseg.model.reference import ReferenceModel
from edgeseg.vision.group_by import AUTO, GroupBy

EMBEDDING = "embedding"  # the output that a probe has


def embedding_tensor(proto: ModelProto) -> str:
    """Name the tensor (N, P, k) that the mean is subtracted from, while the form is one product."""
    return str(centring(proto).input[0])


def centring(proto: ModelProto) -> NodeProto:
    """Find the node that subtracts the mean in front of the quadratic form."""
    chain = ancestors(proto, quadratic_form(proto).input[0])
    return next(node for node in reversed(chain) if node.op_type == "Sub")


def mean_name(proto: ModelProto) -> str:
    """Name the constant that is subtracted from the embedding first: the mean of all images."""
    tensor = embedding_tensor(proto)
    return next(
        str(node.input[1])
        for node in proto.graph.node
        if node.op_type == "Sub" and node.input[0] == tensor
    )


def with_embedding(proto: ModelProto, tensor: str) -> ModelProto:
    """Copy the graph with the embedding as one more output, in fp32."""
    probe = ModelProto()
    probe.CopyFrom(proto)
    probe.graph.node.append(
        helper.make_node("Cast", [tensor], [EMBEDDING], to=TensorProto.FLOAT, name="probe")
    )
    probe.graph.output.append(helper.make_tensor_value_info(EMBEDDING, TensorProto.FLOAT, None))
    return check_graph(probe)


def cut(proto: ModelProto) -> ModelProto:
    """Copy only the part of a graph that computes the embedding."""
    probe = with_embedding(proto, embedding_tensor(proto))
    del probe.graph.output[:-1]
    kept = list(ancestors(probe, EMBEDDING))
    used = {name for node in kept for name in node.input}
    constants = [tensor for tensor in probe.graph.initializer if tensor.name in used]
    del probe.graph.node[:]
    probe.graph.node.extend(kept)
    del probe.graph.initializer[:]
    probe.graph.initializer.extend(constants)
    return check_graph(probe)


def embedder(run: Run) -> Embedder:
    """Wrap a probe's session as the function that a fit embeds with."""

    def embed(frames: NDArray[np.uint8]) -> NDArray[np.float32]:
        (rows,) = run(frames)
        return np.ascontiguousarray(rows.swapaxes(1, 2))  # (N, P, k) to (N, k, P)

    return embed


def refit(
    artefact: Artefact, embed: Embedder, good: Dataset, *, note: Note, progress: Progress
) -> Artefact:
    """Fit the model again: mean, factors, thresholds and drift baseline from other embeddings."""
    rate = artefact.calibration.requested_rate
    space = replace(
        FeatureSpace.of(artefact),
        config=artefact.config.with_options({"false_alarm_rate": rate}),
        through=embed,
    )
    check_same(space.config, good)
    # As many as it was fitted with, be it none.
    planted = 0 if artefact.planted is None else max(artefact.planted.count, FitOptions.planted)
    options = FitOptions(
        keep_moments=False,
        planted=planted,
        note=note,
        progress=progress,
        group_by=GroupBy(text=artefact.data.get("group_by", AUTO)),
    )
    fitted = fit_in(space, good, options)
    return replace(
        artefact,
        factors=fitted.factors,
        calibration=fitted.calibration,
        planted=fitted.planted,
    )


def with_factors(proto: ModelProto, model: ReferenceModel) -> ModelProto:
    """Copy the graph with mean and factors of the model, both in fp32."""
    changed = ModelProto()
    changed.CopyFrom(proto)
    constants = initializers(changed)
    values = {mean_name(changed): model.mean, FACTOR: model.factor}
    if model.map_factor is not None and model.map_weight is not None:
        values |= {MAP_FACTOR: model.map_factor, MAP_WEIGHT: model.map_weight}
    several = (model.variant_means, model.variant_weight, model.variant_bias)
    for name, values_of in zip((MEANS, VARIANT_WEIGHT, VARIANT_BIAS), several, strict=True):
        values |= {} if values_of is None else {name: values_of}
    for name, value in values.items():
        constants[name].CopyFrom(numpy_helper.from_array(value.contiguous().numpy(), name))
    return check_graph(changed)
