"""PRO before and after export, on a labelled data set."""

from dataclasses import replace
from pathlib import Path

from edgeseg.artefact.artefact import Artefact
from edgeseg.contract.metadata import KEY
from edgeseg.contract.metrics import stored_metrics
from edgeseg.data.datasets import Dataset
from edgeseg.evaluation.evaluate import Evaluation, evaluate
from edgeseg.export.onnx_export import Exported
from edgeseg.export.verify import installed_backends
from edgeseg.files import file_sha256, write_text
from edgeseg.model.predictor import Predictor, frame_predictor, torch_predictor
from edgeseg.progress import Note


def measure_accuracy(
    exported: Exported, artefact: Artefact, dataset: Dataset, *, note: Note
) -> Exported:
    """Evaluate the reference and the file, and keep the file's figures in its metadata."""
    stated = exported.metadata
    backends = installed_backends(
        exported.path, precision=stated.precision, target=stated.target, batch=stated.input.batch
    )
    name, candidate = next(iter(backends.items()))

    def run(predict: Predictor) -> Evaluation:
        return evaluate(
            frame_predictor(predict, artefact.config),
            dataset,
            size_hw=artefact.config.image_hw,
            threshold=artefact.calibration.score_threshold,
            pixel_threshold=artefact.calibration.pixel_threshold,
            threshold_method=artefact.calibration.method,
            batch_size=1,
        )

    before, after = run(torch_predictor(artefact.model())), run(candidate())
    for figure in (metric.key for metric in stored_metrics()):
        note(f"{figure:<12} reference {_text(before, figure)}, {name} {_text(after, figure)}")
    kept = [row for row in stated.accuracy if row["dataset"] != dataset.name]
    metadata = replace(stated, accuracy=(*kept, after.summary()), onnx_sha256=None, plan=None)
    _rewrite(exported.path, metadata.to_json())
    metadata = replace(metadata, onnx_sha256=file_sha256(exported.path))
    write_text(exported.path.with_suffix(".json"), metadata.to_json(indent=2) + "\n")
    report = exported.report | {"pro_before": before.pro, "pro_after": after.pro}
    return replace(exported, metadata=metadata, report=report)


def _text(result: Evaluation, figure: str) -> str:
    value = result.figures[figure]
    return "-" if value is None else f"{value:.4f}"


def _rewrite(path: Path, text: str) -> None:
    import onnx

    from edgeseg.export.graph import save_graph

    proto = onnx.load(path)
    for item in proto.metadata_props:
        if item.key == KEY:
            item.value = text
    save_graph(proto, path)
