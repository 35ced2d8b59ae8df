"""What a fit keeps to say why a place is odd: forms of the layers, and the look of good parts.

P, the mean of L L' over all places, measures cells apart from where they lie. W is semi-orthogonal,
so z'P z = (W z)'(W P z): a sum over features, and therefore over the layers that they come from.
"""

from collections.abc import Sequence
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import DatasetError
from edgeseg.base.packed import PackedArray
from edgeseg.config import FitConfig
from edgeseg.data.samples import Sample, load_batches
from edgeseg.decision.why import Layer, Reasons
from edgeseg.model.backbones import backbone_spec, features_of
from edgeseg.model.factors import Factors
from edgeseg.model.moments import Floats, Moments
from edgeseg.vision.good_look import GoodLook, LookSums

LOOKED_AT = 48  # good images that tell the look of a part
_AT_ONCE = 64  # factors


def reasons_of(
    config: FitConfig,
    *,
    embedding: NDArray[np.float32],
    factors: Factors,
    pooled: Moments,
    look: GoodLook | None,
) -> Reasons:
    """Return what tells the layers of a fit apart."""
    precision, weight = mean_precision(factors), np.asarray(embedding, np.float64)
    covariance = (pooled.scatter / np.maximum(pooled.count, 1)[:, None, None]).mean(axis=0)
    forms = []
    for rows in _rows_of_layers(config):
        form = weight[rows].T @ weight[rows] @ precision
        forms.append((form + form.T) / 2)
    usual = np.array([float((form * covariance).sum()) for form in forms])
    packed = np.stack(forms) / max(float(np.abs(forms).max()), 1e-12)
    return Reasons(
        layers=layer_names(len(forms)),
        usual=tuple(round(float(share), 4) for share in usual / max(float(usual.sum()), 1e-12)),
        forms=PackedArray.of(packed),
        look=look,
    )


def layer_names(count: int) -> tuple[Layer, ...]:
    """Return names of so many layers: the finest shows texture, the coarsest shape."""
    fine, middle, coarse = get_args(Layer)
    return (fine, *(middle,) * (count - 2), coarse) if count > 1 else (middle,)


def mean_precision(factors: Factors) -> Floats:
    """Return the mean of L L' over all Gaussians (k, k)."""
    factor = factors.factor
    total = np.zeros((factor.shape[1], factor.shape[1]))
    for start in range(0, len(factor), _AT_ONCE):
        part = factor[start : start + _AT_ONCE].astype(np.float64)
        total += np.tensordot(part, part, axes=([0, 2], [0, 2]))
    return total / len(factor)


def look_of_good(
    samples: Sequence[Sample], config: FitConfig, *, max_pixels: int
) -> GoodLook | None:
    """Return the look of good images; None where a place of the input has no look of its own.

    So it is of tiles, of variants, and of several parts in a picture.
    """
    if config.tiling is not None or config.variants or config.geometry.several is not None:
        return None
    step = max(1, len(samples) // LOOKED_AT)
    sums = LookSums()
    batches = load_batches(
        samples[::step][:LOOKED_AT],
        size_hw=config.image_hw,
        geometry=config.geometry,
        batch_size=1,
        max_bad=len(samples),
        max_pixels=max_pixels,
    )
    try:
        for batch in batches:
            sums.add(batch.frames[0])
    except DatasetError:  # not one of them can be read, which the pass says
        return None
    return sums.look()


def _rows_of_layers(config: FitConfig) -> list[slice]:
    first, rows = 0, []
    for tap in backbone_spec(config.backbone).chosen_taps(config.layers):
        last = first + features_of(tap.channels, context=config.context)
        rows.append(slice(first, last))
        first = last
    return rows
