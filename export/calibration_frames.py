"""Which good images a graph is quantised with and verified on."""

import numpy as np
from numpy.typing import NDArray

from edgeseg.config import FitConfig
from edgeseg.data.datasets import Dataset
from edgeseg.data.samples import frames_at_once, load_batches

# Enough to cover the range of activations; the quantiser looks at each of them once.
CALIBRATION_IMAGES = 64
# Fewer of larger frames: each of them covers the range many times.
CALIBRATION_PIXELS = CALIBRATION_IMAGES * 512 * 512
LEAST_IMAGES = 8


def calibration_frames(dataset: Dataset, config: FitConfig) -> NDArray[np.uint8]:
    """Good inputs of a model (N, H, W, 3) to quantise with and to verify on.

    From all over the dataset; where a model was fitted on tiles, of all their places in turn.
    """
    most = frames_at_once(
        config.size_hw, most=CALIBRATION_IMAGES, least=LEAST_IMAGES, pixels=CALIBRATION_PIXELS
    )
    samples = dataset.train
    chosen = samples[:: max(1, len(samples) // most)][:most]
    batches = load_batches(chosen, size_hw=config.image_hw, batch_size=1)
    frames = (batch.frames[0] for batch in batches)
    tiling = config.tiling
    if tiling is None:
        return np.stack(list(frames))
    places = len(tiling.corners_yx())
    each = min(places, -(-most // len(chosen)))
    # Frames are let go one by one: tiles are copied out of them.
    return np.stack(
        [
            tiling.cut(frame)[(number * each + offset) % places].copy()
            for number, frame in enumerate(frames)
            for offset in range(each)
        ]
    )
