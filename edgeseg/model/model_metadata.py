"""The metadata of an exported model, from its artefact."""

import numpy as np

from edgeseg import __version__
from edgeseg.base.extras import versions
from edgeseg.model.artefact import Artefact
from edgeseg.modelfile.metadata import (
    NUMERICS,
    BackboneFacts,
    DriftBaseline,
    InputFormat,
    ModelMetadata,
    Normalisation,
    ScoreRule,
    TileLayout,
)
from edgeseg.modelfile.precisions import EXACT
from edgeseg.vision.geometry import PLAIN

INPUT = "frames"  # of every graph
_MAKERS = ("torch", "onnx", "onnxruntime")  # packages that made the graph


def describe_model(
    artefact: Artefact,
    *,
    artefact_sha256: str,
    precision: str,
    target: str,
    batch: tuple[int, int, int],
    outputs: list[str],
    calibrated_in: str | None = None,
) -> ModelMetadata:
    """Return the metadata that the runtime needs beside the graph."""
    calibration, config, good = artefact.calibration, artefact.config, artefact.calibration.good
    camera = artefact.data.get("camera_hw")  # absent after a fit on arrays
    return ModelMetadata(
        name=str(artefact.data["name"]),
        input=InputFormat(
            name=INPUT, layout="NHWC", channels="RGB", size_hw=config.size_hw, batch=batch
        ),
        outputs=tuple(outputs),
        preprocess=Normalisation(mean=artefact.spec.mean, std=artefact.spec.std, inside_graph=True),
        threshold=calibration.thresholds,
        good_scores=calibration.statistics,
        drift=DriftBaseline.of(mean_hw=good.d2_mean, std_hw=good.d2_std, frame_d2=good.frame_d2),
        grid_hw=config.grid_hw,
        k=int(artefact.embedding.shape[1]),
        rank=artefact.factors.rank,
        backbone=BackboneFacts(
            name=config.backbone,
            weights_sha256=artefact.origin.sha256,
            random_weights=artefact.origin.random,
            licence=artefact.origin.licence,
        ),
        artefact_sha256=artefact_sha256,
        precision=precision,
        target=target,
        # Measured with the reference, whatever this file computes in.
        accuracy=tuple(row | {NUMERICS: EXACT} for row in artefact.accuracy),
        versions={"edgeseg": __version__} | versions(_MAKERS),
        planted_scores=()
        if artefact.planted is None
        else tuple(np.sort(artefact.planted.scores).tolist()),
        calibrated_in=calibrated_in,
        geometry=None if config.geometry == PLAIN else config.geometry,
        camera_hw=None if camera is None else (int(camera[0]), int(camera[1])),
        variants=config.variants,
        reasons=artefact.reasons,
        kinds=artefact.kinds,
        known=() if artefact.known is None else artefact.known.facts.kinds,
        needs_sidecar=True,
        rule=ScoreRule(top=config.top, sigma=config.sigma),
        tiles=None
        if config.frame_hw is None
        else TileLayout(frame_hw=config.frame_hw, overlap=config.overlap),
    )
