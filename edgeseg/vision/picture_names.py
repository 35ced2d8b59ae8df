"""Names of pictures in a folder: images of one name keep a picture each."""

from itertools import chain, count
from pathlib import Path


class PictureNames:
    """Gives every name once."""

    def __init__(self) -> None:
        self._taken: set[Path] = set()

    def free(self, folder: Path, image: Path, index: int | None = None) -> Path:
        """Where the picture of an image goes (kos01/Part0, kos02/Part0; frames of a video)."""
        stem = image.stem if index is None else f"{image.stem}-{index:05}"
        names = chain((stem, f"{image.parent.name}-{stem}"), (f"{stem}-{n}" for n in count(2)))
        target = next(path for name in names if (path := folder / f"{name}.png") not in self._taken)
        self._taken.add(target)
        return target
