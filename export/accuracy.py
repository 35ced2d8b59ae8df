"""Measure the accuracy of the reference and of the exported file on a labelled data set."""

from dataclasses import dataclass
from pathlib import Path

from edgeseg.base.progress import Note
from edgeseg.base.tables import align_columns
from edgeseg.data.datasets import Dataset
from edgeseg.decision.metric_registry import stored_metrics
from edgeseg.decision.thresholds import Thresholds
from edgeseg.evaluation.evaluate import Evaluation, evaluate
from edgeseg.export.sessions import backend_predictors
from edgeseg.model.artefact import Artefact
from edgeseg.model.predictor import VariantPredictor, frame_predictor, torch_predictor
from edgeseg.modelfile.metadata import NUMERICS, AccuracyRow, ModelMetadata
from edgeseg.modelfile.precisions import EXACT
from edgeseg.runtime.backends.session_options import AUTO


@dataclass(frozen=True, kw_only=True)
class MeasuredAccuracy:
    """The accuracy of a file, for its metadata and for the report of its export."""

    rows: tuple[AccuracyRow, ...]
    before: Evaluation
    after: Evaluation

    @property
    def report(self) -> dict[str, float | None]:
        """The figures for the report of an export."""
        return {"pro_before": self.before.pro, "pro_after": self.after.pro}


def measure_accuracy(
    file: Path, stated: ModelMetadata, artefact: Artefact, dataset: Dataset, *, note: Note
) -> MeasuredAccuracy:
    """Evaluate the reference and an exported file, each at its own threshold.

    Every row of the metadata says in which precision its figures were measured.
    """
    backends = backend_predictors(
        file,
        precision=stated.precision,
        target=stated.target,
        batch=stated.input.batch,
        backend=stated.calibrated_in or AUTO,
        head=artefact.head() if "grid" in stated.outputs else None,
    )
    name, candidate = next(iter(backends.items()))

    def run(predict: VariantPredictor, thresholds: Thresholds) -> Evaluation:
        return evaluate(
            frame_predictor(predict, artefact.config),
            dataset,
            size_hw=artefact.config.image_hw,
            geometry=artefact.config.geometry,
            grid_hw=artefact.config.grid_hw,
            thresholds=thresholds,
            variants=artefact.config.variants,
            batch_size=1,
        )

    before = run(torch_predictor(artefact.model()), artefact.calibration.thresholds)
    after = run(candidate(), stated.threshold)
    note(_table(before, after, name=f"{stated.precision}, {name}"))
    rows = _with_rows(stated, before, after)
    return MeasuredAccuracy(rows=rows, before=before, after=after)


def _with_rows(
    stated: ModelMetadata, before: Evaluation, after: Evaluation
) -> tuple[AccuracyRow, ...]:
    kept = [row for row in stated.accuracy if row["dataset"] != after.dataset]
    rows = {EXACT: before.summary(), stated.precision: after.summary()}
    marked = [row | {NUMERICS: precision} for precision, row in rows.items()]
    return (*kept, *marked)


def _table(before: Evaluation, after: Evaluation, *, name: str) -> str:
    """Tabulate what the file costs in accuracy, metric by metric."""
    rows = [[f"accuracy on {after.dataset}", f"{EXACT}, as fitted", name]]
    for metric in stored_metrics():
        figures = (result.figures[metric.key] for result in (before, after))
        texts = ("-" if value is None else f"{value:.4f}" for value in figures)
        rows.append([metric.label, *texts])
    return "\n".join(align_columns(rows))
