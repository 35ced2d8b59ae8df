"""What every backend returns for one frame."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """One frame's anomaly map, its score and, where the model gives it, the coarse map."""

    map_hw: NDArray[np.float32]  # (H, W): distance at image size, blurred
    score: float
    grid_hw: NDArray[np.float32] | None = None  # (h, w): distance of every grid cell
