"""Write the graph that runs, from a backbone's graph and a model fitted through it."""

import io
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import ExportError, RuntimeFailure, UsageError, VerificationError
from edgeseg.base.files import file_sha256, write_target
from edgeseg.base.plain import Malformed
from edgeseg.base.progress import Note, ignore
from edgeseg.data.synthetic.scene import SceneGenerator
from edgeseg.fitting.graph.backbone_graph import BackboneGraph
from edgeseg.fitting.graph.find_graph import graph_of_model
from edgeseg.model.artefact import Artefact, load_artefact
from edgeseg.model.gaussian_head import GaussianHead
from edgeseg.model.model_metadata import describe_model
from edgeseg.modelfile.metadata import KEY, ModelMetadata
from edgeseg.modelfile.precisions import EXACT
from edgeseg.modelfile.versions import replacing
from edgeseg.runtime.backends.choose import open_session
from edgeseg.runtime.backends.kept_choice import earlier_choice
from edgeseg.runtime.backends.model_file import stage_sidecar
from edgeseg.runtime.backends.onnx_message import with_constants, with_property
from edgeseg.runtime.backends.onnx_properties import graph_sha256
from edgeseg.runtime.backends.session_options import SessionOptions

_BATCH = (1, 1, 1)
_FRAMES = 2  # on which the file is compared with the model before it takes its name
_TOLERANCE = 1e-3  # of the map's range, as for files of `edgeseg export`


def write_model(
    artefact: Artefact,
    graph: BackboneGraph,
    out: Path,
    *,
    artefact_sha256: str,
    allow_random_weights: bool = False,
    note: Note = ignore,
) -> ModelMetadata:
    """Write the graph and its sidecar; one that disagrees with the model is not written.

    What was chosen for an earlier file of that name stays, if it is of the same model.
    """
    if artefact.origin.random and not allow_random_weights:
        raise ExportError(
            "the backbone has random weights, so its maps mean nothing; fit through a graph with "
            "real weights"
        )
    if artefact.config.variants:
        raise ExportError(
            "the model has several variants, and the graph of a backbone has room for one product; "
            "export it where torch is installed"
        )
    graph.check_of(artefact)
    out = write_target(out)
    head = artefact.head()
    outputs = artefact.outputs if graph.facts.explains else head.outputs
    metadata = describe_model(
        artefact,
        artefact_sha256=artefact_sha256,
        precision=EXACT,
        target="cpu",
        batch=_BATCH,
        outputs=list(outputs),
    )
    data = _fill_blanks(graph, head, outputs)
    metadata = replace(metadata, graph_sha256=graph_sha256(io.BytesIO(data)))
    earlier = earlier_choice(out, note=note)
    with replacing(out.parent) as change:
        staged = change.path(out.name)
        staged.write_bytes(with_property(data, KEY, metadata.to_json()))
        metadata = replace(metadata, onnx_sha256=file_sha256(staged))
        stage_sidecar(change, out.name, metadata)  # without it the graph does not run
        _verify(staged, graph, head, out)
        if earlier is not None:
            metadata = earlier.carry_to(metadata, note=note)
            stage_sidecar(change, out.name, metadata)
    return metadata


def write_model_of_file(
    artefact: Path,
    out: Path,
    *,
    graph: Path | None,
    allow_random_weights: bool = False,
    note: Note = ignore,
) -> tuple[Path, ModelMetadata]:
    """Write the graph that runs a model's file; return the backbone's graph and the metadata."""
    # Moments are for going on fitting: of a large grid they are a gigabyte that nobody needs here.
    model = replace(load_artefact(artefact), moments=None)
    backbone = graph_of_model(model, graph, tell=lambda message: note(str(message)))
    metadata = write_model(
        model,
        backbone,
        out,
        artefact_sha256=file_sha256(artefact),
        allow_random_weights=allow_random_weights,
        note=note,
    )
    return backbone.path, metadata


def _fill_blanks(graph: BackboneGraph, head: GaussianHead, outputs: Collection[str]) -> bytes:
    """Return the graph with the numbers of a model in its blanks, and with these outputs."""
    facts, config = graph.facts, graph.config
    if head.top != config.top:
        raise UsageError(
            f"ignore: {head.top} cells are left, and the graph takes the mean of the {config.top} "
            "highest; ignore less, or make a graph with a smaller top"
        )
    constants = {
        facts.mean: head.mean,
        facts.factor: head.factors.factor,
        facts.kept: _or_ones(head.kept, config.grid_hw),
        facts.gain: _or_ones(head.gain, config.size_hw),
    }
    if head.factors.shown is not None:
        constants[facts.map_weight] = head.factors.shown.weight[:, None]
        constants[facts.map_factor] = head.factors.shown.factor
        constants[facts.counted] = head.counted
    try:
        return with_constants(graph.path.read_bytes(), constants, outputs=outputs)
    except Malformed as error:
        raise RuntimeFailure(
            f"{graph.path}: the model does not fit into it ({error}); make it again with "
            "`edgeseg export-backbone`"
        ) from None


def _or_ones(values: NDArray[np.float32] | None, shape: tuple[int, int]) -> NDArray[np.float32]:
    return np.ones(shape, np.float32) if values is None else values


def _verify(staged: Path, graph: BackboneGraph, head: GaussianHead, out: Path) -> None:
    """Compare the file in this computer's session with the model, on the same embeddings."""
    scene = SceneGenerator(size_hw=graph.config.size_hw, seed=graph.config.seed)
    frames = np.stack([scene.good(index) for index in range(_FRAMES)])
    embedded = graph.embed(frames).reshape(_FRAMES, -1, *graph.config.grid_hw)
    maps, scores = head.judge(embedded)
    with open_session(staged, SessionOptions(allow_random_weights=True)) as session:
        found = session.infer(frames)
    pairs = [
        (np.stack([prediction.map_hw for prediction in found]), maps, np.ptp(maps)),
        (np.array([prediction.score for prediction in found]), scores, scores.max()),
    ]
    given = [prediction.apart_pk for prediction in found if prediction.apart_pk is not None]
    if given:
        apart = head.apart(embedded)
        pairs.append((np.stack(given), apart, np.ptp(apart)))
    errors = [np.abs(ours - model).max() / max(float(span), 1e-6) for ours, model, span in pairs]
    error = float(np.max(errors))  # unlike max(): NaN stays NaN
    if not error <= _TOLERANCE:
        raise VerificationError(
            f"{out}: its map or score is {error:.2g} of the range away from the model's, expected "
            f"up to {_TOLERANCE:g}; make the backbone's graph again"
        )
