"""Accuracy of the reference and of the file, on a labelled data set."""

from dataclasses import replace
from pathlib import Path

from edgeseg.artefact.artefact import Artefact
from edgeseg.contract.metadata import KEY, NUMERICS, AccuracyRow, ModelMetadata, Thresholds
from edgeseg.contract.metrics import stored_metrics
from edgeseg.contract.precisions import EXACT
from edgeseg.data.datasets import Dataset
from edgeseg.evaluation.evaluate import Evaluation, evaluate
from edgeseg.export.exported import Exported
from edgeseg.export.onnx_export import save_described
from edgeseg.export.sessions import installed_backends
from edgeseg.model.predictor import Predictor, frame_predictor, torch_predictor
from edgeseg.progress import Note
from edgeseg.runtime.backends.session_options import AUTO
from edgeseg.tables import aligned


def measure_accuracy(
    exported: Exported, artefact: Artefact, dataset: Dataset, *, note: Note
) -> Exported:
    """Evaluate reference and file, each at its own threshold, and keep the figures of both.

    Every row of the metadata says in which precision its figures were measured.
    """
    stated = exported.metadata
    backends = installed_backends(
        exported.path,
        precision=stated.precision,
        target=stated.target,
        batch=stated.input.batch,
        backend=stated.calibrated_in or AUTO,
        head=artefact.head() if "grid" in stated.outputs else None,
    )
    name, candidate = next(iter(backends.items()))

    def run(predict: Predictor, thresholds: Thresholds) -> Evaluation:
        return evaluate(
            frame_predictor(predict, artefact.config),
            dataset,
            size_hw=artefact.config.image_hw,
            geometry=artefact.config.geometry,
            grid_hw=artefact.config.grid_hw,
            thresholds=thresholds,
            batch_size=1,
        )

    before = run(torch_predictor(artefact.model()), artefact.calibration.thresholds)
    after = run(candidate(), stated.threshold)
    note(_table(before, after, name=f"{stated.precision}, {name}"))
    metadata = _rewrite(exported.path, _with_rows(stated, before, after))
    report = exported.report | {"pro_before": before.pro, "pro_after": after.pro}
    return replace(exported, metadata=metadata, report=report)


def _with_rows(
    stated: ModelMetadata, before: Evaluation, after: Evaluation
) -> tuple[AccuracyRow, ...]:
    kept = [row for row in stated.accuracy if row["dataset"] != after.dataset]
    rows = {EXACT: before.summary(), stated.precision: after.summary()}
    marked = [row | {NUMERICS: precision} for precision, row in rows.items()]
    return (*kept, *marked)


def _table(before: Evaluation, after: Evaluation, *, name: str) -> str:
    """What the file costs in accuracy, metric by metric."""
    rows = [[f"accuracy on {after.dataset}", f"{EXACT}, as fitted", name]]
    for metric in stored_metrics():
        figures = (result.figures[metric.key] for result in (before, after))
        texts = ("-" if value is None else f"{value:.4f}" for value in figures)
        rows.append([metric.label, *texts])
    return "\n".join(aligned(rows))


def _rewrite(path: Path, rows: tuple[AccuracyRow, ...]) -> ModelMetadata:
    """The same graph, which says its accuracy; what was chosen of it stays in its sidecar."""
    import onnx

    proto = onnx.load(path)
    (item,) = (item for item in proto.metadata_props if item.key == KEY)
    metadata = replace(ModelMetadata.from_json(item.value, source=str(path)), accuracy=rows)
    item.value = metadata.to_json()
    return save_described(proto, path, metadata)
