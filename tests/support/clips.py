"""Small videos."""

from pathlib import Path

import cv2
import numpy as np


def write_clip(path: Path, *, size_hw: tuple[int, int], frames: int, codec: str = "MJPG") -> None:
    """So many grey frames, each a little brighter; Motion JPEG, if no other codec is named."""
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*codec), 10.0, size_hw[::-1])
    for number in range(frames):
        writer.write(np.full((*size_hw, 3), 100 + number, np.uint8))
    writer.release()
