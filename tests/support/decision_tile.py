"""The last tile of a panel, where the decision is outlined."""

import numpy as np
from numpy.typing import NDArray

from edgeseg.evaluation.panels import _BAR, _GAP, _LINE, DECISION


def outlined(panel: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Where the tile of a panel without a caption has the colour of a decision."""
    width = (panel.shape[1] - _BAR - 3 * _GAP) // 3  # two other tiles, and the bar between them
    pixels: NDArray[np.bool_] = (panel[_LINE:, -width:] == np.array(DECISION)).all(axis=2)
    return pixels
