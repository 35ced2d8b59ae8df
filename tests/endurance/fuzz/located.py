"""A model of today that looks for its part: regions, an anchor, planted scores and a history."""

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.modelfile.metadata import Decision, ModelMetadata, ScoreRule, TileLayout
from edgeseg.vision.anchor import Anchor, anchor_pictures
from edgeseg.vision.geometry import Geometry, Roi
from edgeseg.vision.places import Places

if TYPE_CHECKING:
    from edgeseg.model.artefact import Artefact

_CAMERA_HW = (48, 64)
_ANGLES = (-4.0, 0.0, 4.0)
_BOX = Roi(x=20, y=14, w=24, h=16)
_IGNORED = ((2.0, 2.0), (12.0, 2.0), (12.0, 9.5))
_WHEN = "2026-01-02T03:04:05Z"


@cache
def camera_picture() -> NDArray[np.uint8]:
    """What its camera sees."""
    noise = np.random.default_rng(0).integers(0, 255, (*_CAMERA_HW, 3), np.uint8)
    return np.asarray(cv2.GaussianBlur(noise, (5, 5), 2.0), np.uint8)


def geometry() -> Geometry:
    """Everything that a place can be named by."""
    places = Places(
        x=32.0,
        y=22.0,
        degrees=0.5,
        spread_right=1.0,
        spread_down=1.0,
        spread_degrees=1.0,
        farthest=8.0,
        most_turned=6.0,
        count=9,
    )
    anchor = Anchor(
        box=_BOX,
        angles=_ANGLES,
        reach=10.0,
        pictures=anchor_pictures(camera_picture(), _BOX, _ANGLES),
        limit=0.3,
        places=places,
    )
    return Geometry(
        camera_hw=_CAMERA_HW, ignore=(_IGNORED,), locate=f"anchor:{_BOX}", locator=anchor
    )


def located_artefact(kept: "Artefact") -> "Artefact":
    """A fitted model with all of it."""
    from edgeseg.decision.planted_scores import PlantedScores
    from edgeseg.modelfile.history import entry

    planted = PlantedScores(
        scores=np.array([2.5, 7.0], np.float32),
        areas=np.array([0.01, 0.02], np.float32),
        kinds=("scratch", "spot"),
        floors=np.array([1.0, 1.5], np.float32),
    )
    return replace(
        kept,
        config=replace(kept.config, geometry=geometry()),
        planted=planted,
        data=kept.data | {"camera_hw": list(_CAMERA_HW)},
        accuracy=[{"dataset": "part", "auroc_image": 0.97}],
        history=[entry("fit", images=9, source="good", newest=1.7e9)],
    )


def located(told: ModelMetadata) -> ModelMetadata:
    """What a model says of itself with all of it, and decisions since its export."""
    score = told.threshold.score
    decision = Decision(
        when=_WHEN, action="threshold", rule="1 in 100", images=9, before=score, after=score
    )
    return replace(
        told,
        threshold=replace(told.threshold, unsure=score / 2, unsure_rate=0.1, foreign=2 * score),
        geometry=geometry(),
        rule=ScoreRule(top=10, sigma=4.0),
        camera_hw=_CAMERA_HW,
        ignored_here=(_IGNORED,),
        planted_scores=(2.5, 7.0),
        history=(decision,),
    )


def tiled(told: ModelMetadata) -> ModelMetadata:
    """What a model of tiles says of itself."""
    height, width = told.size_hw
    return replace(told, tiles=TileLayout(frame_hw=(2 * height, 2 * width), overlap=8))
