"""Pictures for people: JPEG, no wider than asked for; small ones are made once.

Many look at the same list, and reload it.
"""

import threading
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import UsageError
from edgeseg.teach.folder_list import FileEntry, entry_of
from edgeseg.vision.images import encode_jpeg, read_image

_QUALITY = 88
_WIDEST = 4096  # pixels
_SMALL = 800  # pixels: wider ones are looked at one by one
_ROOM = 16_000_000  # bytes of all that are kept


class ThumbnailCache:
    """The small pictures that were asked for last; may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[tuple[Path, FileEntry, int], bytes] = {}  # the newest stands last
        self._bytes = 0

    def jpeg(self, path: Path, *, width: int) -> bytes:
        """Encode a file as JPEG, no wider than `width`; 0 is its own width."""
        if not 0 < width <= _SMALL or not path.is_file():
            return shrunk_jpeg(read_image(path), width=width)
        key = (path.parent, entry_of(path.name, path.stat()), width)
        with self._lock:
            kept = self._kept.pop(key, None)
            if kept is not None:
                self._kept[key] = kept
                return kept
        made = shrunk_jpeg(read_image(path), width=width)
        with self._lock:
            if key not in self._kept:
                self._kept[key] = made
                self._bytes += len(made)
            while self._bytes > _ROOM and len(self._kept) > 1:
                self._bytes -= len(self._kept.pop(next(iter(self._kept))))
        return made


def shrunk_jpeg(image_hwc: NDArray[np.uint8], *, width: int) -> bytes:
    """Encode an RGB picture as JPEG, no wider than `width`; 0 is its own width."""
    if not 0 <= width <= _WIDEST:
        raise UsageError(f"width={width}: expected 1 to {_WIDEST} pixels, or 0 for its own")
    height, wide = image_hwc.shape[:2]
    if 0 < width < wide:
        size = (width, max(1, round(height * width / wide)))
        image_hwc = np.asarray(cv2.resize(image_hwc, size, interpolation=cv2.INTER_AREA), np.uint8)
    return encode_jpeg(image_hwc, quality=_QUALITY)
