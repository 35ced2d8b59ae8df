"""Good parts with faint stripes, which a fit on good parts misses, or with a dark spot."""

from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from tests.support.small_models import SIZE_HW, frames


def defective(
    kind: str, number: int, *, size_hw: tuple[int, int] = SIZE_HW
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """A good part with faint stripes (grey) or a dark spot (blot), and the mask of it."""
    image = frames(1, first=200 + number, size_hw=size_hw)[0].astype(np.float64)
    rng = np.random.default_rng([number, len(kind)])
    height, width = size_hw
    y, x = rng.integers(height // 4, height * 3 // 4), rng.integers(width // 4, width * 3 // 4)
    mask = np.zeros(image.shape[:2], np.uint8)
    cv2.circle(mask, (int(x), int(y)), 12, 255, -1)
    stripes = 25.0 * np.sign(np.sin(np.arange(width) * np.pi / 2 + 0.1))
    change = stripes[None, :, None] if kind == "grey" else -150.0
    soft = cv2.GaussianBlur(mask, (0, 0), 1.5)[:, :, None] / 255
    return np.clip(image + soft * change, 0, 255).astype(np.uint8), mask


def write_defects(
    folder: Path,
    kind: str,
    numbers: range,
    *,
    masks: bool = True,
    size_hw: tuple[int, int] = SIZE_HW,
) -> Path:
    """Write pictures of a kind, with a mask beside each."""
    (folder / kind).mkdir(parents=True, exist_ok=True)
    for number in numbers:
        image, mask = defective(kind, number, size_hw=size_hw)
        cv2.imwrite(str(folder / kind / f"{number:03}.png"), image[:, :, ::-1])
        if masks:
            cv2.imwrite(str(folder / kind / f"{number:03}_mask.png"), mask)
    return folder
