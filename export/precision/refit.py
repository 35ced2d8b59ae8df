"""Moments taken again through a rounded graph: what rounding does becomes part of the covariance.

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
from edgeseg.export.graph import FACTOR, ancestors, checked, initializers, quadratic_form
from edgeseg.export.sessions import Run
from edgeseg.fitting.feature_space import FeatureSpace
from edgeseg.fitting.fitting import fit_in
from edgeseg.fitting.options import FitOptions
from edgeseg.model.artefact import Artefact
from edgeseg.model.predictor import Embedder
from edgeseg.model.reference import ReferenceModel
from edgeseg.vision.group_by import AUTO, GroupBy

EMBEDDING = "embedding"  # the output that a probe has


def embedding_tensor(proto: ModelProto) -> str:
    """The tensor (N, P, k) from which the mean is taken; as long as the form is one product."""
    return str(centring(proto).input[0])


def centring(proto: ModelProto) -> NodeProto:
    """The subtraction of the mean in front of the quadratic form."""
    chain = ancestors(proto, quadratic_form(proto).input[0])
    return next(node for node in reversed(chain) if node.op_type == "Sub")


def with_embedding(proto: ModelProto, tensor: str) -> ModelProto:
    """A copy that also gives out the embedding, in fp32."""
    probe = ModelProto()
    probe.CopyFrom(proto)
    probe.graph.node.append(
        helper.make_node("Cast", [tensor], [EMBEDDING], to=TensorProto.FLOAT, name="probe")
    )
    probe.graph.output.append(helper.make_tensor_value_info(EMBEDDING, TensorProto.FLOAT, None))
    return checked(probe)


def cut(proto: ModelProto) -> ModelProto:
    """The part of a graph that makes the embedding: nothing behind it is run or kept."""
    probe = with_embedding(proto, embedding_tensor(proto))
    del probe.graph.output[:-1]
    kept = list(ancestors(probe, EMBEDDING))
    used = {name for node in kept for name in node.input}
    constants = [tensor for tensor in probe.graph.initializer if tensor.name in used]
    del probe.graph.node[:]
    probe.graph.node.extend(kept)
    del probe.graph.initializer[:]
    probe.graph.initializer.extend(constants)
    return checked(probe)


def embedder(run: Run) -> Embedder:
    """A probe's session as what a fit embeds with."""

    def embed(frames: NDArray[np.uint8]) -> NDArray[np.float32]:
        (rows,) = run(frames)
        return np.ascontiguousarray(rows.swapaxes(1, 2))  # (N, P, k) to (N, k, P)

    return embed


def refitted(
    artefact: Artefact, embed: Embedder, good: Dataset, *, note: Note, progress: Progress
) -> Artefact:
    """The same model with mean, factors, thresholds and drift baseline of other embeddings."""
    rate = artefact.calibration.requested_rate
    space = replace(
        FeatureSpace.of(artefact),
        config=artefact.config.with_options({"false_alarm_rate": rate}),
        through=embed,
    )
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
    """A copy whose mean and factors are those of the model; both are fp32 in it."""
    changed = ModelProto()
    changed.CopyFrom(proto)
    constants = initializers(changed)
    mean = centring(changed).input[1]
    for name, value in ((mean, model.mean), (FACTOR, model.factor)):
        constants[name].CopyFrom(numpy_helper.from_array(value.contiguous().numpy(), name))
    return checked(changed)
