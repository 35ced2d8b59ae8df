"""Why a place is odd: in which layer most of its distance lies, and what changed in the picture.

    cells of a region --z'F z by layer--> shares of d^2 --Reasons.layer--> texture, pattern or shape
    the picture there --GoodLook.change--> darker, lighter, colour, blurred, finer, missing

Both may be None: then nothing stands out, and that is what is said.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.messages import Message
from edgeseg.base.packed import PackedArray
from edgeseg.vision.good_look import Change, GoodLook

Layer = Literal["texture", "pattern", "shape"]
_LAYERS: dict[Layer, Message] = {
    "texture": Message("why_texture"),
    "pattern": Message("why_pattern"),
    "shape": Message("why_shape"),
}
_CHANGES: dict[Change, Message] = {
    "darker": Message("why_darker"),
    "lighter": Message("why_lighter"),
    "colour": Message("why_colour"),
    "blurred": Message("why_blurred"),
    "finer": Message("why_finer"),
    "missing": Message("why_missing"),
}
_MORE = 0.1  # of d^2: by so much more than on good parts a layer stands out


@dataclass(frozen=True, kw_only=True)
class Why:
    """The reason of a region as values."""

    layer: Layer | None = None  # None: no layer stands out
    share: float | None = None  # of d^2 in that layer
    change: Change | None = None  # None: the picture there looks as it usually does

    @property
    def words(self) -> Message:
        """The reason in words."""
        changed = None if self.change is None else _CHANGES[self.change]
        if self.layer is None or self.share is None:
            return Message("why_nothing") if changed is None else changed
        layer, percent = _LAYERS[self.layer], round(100 * self.share)
        if changed is None:
            return Message("why_layer", layer=layer, n=percent)
        return Message("why_both", layer=layer, change=changed, n=percent)

    def facts(self) -> dict[str, object]:
        """Return plain values, for events and programs."""
        share = None if self.share is None else round(self.share, 3)
        words = str(self.words)
        return {"layer": self.layer, "share": share, "change": self.change, "words": words}


@dataclass(frozen=True, kw_only=True)
class Reasons:
    """What a model keeps to say why."""

    layers: tuple[Layer, ...]  # of the backbone, from fine to coarse
    usual: tuple[float, ...]  # share of each in the d^2 of good parts
    forms: PackedArray  # (layers, k, k): z'F z is a layer's part of z'P z, P of the average place
    look: GoodLook | None = None

    def __post_init__(self) -> None:
        count = len(self.layers)
        if len(self.usual) != count or self.forms.shape[:1] != (count,):
            raise ValueError(f"layers: {count}, expected as many shares and forms")
        if len(self.forms.shape) != 3 or self.forms.shape[1] != self.forms.shape[2]:
            raise ValueError(f"forms: {list(self.forms.shape)}, expected square ones")

    def layer(self, z_ck: NDArray[np.floating]) -> tuple[Layer | None, float | None]:
        """Return the layer that stands out in cells (c, k), and its share of their d^2."""
        z = z_ck.astype(np.float32)
        parts = np.einsum("ck,lkj,cj->l", z, self.forms.values, z, optimize=True)
        total = float(parts.sum())
        if not (np.isfinite(total) and total > 0):
            return None, None
        shares = np.clip(parts / total, 0, 1)
        excess = shares - np.asarray(self.usual, np.float32)
        most = int(excess.argmax())
        if excess[most] < _MORE:
            return None, None
        return self.layers[most], float(shares[most])
