"""Backbones that can be measured here: those with weights."""

from edgeseg.base.errors import WeightsError
from edgeseg.model.weights import load_backbone


def available(backbone: str, *, weights: str | None) -> str | None:
    """Hash of a backbone's weights; None if there are none here."""
    try:
        _, origin = load_backbone(backbone, layers=(1, 2, 3), weights=weights)
    except WeightsError:
        return None
    return origin.sha256


def missing_weights_sentence(backbone: str) -> str:
    """Say that a backbone is left out for lack of weights."""
    return (
        f"{backbone} is left out: no weights for it here; put {backbone}.pth into the folder "
        "given with --weights-folder."
    )
