"""Export an artefact as a verified ONNX file with its metadata."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from onnx import ModelProto

from edgeseg.base.errors import ExportError, UsageError, VerificationError
from edgeseg.base.files import file_sha256
from edgeseg.base.messages import Setting
from edgeseg.base.progress import Note, Progress, ignore, silent
from edgeseg.data.datasets import Dataset
from edgeseg.export.accuracy import measure_accuracy
from edgeseg.export.calibration_frames import calibration_frames, synthetic_frames
from edgeseg.export.candidates import Trial, TriedGraph
from edgeseg.export.exported import Exported, ExportReport
from edgeseg.export.graph import GraphOptions, build_graph, is_large, replace_graph, save_graph
from edgeseg.export.options import ExportOptions
from edgeseg.export.precision.makers import MAKERS, Task
from edgeseg.export.sessions import check_arithmetic
from edgeseg.export.verify import Agreement
from edgeseg.model.artefact import Artefact
from edgeseg.modelfile.metadata import ModelMetadata
from edgeseg.modelfile.precisions import EXACT, precision_spec
from edgeseg.runtime.backends.kept_choice import earlier_choice
from edgeseg.runtime.backends.model_file import stage_sidecar
from edgeseg.runtime.backends.onnx_properties import property_text
from edgeseg.runtime.backends.openvino_session import check_installed
from edgeseg.runtime.backends.session_options import AUTO


def export_onnx(
    artefact: Artefact,
    out: Path,
    *,
    options: ExportOptions,
    artefact_path: Path | None = None,
    good: Dataset | None = None,
    labelled: Dataset | None = None,
    note: Note = ignore,
    progress: Progress = silent,
) -> Exported:
    """Build, verify and write one graph and its sidecar; a graph that disagrees is set aside.

    With good images a rounded graph is fitted again through itself. With labelled images its
    accuracy is measured. The file gets its name once, after all of that: until then an earlier
    export stays as it is.
    """
    _check(artefact, options, good)
    config = artefact.config
    images = synthetic_frames(config) if good is None else calibration_frames(good, config)
    trial = Trial(
        artefact=artefact,
        folder=out.parent,
        options=options,
        good=good,
        images=images,
        artefact_sha256=file_sha256(artefact_path) if artefact_path else "",
        note=note,
        progress=progress,
    )
    spec = artefact.spec
    task = Task(
        graph=_trace(artefact, options),
        images=images,
        target=options.target,
        exact_layers=spec.exact_layers,
        rounds_backbone=spec.int8_on_cpus or options.target != "cpu",
    )
    made, report = _choose(trial, task)
    _set_aside_if_wrong(made.graph, out, made.rows)
    if labelled is not None:
        made, report = _measure(trial, made, report, labelled, out)
    metadata = save_described(made.graph, out, made.metadata, note=note)
    return Exported(path=out, metadata=metadata, report=report, agreements=made.rows)


def _measure(
    trial: Trial, made: TriedGraph, report: ExportReport, labelled: Dataset, out: Path
) -> tuple[TriedGraph, ExportReport]:
    """Measure accuracy at the threshold that the file will have, for the graph and the report."""
    stated = ModelMetadata.from_json(made.metadata.to_json(), source=str(out))
    earlier = earlier_choice(out, note=ignore)  # whoever writes the file tells of it
    if earlier is not None:
        stated = earlier.carry_to(stated, note=ignore)
    with trial.save(made.graph) as file:
        measured = measure_accuracy(file, stated, trial.artefact, labelled, note=trial.note)
    return made.with_accuracy(measured.rows), report | measured.report


def save_described(
    graph: ModelProto,
    out: Path,
    metadata: ModelMetadata,
    *,
    beside: Mapping[str, bytes] | None = None,
    note: Note = ignore,
) -> ModelMetadata:
    """Write a graph and its sidecar in one step, so that both are old or both are new.

    So are files `beside` it, by their names. Threshold and regions that were chosen for an earlier
    file of that name stay, if the model is the same.
    """
    earlier = earlier_choice(out, note=note)
    with replace_graph(graph, out) as (change, written):
        for name, data in (beside or {}).items():
            change.path(name).write_bytes(data)
        text = property_text(written)  # with the hash of the graph
        stated = ModelMetadata.from_json(text, source=str(out)) if text else metadata
        stated = stated if earlier is None else earlier.carry_to(stated, note=note)
        described = replace(stated, onnx_sha256=file_sha256(written))
        stage_sidecar(change, written.name, described)
    return described


def _check(artefact: Artefact, options: ExportOptions, good: Dataset | None) -> None:
    precision = precision_spec(options.precision)
    if artefact.origin.random and not options.allow_random_weights:
        raise ExportError(
            "the backbone has random weights, so its maps mean nothing; fit with real "
            "weights, or pass ",
            Setting("allow_random_weights", True),
            " to export it for timing",
        )
    if precision.needs_images and good is None:
        raise UsageError(
            Setting("precision", precision.name),
            " needs good images to calibrate on; pass ",
            Setting("calibrate", "FOLDER"),
            ", the images the model was fitted on will do",
        )
    if options.backend != AUTO and good is None:
        raise UsageError(
            Setting("backend", options.backend),
            ": the session that good images go through, and there are none; pass ",
            Setting("calibrate", "FOLDER"),
            ", or leave it out",
        )
    check_arithmetic(precision)
    if options.backend == "openvino":
        check_installed()


def _trace(artefact: Artefact, options: ExportOptions) -> ModelProto:
    precision = precision_spec(options.precision)
    graph = build_graph(
        artefact.model(),
        GraphOptions(
            batch=options.batch,
            grid_output=options.grid_output,
            fold_scale=precision.folds_scale,
        ),
        size_hw=artefact.config.size_hw,
    )
    if precision.name != EXACT and is_large(graph):
        raise ExportError(
            f"the {EXACT} graph holds over 2 GB, too much to be made {precision.name}; fit "
            "with a larger share or a smaller size, k or rank, or export with ",
            Setting("precision", EXACT),
        )
    return graph


def _choose(trial: Trial, task: Task) -> tuple[TriedGraph, ExportReport]:
    """Return the first candidate that decides as the reference does, or the last, and a report."""
    refused: dict[str, list[str]] = {}
    for candidate in MAKERS[trial.options.precision](task):
        made = trial.run(candidate)
        if not made.failures:
            break
        refused[made.text] = made.failures
        trial.note(f"{made.text}: does not decide as {EXACT} does")
    report: ExportReport = {"precision": made.text}
    if made.metadata.calibrated_in is not None:
        report["calibrated_in"] = made.metadata.calibrated_in
    return made, report | ({"refused": refused} if refused else {})


def _set_aside_if_wrong(graph: ModelProto, out: Path, rows: tuple[Agreement, ...]) -> None:
    wrong = [row for row in rows if not row.passed]
    if not wrong:
        return
    failed = out.with_name(out.name + ".failed")
    save_graph(graph, failed)
    raise VerificationError(
        f"{out}: disagrees with the reference in {', '.join(row.backend for row in wrong)} "
        f"({'; '.join(wrong[0].failures)}); it is kept as {failed}, try a higher ",
        Setting("precision"),
    )
