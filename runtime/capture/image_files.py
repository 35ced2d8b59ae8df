"""Read image files as a source: a folder, a pattern or a single file, each file once."""

import glob
import time
from collections.abc import Iterable
from pathlib import Path

from edgeseg.base.errors import DatasetError, UsageError
from edgeseg.base.files import home_path, is_there
from edgeseg.base.messages import Setting
from edgeseg.runtime.capture.captures import Grab
from edgeseg.runtime.capture.redact import redact_url
from edgeseg.vision.images import IMAGE_SUFFIXES, has_image_suffix, images_in, read_image
from edgeseg.vision.picture_size import MAX_PIXELS


class ImageFiles:
    """Image files, decoded as for a fit; a file that a fit refuses is an unreadable frame."""

    fps = 0.0

    def __init__(self, paths: Iterable[Path], *, max_pixels: int = MAX_PIXELS) -> None:
        self._paths, self._max_pixels = iter(paths), max_pixels

    def read(self) -> Grab | None:
        """Return the next file."""
        path = next(self._paths, None)
        if path is None:
            return None
        grabbed_ns, wall_s = time.monotonic_ns(), time.time()
        try:
            image_hwc = read_image(path, max_pixels=self._max_pixels)
        except DatasetError as error:
            return Grab(None, "rgb", grabbed_ns, wall_s, path.name, fault=str(error))
        return Grab(image_hwc, "rgb", grabbed_ns, wall_s, path.name)

    def close(self) -> None:
        """Do nothing: no file stays open."""


def image_paths(text: str) -> list[Path]:
    """List the images of a folder, of a pattern or of one name, in order; at least one.

    A file that is named itself may be hidden.
    """
    path = home_path(text)
    paths = _matching(path)
    paths = [path for path in paths if has_image_suffix(path) and path.is_file()]
    if not paths:
        raise UsageError(
            Setting("source", repr(redact_url(text))),
            f": no images there; expected files ending in {', '.join(sorted(IMAGE_SUFFIXES))}",
        )
    return paths


def _matching(pattern: Path) -> list[Path]:
    if is_there(pattern):
        return images_in(pattern) if pattern.is_dir() else [pattern]
    try:
        return sorted(Path(name) for name in glob.glob(str(pattern), recursive=True))  # noqa: PTH207
    except ValueError:  # a zero within
        return []
