"""Fit a split model again through its accelerator: mean, factors, threshold and drift baseline.

good images --backbone, as it runs there--> taps --head up to the embedding--> moments
--with_factors--> the same head with other numbers, verified and written in its place
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto

from edgeseg.base.errors import UsageError, VerificationError
from edgeseg.base.files import temporary_folder
from edgeseg.base.progress import Note, Progress
from edgeseg.data.datasets import Dataset
from edgeseg.export.candidates import planted_frames
from edgeseg.export.graph import set_metadata
from edgeseg.export.halves import add_facts
from edgeseg.export.onnx_export import save_described
from edgeseg.export.precision.refit import EMBEDDING, cut, embedder, refit, with_factors
from edgeseg.export.precision.tolerances import TOLERANCES
from edgeseg.export.sessions import Frames, Maps, Run, in_batches
from edgeseg.export.split_export import session_predictor
from edgeseg.export.verify import Agreement, agreement, head_error, table
from edgeseg.model.artefact import Artefact
from edgeseg.model.model_metadata import describe_model
from edgeseg.model.predictor import variant_predictor
from edgeseg.modelfile.metadata import ModelMetadata
from edgeseg.runtime.backends.head_session import HeadSession, named_taps
from edgeseg.runtime.backends.model_file import file_metadata
from edgeseg.runtime.backends.onnxruntime_session import open_onnxruntime
from edgeseg.runtime.backends.session_options import RunBackbone, SessionOptions
from edgeseg.runtime.backends.split_facts import SplitFacts, read_split

ACCELERATOR = "accelerator"  # whose numbers they are, in the metadata
_AS_ROUNDED = "int8"  # how far decisions may be from those of fp32
_HEADS = 4  # frames on which what is behind the embedding is looked at alone


def refit_head(
    head: Path,
    artefact: Artefact,
    good: Dataset,
    *,
    backbone: RunBackbone,
    note: Note,
    progress: Progress,
) -> Agreement:
    """Fit the head of a model again through its backbone, and write it if it still decides as it.

    The head has to be of this artefact. One that loses decisions stays as it was.
    """
    before, facts = file_metadata(head), _facts_of(head, artefact)
    proto = onnx.load(head)
    embed = _embedding_run(cut(proto), facts, backbone)
    note(f"taking the moments again through the backbone that runs {head.name}")
    fitted = refit(artefact, embedder(embed), good, note=note, progress=progress)
    calibration = fitted.calibration
    origin = replace(calibration.origin, backend=ACCELERATOR)
    fitted = replace(fitted, calibration=replace(calibration, origin=origin))
    changed = with_factors(proto, fitted.model())
    metadata = _describe(fitted, before)
    set_metadata(changed, metadata)
    add_facts(changed, facts)
    row = _verify(changed, metadata, head, artefact, fitted, good, backbone, embed)
    note(table([row]))
    if not row.passed:
        raise VerificationError(
            f"{head}: does not decide as the fitted model does behind this backbone "
            f"({'; '.join(row.failures)}), so it stays as it was; let the tool round less, or give "
            "it more of the good images to calibrate on"
        )
    save_described(changed, head, metadata, note=note)
    return row


def _facts_of(head: Path, artefact: Artefact) -> SplitFacts:
    facts = read_split(head)
    if facts is None or facts.half != "head":
        raise UsageError(f"{head}: expected the .head.onnx of `edgeseg export --split`")
    metadata = file_metadata(head)
    ours = (artefact.origin.sha256, artefact.embedding.shape[1], artefact.config.size_hw)
    theirs = (metadata.backbone.weights_sha256, metadata.k, metadata.size_hw)
    if ours != theirs or metadata.name != artefact.data["name"]:
        raise UsageError(
            f"{head}: the head of another model ({metadata.name}); give the one that was exported "
            "from this artefact"
        )
    return facts


def _embedding_run(probe: ModelProto, facts: SplitFacts, backbone: RunBackbone) -> Run:
    """Return frames (N, H, W, 3) to embeddings (N, P, k), through the backbone that is given."""
    session = open_onnxruntime(probe.SerializeToString(), SessionOptions())
    count = facts.pixels.shape[0]

    def run(frames: Frames) -> tuple[Maps, ...]:
        values = session.run([EMBEDDING], named_taps(backbone(frames), facts.taps))
        return tuple(values)

    return in_batches(run, (count, count, count))


def _describe(fitted: Artefact, before: ModelMetadata) -> ModelMetadata:
    return describe_model(
        fitted,
        artefact_sha256=before.artefact_sha256,
        precision=before.precision,
        target=before.target,
        batch=before.input.batch,
        outputs=list(before.outputs),
        calibrated_in=ACCELERATOR,
    )


def _verify(
    changed: ModelProto,
    metadata: ModelMetadata,
    head: Path,
    artefact: Artefact,
    fitted: Artefact,
    good: Dataset,
    backbone: RunBackbone,
    embed: Run,
) -> Agreement:
    """Compare the new head with the reference: from its own embedding, and in what it decides."""
    frames = planted_frames(artefact.config, good)
    options = SessionOptions(backbone=backbone, allow_random_weights=True)
    with temporary_folder(head.parent, name="refit") as folder:
        tried = folder / head.name
        save_described(changed, tried, metadata)
        with HeadSession(tried, options) as session:

            def stages(images: Frames) -> tuple[Maps, ...]:
                (found,) = session.infer(images)
                scores = np.array([found.score], np.float32)
                return (*embed(images), found.map_hw[None], scores)

            looked = frames.images[:: -(-len(frames.images) // _HEADS)]
            return agreement(
                variant_predictor(artefact.model()),
                session_predictor(session),
                frames,
                backend=session.backend,
                thresholds=(
                    artefact.calibration.score_threshold,
                    fitted.calibration.score_threshold,
                ),
                tolerance=TOLERANCES[_AS_ROUNDED],
                head_error=head_error(fitted.model(), stages, looked),
            )
