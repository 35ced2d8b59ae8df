"""Which backbones can be measured here: those with weights."""

from edgeseg.base.errors import WeightsError
from edgeseg.model.weights import load_backbone


def available(backbone: str, *, weights: str | None) -> str | None:
    """The hash of a backbone's weights, or None if there are none here."""
    try:
        _, origin = load_backbone(backbone, layers=(1, 2, 3), weights=weights)
    except WeightsError:
        return None
    return origin.sha256


def left_out(backbone: str) -> str:
    """The sentence about a backbone that could not be measured."""
    return (
        f"{backbone} is left out: no weights for it here; put {backbone}.pth into the folder "
        "given with --weights-folder."
    )
