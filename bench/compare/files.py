"""A model of ours exported as `edgeseg export` does, and judged in the session that will run it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import DatasetError, ExportError
from edgeseg.bench.harness.accuracy import Accuracy, Predict, measure_accuracy
from edgeseg.bench.harness.units import Result
from edgeseg.bench.latency.runners import OrtRunner, size_on_disk
from edgeseg.data.datasets import Dataset, Sample, read_sample
from edgeseg.decision.judgement import verdict_on
from edgeseg.decision.metrics import auroc
from edgeseg.decision.operating_point import operating_point
from edgeseg.evaluation.panels import contact_sheet, render_panel
from edgeseg.export.onnx_export import export_onnx
from edgeseg.export.options import SESSIONS, ExportOptions
from edgeseg.model.artefact import Artefact
from edgeseg.modelfile.metadata import ModelMetadata
from edgeseg.modelfile.precisions import EXACT, precision_spec
from edgeseg.runtime.backends.base import Session
from edgeseg.runtime.backends.choose import open_session
from edgeseg.runtime.backends.session_options import AUTO, SessionOptions
from edgeseg.vision.appearance import appearance_of
from edgeseg.vision.images import write_image

REFUSED = "why"  # the key under which a result says why the export refused the file
_PANELS = 3


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """How much a file finds, by models fitted without the images that judge it."""

    recall: float  # of planted defects, at the threshold of the file
    auroc: float  # of planted defects against good images
    planted: int
    good: int

    @classmethod
    def of(cls, metadata: ModelMetadata) -> "Judgement":
        """Judge a file by the scores that it carries, computed in its own precision."""
        good, planted = metadata.good_scores, metadata.planted_scores
        if not good.scores or not planted:
            raise DatasetError(
                f"{metadata.name}: {len(good.scores)} held-out good images and {len(planted)} "
                "planted defects to judge by, expected some of both; give more good images"
            )
        wish = metadata.threshold.requested_rate
        promise = metadata.threshold.promise
        point = operating_point(
            good.scores, good.peaks, rate=wish, promise=promise, planted=planted
        )
        labels = np.repeat([0, 1], [len(good.scores), len(planted)])
        separation = auroc(np.concatenate([good.scores, planted]), labels)
        return cls(
            recall=point.recall or 0.0,
            auroc=separation or 0.0,
            planted=len(planted),
            good=len(good.scores),
        )


def backends_of(precision: str, backends: Sequence[str] = ("cpu", "openvino")) -> tuple[str, ...]:
    """List the backends that compute in a precision: only OpenVINO has bfloat16."""
    if precision_spec(precision).arithmetic == Session.arithmetic:
        return tuple(backends)
    return tuple(name for name in backends if name == "openvino")


def calibrating_session(precision: str, backend: str) -> str:
    """Session that calibrates the file of a backend, where each backend has its own file.

    fp32 is the same in all, and an export has no session of a GPU: those get what is shipped.
    """
    return backend if precision != EXACT and backend in SESSIONS else AUTO


def export_and_judge(
    artefact: Artefact,
    dataset: Dataset,
    path: Path,
    *,
    precision: str,
    session: str,
    judging_backend: str | None,
    options: SessionOptions,
) -> Result:
    """Export a model; return accuracy, size and form of the file, or why the export refuses.

    The file is judged on the test images in a backend, or without one by the scores that
    it carries of planted defects.
    """
    settings = ExportOptions(
        precision=precision, backend=session, allow_random_weights=artefact.origin.random
    )
    try:
        exported = export_onnx(artefact, path, options=settings, good=dataset)
    except ExportError as error:
        path.with_name(f"{path.name}.failed").unlink(missing_ok=True)
        # Results may be moved, and published.
        return {REFUSED: str(error).replace(f"{path.parent}/", "")}
    if judging_backend is None:
        judged = {"judged": asdict(Judgement.of(exported.metadata))}
    else:
        accuracy = measure_file(path, dataset, backend=judging_backend, options=options)
        judged = accuracy.to_dict()
    return judged | {
        "size_bytes": size_on_disk(path),
        "form": exported.report["precision"],
        "refused": exported.report.get("refused", {}),
        "threshold": exported.metadata.threshold.score,
    }


def measure_file(
    path: Path, dataset: Dataset, *, backend: str, options: SessionOptions
) -> Accuracy:
    """Measure a file on the test images, in a stream's session and at its own threshold."""
    own = replace(options, backend=backend, allow_random_weights=True)
    with open_session(path, own) as session:
        return measure_accuracy(
            session_predictor(session),
            dataset,
            size_hw=session.metadata.size_hw,
            threshold=session.metadata.threshold.score,
        )


def session_predictor(session: Session) -> Predict:
    """Make a predictor of the session that a stream opens."""

    def predict(
        frames_nhwc: NDArray[np.uint8],
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        seen = session.infer(frames_nhwc)
        scores = np.array([prediction.score for prediction in seen], np.float32)
        return np.stack([prediction.map_hw for prediction in seen]), scores

    return predict


def peer_predictor(path: Path, *, threads: int) -> Predict:
    """Make a predictor of a graph that anomalib exported, one frame at a time."""
    options = SessionOptions(threads=threads)
    runner = OrtRunner(path, options, device="cpu", size_hw=(256, 256))

    def predict(
        frames_nhwc: NDArray[np.uint8],
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        maps, scores = [], []
        for frame in frames_nhwc:
            outputs = runner.outputs_by_name(runner.prepare(frame))
            maps.append(outputs["anomaly_map"].reshape(frame.shape[:2]).astype(np.float32))
            scores.append(float(outputs["pred_score"].reshape(-1)[0]))
        return np.stack(maps), np.array(scores, np.float32)

    return predict


def draw_decisions(
    artefact: Artefact, path: Path, dataset: Dataset, target: Path, *, backend: str
) -> None:
    """Draw some defective images with the map and the decision of an exported model."""
    kinds: dict[str, Sample] = {}
    for sample in dataset.test:
        if sample.label:
            kinds.setdefault(sample.kind, sample)
    options = SessionOptions(backend=backend, allow_random_weights=True)
    with open_session(path, options) as session:
        predict = session_predictor(session)
        panels = [
            _panel(artefact, sample, predict, name=dataset.name)
            for sample in list(kinds.values())[:_PANELS]
        ]
    if panels:
        write_image(target, contact_sheet(panels, title=f"{dataset.name}, {path.stem}"))


def _panel(artefact: Artefact, sample: Sample, predict: Predict, *, name: str) -> NDArray[np.uint8]:
    calibration, config = artefact.calibration, artefact.config
    frame, mask = read_sample(sample, config.size_hw, config.geometry)
    maps, scores = predict(frame[None])
    return render_panel(
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
        caption=f"{name}: {sample.kind}",
    )
