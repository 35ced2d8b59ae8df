"""A model of ours exported in some precisions, and measured as it will be deployed."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgeseg.artefact.artefact import Artefact
from edgeseg.bench.harness.accuracy import Predict, measure_accuracy
from edgeseg.bench.harness.units import FAILED, Result
from edgeseg.bench.latency.runners import OrtRunner, size_on_disk
from edgeseg.contract.images import write_image
from edgeseg.data.datasets import Dataset, Sample, read_sample
from edgeseg.errors import ExportError
from edgeseg.evaluation.panels import contact_sheet, render_panel
from edgeseg.export.onnx_export import export_onnx
from edgeseg.export.options import ExportOptions
from edgeseg.runtime.backends.session_options import SessionOptions

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
    """Accuracy and size of every precision, from the exported file in ONNX Runtime.

    A precision that cannot be exported is a result that says how it failed.
    """
    results: Result = {}
    for precision in precisions:
        path = folder / f"{precision}.onnx"
        options = ExportOptions(
            precision=precision, allow_random_weights=artefact.origin.random, verify=False
        )
        try:
            export_onnx(artefact, path, options=options, good=dataset)
        except ExportError as error:
            results[precision] = {FAILED: str(error)}
            continue
        predict = onnx_predictor(path, threads=threads)
        accuracy = measure_accuracy(predict, dataset, size_hw=artefact.config.size_hw)
        results[precision] = accuracy.to_dict() | {"size_bytes": size_on_disk(path)}
        if not keep:
            path.unlink()
            path.with_suffix(".json").unlink(missing_ok=True)
    return results


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
        frame, mask = read_sample(sample, artefact.config.size_hw)
        maps, _ = predict(frame[None])
        panels.append(
            render_panel(
                frame,
                maps[0],
                mask_hw=mask,
                pixel_threshold=calibration.pixel_threshold,
                value_range=(0.0, 2 * max(calibration.pixel_threshold, 1e-6)),
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
