"""Export a model in two verified halves: `edgeseg export --split`."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray

from edgeseg.base.errors import ExportError, VerificationError
from edgeseg.base.files import size_text, temporary_folder
from edgeseg.base.progress import Note, ignore
from edgeseg.data.datasets import Dataset
from edgeseg.export.candidates import verification_frames
from edgeseg.export.exported import Exported, SplitExport
from edgeseg.export.graph import is_large, set_metadata
from edgeseg.export.halves import GraphHalves, add_facts, halve_graph
from edgeseg.export.onnx_export import save_described
from edgeseg.export.precision.tolerances import TOLERANCES
from edgeseg.export.verify import Agreement, VerificationFrames, agreement, table
from edgeseg.model.artefact import Artefact
from edgeseg.model.predictor import VariantPredictor, VariantScores, variant_predictor
from edgeseg.modelfile.metadata import ModelMetadata
from edgeseg.modelfile.precisions import EXACT
from edgeseg.runtime.backends.base import Session
from edgeseg.runtime.backends.choose import open_session
from edgeseg.runtime.backends.onnx_properties import property_text
from edgeseg.runtime.backends.session_options import SessionOptions
from edgeseg.runtime.backends.split_facts import HEAD_SUFFIX, backbone_path


def export_halves(
    whole: Exported, artefact: Artefact, *, good: Dataset | None = None, note: Note = ignore
) -> SplitExport:
    """Cut an exported fp32 graph, verify the halves together, and write them beside it.

    Halves that disagree with the reference are not written; earlier ones stay as they are.
    """
    stem = whole.path.name.removesuffix(".onnx")
    head_path = whole.path.with_name(stem + HEAD_SUFFIX)
    proto = onnx.load(whole.path)
    if is_large(proto):
        raise ExportError(
            f"{whole.path}: over 2 GB, too much to be split; fit with a larger share, or a smaller "
            "size, k or rank"
        )
    halves = halve_graph(proto)
    metadata = _read_metadata(whole.path)
    set_metadata(halves.head, metadata)
    add_facts(halves.head, halves.facts)
    frames = verification_frames(artefact.config, good)
    row = _verify(halves, metadata, artefact, frames, folder=whole.path.parent)
    note("the halves, one after the other:\n" + table([row]))
    if not row.passed:
        raise VerificationError(
            f"{head_path}: the halves together disagree with the reference "
            f"({'; '.join(row.failures)}), so neither was written; report it"
        )
    backbone = backbone_path(head_path)
    _write(halves, head_path, metadata, note=note)
    taps = ", ".join(f"{tap.name} {list(tap.shape)}" for tap in halves.facts.taps)
    note(
        f"wrote {backbone} ({size_text(len(halves.backbone))}, float32 "
        f"{list(halves.facts.pixels.shape)} to {taps}) and {head_path} "
        f"({size_text(head_path.stat().st_size)})"
    )
    return SplitExport(backbone=backbone, head=head_path, agreement=row)


def _verify(
    halves: GraphHalves,
    metadata: ModelMetadata,
    artefact: Artefact,
    frames: VerificationFrames,
    *,
    folder: Path,
) -> Agreement:
    """Compare both halves, opened as a stream opens them, with the reference."""
    threshold = artefact.calibration.score_threshold
    with temporary_folder(folder, name="split") as tried:
        head = tried / f"part{HEAD_SUFFIX}"
        _write(halves, head, metadata)
        session = open_session(head, SessionOptions(allow_random_weights=True))
        return agreement(
            variant_predictor(artefact.model()),
            session_predictor(session),
            frames,
            backend="ONNX Runtime",
            thresholds=(threshold, threshold),
            tolerance=TOLERANCES[EXACT],
        )


def _read_metadata(whole: Path) -> ModelMetadata:
    """Read what the whole graph says of itself; what was decided since stands in its sidecar."""
    metadata = ModelMetadata.from_json(property_text(whole) or "", source=str(whole))
    return replace(metadata, graph_sha256=None)  # a half gets its own


def _write(
    halves: GraphHalves, head: Path, metadata: ModelMetadata, *, note: Note = ignore
) -> None:
    beside = {backbone_path(head).name: halves.backbone}
    save_described(halves.head, head, metadata, beside=beside, note=note)


def session_predictor(session: Session) -> VariantPredictor:
    """Return a session as a predictor of maps, scores and, where there are some, variants."""
    numbers = {name: number for number, name in enumerate(session.metadata.variants)}

    def predict(frames: NDArray[np.uint8]) -> VariantScores:
        found = session.infer(frames)
        variants = [numbers[each.variant] for each in found if each.variant is not None]
        return VariantScores(
            np.stack([each.map_hw for each in found]),
            np.array([each.score for each in found], np.float32),
            np.array(variants) if numbers else None,
        )

    return predict
