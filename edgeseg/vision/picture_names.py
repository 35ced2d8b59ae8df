"""Names of pictures in a folder: images of the same name get a picture each."""

from itertools import chain, count
from pathlib import Path


class PictureNames:
    """Names that are given once each."""

    def __init__(self) -> None:
        self._taken: set[Path] = set()

    def free(self, folder: Path, image: Path, index: int | None = None) -> Path:
        """Return a free path for an image's picture (kos01/Part0, kos02/Part0; video frames)."""
        stem = image.stem if index is None else f"{image.stem}-{index:05}"
        names = chain((stem, f"{image.parent.name}-{stem}"), (f"{stem}-{n}" for n in count(2)))
        target = next(path for name in names if (path := folder / f"{name}.png") not in self._taken)
        self._taken.add(target)
        return target
