"""The metadata of an exported model, from its artefact."""

from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeseg.artefact.artefact import Artefact
from edgeseg.contract.metadata import ModelMetadata
from edgeseg.evaluation.threshold import GoodImages
from edgeseg.export.graph import INPUT

_QUANTILES = (0.05, 0.5, 0.9, 0.95, 0.99)


def describe_model(
    artefact: Artefact,
    *,
    artefact_sha256: str,
    precision: str,
    target: str,
    batch: tuple[int, int, int],
    outputs: list[str],
) -> ModelMetadata:
    """All that the runtime needs beside the graph."""
    calibration, config = artefact.calibration, artefact.config
    return ModelMetadata(
        name=str(artefact.data["name"]),
        input={
            "name": INPUT,
            "layout": "NHWC",
            "channels": "RGB",
            "size_hw": list(config.size_hw),
            "batch": list(batch),
        },
        outputs=outputs,
        preprocess={
            "mean": list(artefact.backbone.spec.mean),
            "std": list(artefact.backbone.spec.std),
            "inside_graph": True,
        },
        threshold={
            "score": calibration.score_threshold,
            "pixel": calibration.pixel_threshold,
            "false_alarm_rate": calibration.answered_rate,
            "method": calibration.method,
        },
        good_scores=_score_statistics(calibration.good.scores),
        drift=_drift_baseline(calibration.good),
        grid_hw=list(config.grid_hw),
        k=int(artefact.embedding.shape[1]),
        rank=artefact.factors.rank,
        backbone={
            "name": config.backbone,
            "weights_sha256": artefact.origin.sha256,
            "random_weights": artefact.origin.random,
        },
        artefact_sha256=artefact_sha256,
        precision=precision,
        target=target,
        accuracy=artefact.accuracy,
        versions=_versions(),
        tiles=None
        if config.frame_hw is None
        else {"frame_hw": list(config.frame_hw), "overlap": config.overlap},
    )


def _score_statistics(scores: NDArray[np.float32]) -> dict[str, Any]:
    return {
        "count": int(scores.size),
        "mean": float(scores.mean()),
        "std": float(scores.std()),
        "min": float(scores.min()),
        "max": float(scores.max()),
        "quantiles": {str(q): float(np.quantile(scores, q)) for q in _QUANTILES},
    }


def _drift_baseline(good: GoodImages) -> dict[str, Any]:
    def rounded(values: NDArray[np.float32]) -> list[list[float]]:
        # Four digits keep the file small and are far below what a camera repeats.
        return [[float(f"{value:.4g}") for value in row] for row in values]

    return {
        "d2_mean": rounded(good.d2_mean),
        "d2_std": rounded(good.d2_std),
        "frame_mean": float(good.frame_d2.mean()),
        "frame_std": float(good.frame_d2.std()),
    }


def _versions() -> dict[str, str]:
    found = {}
    for package in ("edgeseg", "torch", "onnx", "onnxruntime"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
