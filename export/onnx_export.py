"""An artefact to a verified ONNX file with its metadata."""

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto

from edgeseg.artefact.artefact import Artefact
from edgeseg.contract.metadata import ModelMetadata
from edgeseg.contract.precisions import EXACT, precision_spec
from edgeseg.data.samples import frames_at_once
from edgeseg.data.synthetic.scene import SceneGenerator
from edgeseg.errors import ExportError, UsageError, VerificationError
from edgeseg.export.graph import (
    GraphOptions,
    build_graph,
    is_large,
    save_graph,
    set_metadata,
)
from edgeseg.export.model_metadata import describe_model
from edgeseg.export.options import ExportOptions
from edgeseg.export.precision.makers import MAKERS, Frames, Task
from edgeseg.export.precision.search import Choice
from edgeseg.export.precision.tolerances import TOLERANCES
from edgeseg.export.verify import Agreement, agreement, installed_backends, table
from edgeseg.files import file_sha256, write_text
from edgeseg.model.predictor import torch_predictor
from edgeseg.model.reference import ReferenceModel
from edgeseg.progress import Note, Progress, ignore, silent

_SYNTHETIC_FRAMES = 8
# Fewer of frames above 512x512; with less than eight the ranks of their scores would say nothing.
_MOST_VERIFIED, _LEAST_VERIFIED = 16, 8


@dataclass(frozen=True, kw_only=True)
class Exported:
    """A file, what it says of itself, and how it was made and checked."""

    path: Path
    metadata: ModelMetadata
    report: dict[str, Any]
    agreements: tuple[Agreement, ...]


def export_onnx(
    artefact: Artefact,
    out: Path,
    *,
    options: ExportOptions,
    artefact_path: Path | None = None,
    calibration: NDArray[np.uint8] | None = None,
    note: Note = ignore,
    progress: Progress = silent,
) -> Exported:
    """Build, verify and write one graph and its sidecar; a graph that disagrees is set aside.

    It takes its name only when it is verified: until then an earlier export stays as it is.
    """
    _check(artefact, options, calibration)
    model = artefact.model()
    frames = _frames(artefact, calibration)
    choice = _graph(artefact, model, frames, options, progress)
    metadata = describe_model(
        artefact,
        artefact_sha256=file_sha256(artefact_path) if artefact_path else "",
        precision=options.precision,
        target=options.target,
        batch=options.batch,
        outputs=[output.name for output in choice.graph.graph.output],
    )

    def compare(graph: ModelProto) -> tuple[Agreement, ...]:
        set_metadata(graph, metadata)
        if not options.verify:
            return ()
        rows = _verified(graph, out, artefact, model, frames, options)
        note(table(list(rows)))
        return rows

    rows = compare(choice.graph)
    if choice.next_best is not None and not all(row.passed for row in rows):
        choice = choice.next_best()
        note(str(choice.report["precision"]))
        rows = compare(choice.graph)
    _set_aside_if_wrong(choice.graph, out, rows)
    save_graph(choice.graph, out)
    metadata = replace(metadata, onnx_sha256=file_sha256(out))
    write_text(out.with_suffix(".json"), metadata.to_json(indent=2) + "\n")
    return Exported(path=out, metadata=metadata, report=choice.report, agreements=rows)


def _check(
    artefact: Artefact, options: ExportOptions, calibration: NDArray[np.uint8] | None
) -> None:
    if artefact.origin.random and not options.allow_random_weights:
        raise ExportError(
            "the backbone has random weights, so its maps mean nothing; fit with real weights, "
            "or pass allow_random_weights=True to export it for timing"
        )
    if precision_spec(options.precision).needs_images and calibration is None:
        raise UsageError(
            f"precision={options.precision} needs good images to calibrate on; pass "
            "calibrate=FOLDER, the images the model was fitted on will do"
        )
    expected = (*artefact.config.size_hw, 3)
    if calibration is not None and (
        calibration.dtype != np.uint8 or calibration.shape[1:] != expected or not len(calibration)
    ):
        raise UsageError(
            f"calibration frames {calibration.dtype} {calibration.shape}: expected uint8 "
            f"(N, {', '.join(map(str, expected))}) with at least one frame"
        )


def _frames(artefact: Artefact, calibration: NDArray[np.uint8] | None) -> Frames:
    if calibration is not None:
        return Frames(images=calibration)
    scene = SceneGenerator(size_hw=artefact.config.size_hw, seed=artefact.config.seed)
    images = np.stack([scene.good(index) for index in range(_SYNTHETIC_FRAMES)])
    return Frames(images=images, source="synthetic images", good=False)


def _graph(
    artefact: Artefact,
    model: ReferenceModel,
    frames: Frames,
    options: ExportOptions,
    progress: Progress,
) -> Choice:
    precision = precision_spec(options.precision)
    graph = build_graph(
        model,
        GraphOptions(
            batch=options.batch,
            grid_output=options.grid_output,
            fold_scale=precision.folds_scale,
        ),
        size_hw=artefact.config.size_hw,
    )
    if precision.name != EXACT and is_large(graph):
        raise ExportError(
            f"the {EXACT} graph holds over 2 GB, too much to be made {precision.name}; fit with a "
            f"larger share or a smaller size, k or rank, or export with precision={EXACT}"
        )
    task = Task(graph=graph, model=model, frames=frames, target=options.target, progress=progress)
    return MAKERS[precision.name](task)


def _verified(
    graph: ModelProto,
    out: Path,
    artefact: Artefact,
    model: ReferenceModel,
    frames: Frames,
    options: ExportOptions,
) -> tuple[Agreement, ...]:
    """The comparison of the file as it will be, in a folder of its own."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.stem}-") as folder:
        path = Path(folder) / out.name
        save_graph(graph, path)
        return verify(path, artefact, model, frames, options)


def verify(
    path: Path, artefact: Artefact, model: ReferenceModel, frames: Frames, options: ExportOptions
) -> tuple[Agreement, ...]:
    """Compare the file with the reference in every backend that is installed here."""
    reference = torch_predictor(model)
    most, least = _MOST_VERIFIED, _LEAST_VERIFIED
    count = frames_at_once(artefact.config.size_hw, most=most, least=least, pixels=most * 512**2)
    rows = []
    backends = installed_backends(
        path, precision=options.precision, target=options.target, batch=options.batch
    )
    for backend, open_predictor in backends.items():
        rows.append(
            agreement(
                reference,
                open_predictor(),
                frames.images[:count],
                backend=backend,
                source=frames.source,
                threshold=artefact.calibration.score_threshold,
                tolerance=TOLERANCES[options.precision],
            )
        )
    return tuple(rows)


def _set_aside_if_wrong(graph: ModelProto, out: Path, rows: tuple[Agreement, ...]) -> None:
    wrong = [row for row in rows if not row.passed]
    if not wrong:
        return
    failed = out.with_name(out.name + ".failed")
    save_graph(graph, failed)
    raise VerificationError(
        f"{out}: disagrees with the reference in {', '.join(row.backend for row in wrong)} "
        f"({'; '.join(wrong[0].failures)}); it is kept as {failed}, try a higher precision="
    )
