"""A model of ours exported as `edgeseg export` does, and measured in the session that will run."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgeseg.artefact.artefact import Artefact
from edgeseg.bench.harness.accuracy import Accuracy, Predict, measure_accuracy
from edgeseg.bench.harness.units import FAILED, Result
from edgeseg.bench.latency.runners import OrtRunner, size_on_disk
from edgeseg.contract.appearance import appearance_of
from edgeseg.contract.images import write_image
from edgeseg.contract.judgement import verdict_on
from edgeseg.contract.precisions import precision_spec
from edgeseg.data.datasets import Dataset, Sample, read_sample
from edgeseg.errors import ExportError
from edgeseg.evaluation.panels import contact_sheet, render_panel
from edgeseg.export.exported import Exported
from edgeseg.export.onnx_export import export_onnx
from edgeseg.export.options import ExportOptions
from edgeseg.progress import Note, ignore
from edgeseg.runtime.backends.base import Session
from edgeseg.runtime.backends.choose import open_session
from edgeseg.runtime.backends.session_options import AUTO, SessionOptions

SHIPPED = "verified"  # in a unit's settings: earlier runs measured what no export had checked
_PANELS = 3


def export_and_measure(
    artefact: Artefact,
    dataset: Dataset,
    folder: Path,
    *,
    precisions: tuple[str, ...],
    threads: int,
    keep: bool,
) -> Result:
    """Accuracy and size of every precision, from the file that `edgeseg export` writes.

    A precision that the export refuses is a result that says why.
    """
    results: Result = {}
    for precision in precisions:
        path = folder / f"{precision}.onnx"
        try:
            exported = export_as_shipped(artefact, dataset, path, precision=precision)
        except ExportError as error:
            # Results may be moved, and published.
            results[precision] = {FAILED: str(error).replace(f"{folder}/", "")}
            path.with_name(f"{path.name}.failed").unlink(missing_ok=True)
            continue
        (backend, *_) = backends_of(precision)
        accuracy = measure_file(path, dataset, backend=backend, threads=threads)
        results[precision] = accuracy.to_dict() | facts_of(exported)
        if not keep:
            path.unlink()
            path.with_suffix(".json").unlink(missing_ok=True)
    return results


def export_as_shipped(
    artefact: Artefact,
    good: Dataset,
    path: Path,
    *,
    precision: str,
    backend: str = AUTO,
    note: Note = ignore,
) -> Exported:
    """The product's own export: its calibration images, its refit, its verification."""
    options = ExportOptions(
        precision=precision, backend=backend, allow_random_weights=artefact.origin.random
    )
    return export_onnx(artefact, path, options=options, good=good, note=note)


def facts_of(exported: Exported) -> Result:
    """What a table says of a file beside its accuracy."""
    return {
        "size_bytes": size_on_disk(exported.path),
        "form": exported.report["precision"],
        "refused": exported.report.get("refused", {}),
        "threshold": exported.metadata.threshold.score,
    }


def backends_of(precision: str, backends: Sequence[str] = ("cpu", "openvino")) -> tuple[str, ...]:
    """Those of some backends that compute in what a precision says: only OpenVINO has bfloat16."""
    if precision_spec(precision).arithmetic == Session.arithmetic:
        return tuple(backends)
    return tuple(name for name in backends if name == "openvino")


def measure_file(path: Path, dataset: Dataset, *, backend: str, threads: int) -> Accuracy:
    """An exported file on the test images, in the session a stream opens, at its own threshold."""
    options = SessionOptions(backend=backend, threads=threads, allow_random_weights=True)
    with open_session(path, options) as session:

        def predict(
            frames_nhwc: NDArray[np.uint8],
        ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
            seen = session.infer(frames_nhwc)
            scores = np.array([prediction.score for prediction in seen], np.float32)
            return np.stack([prediction.map_hw for prediction in seen]), scores

        return measure_accuracy(
            predict,
            dataset,
            size_hw=session.metadata.size_hw,
            threshold=session.metadata.threshold.score,
        )


def onnx_predictor(
    path: Path, *, threads: int, map_name: str = "map", score_name: str = "score"
) -> Predict:
    """A graph of ours or someone else's as a predictor, one frame at a time."""
    options = SessionOptions(threads=threads)
    runner = OrtRunner(path, options, device="cpu", size_hw=(256, 256))

    def predict(
        frames_nhwc: NDArray[np.uint8],
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        maps, scores = [], []
        for frame in frames_nhwc:
            outputs = runner.named(runner.prepare(frame))
            maps.append(outputs[map_name].reshape(frame.shape[:2]).astype(np.float32))
            scores.append(float(outputs[score_name].reshape(-1)[0]))
        return np.stack(maps), np.array(scores, np.float32)

    return predict


def draw_decisions(artefact: Artefact, path: Path, dataset: Dataset, target: Path) -> None:
    """Some defective images with the map and the decision of an exported model."""
    predict = onnx_predictor(path, threads=1)
    calibration = artefact.calibration
    panels = []
    for sample in _one_of_each_kind(dataset.test)[:_PANELS]:
        frame, mask = read_sample(sample, artefact.config.size_hw, artefact.config.geometry)
        maps, scores = predict(frame[None])
        panels.append(
            render_panel(
                frame,
                maps[0],
                mask_hw=mask,
                pixel_threshold=calibration.pixel_threshold,
                value_range=(0.0, 2 * max(calibration.pixel_threshold, 1e-6)),
                verdict=verdict_on(
                    float(scores[0]),
                    calibration.thresholds,
                    map_hw=maps[0],
                    appearance=appearance_of(frame),
                ),
                caption=f"{dataset.name}: {sample.kind}",
            )
        )
    if panels:
        write_image(target, contact_sheet(panels, title=f"{dataset.name}, {path.stem}"))


def _one_of_each_kind(samples: tuple[Sample, ...]) -> list[Sample]:
    kinds: dict[str, Sample] = {}
    for sample in samples:
        if sample.label:
            kinds.setdefault(sample.kind, sample)
    return list(kinds.values())
