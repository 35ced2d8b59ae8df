"""Embeddings on disk, for as long as a fit needs them twice."""

import hashlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgeseg.vision.part_groups import GreyCopies


class EmbeddingStore:
    """A file of equal-sized embeddings, each identified by the place of its image in the list.

    Calibration looks at every image again. Keeping embeddings in memory would make it grow with
    the number of images, and a second pass through the backbone would double the time. Without a
    path the file is temporary; with one it can be continued after a crash.
    """

    def __init__(self, path: Path | None = None, *, row_shape: tuple[int, ...] = ()) -> None:
        if path is None:
            self._file = tempfile.TemporaryFile(prefix="edgeseg-")  # noqa: SIM115 (see __exit__)
        else:
            path.touch()
            self._file = path.open("r+b")  # closed in __exit__
        self._shape = row_shape
        self._hash = hashlib.sha256()  # of the rows, one after another
        self._rows: dict[int, int] = {}  # place of the image -> row in the file
        self.insides: dict[int, NDArray[np.bool_]] = {}  # cells seen, where not all were
        self.names: dict[int, str] = {}  # place of the image -> where it is, if known
        self.variants: dict[int, int] = {}  # place of the image -> its variant, of several
        self.grey_copies = GreyCopies()  # of these images, and of others of the same pass

    def __enter__(self) -> "EmbeddingStore":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; a temporary one is removed."""
        self._file.close()

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def places(self) -> list[int]:
        """The places of the images, in the order in which they came."""
        return list(self._rows)

    def append(self, row: NDArray[np.float32], place: int) -> None:
        """Write the embedding (k, P), float32, of the image at this place of the list."""
        self._shape = row.shape
        self._file.seek(len(self._rows) * self._row_bytes)
        data = row.tobytes()
        self._file.write(data)
        self._hash.update(data)
        self._rows[place] = len(self._rows)

    def flush(self) -> None:
        """Write everything appended so far to the file."""
        self._file.flush()

    def restore(self, places: Sequence[int]) -> bool:
        """Continue with these rows of the file; False if it is too short."""
        self._rows = {place: row for row, place in enumerate(places)}
        if self._file.seek(0, 2) < len(places) * self._row_bytes:
            return False
        self._file.seek(0)
        self._hash = hashlib.sha256()
        for _ in places:
            self._hash.update(self._file.read(self._row_bytes))
        return True

    @property
    def sha256(self) -> str:
        """The hash of all rows."""
        return self._hash.copy().hexdigest()

    def batches(self, places: Sequence[int], *, size: int) -> Iterator[NDArray[np.float32]]:
        """Read the embeddings of these images back as (N, k, P), at most `size` at a time."""
        for start in range(0, len(places), size):
            some = places[start : start + size]
            rows = np.empty((len(some), *self._shape), np.float32)
            for row, place in zip(rows, some, strict=True):
                self._file.seek(self._rows[place] * self._row_bytes)
                data = self._file.read(self._row_bytes)
                row[...] = np.frombuffer(data, np.float32).reshape(self._shape)
            yield rows

    def map_rows(self) -> NDArray[np.float32]:
        """Memory-map all rows (N, k, P) in the order of `places`."""
        if not self._rows:
            return np.empty((0, *self._shape), np.float32)
        self.flush()
        shape = (len(self._rows), *self._shape)
        return np.memmap(self._file, np.float32, mode="c", shape=shape)

    def variants_at(self, places: Sequence[int]) -> list[int]:
        """Return the variants of these images; nothing where there is one product."""
        return [self.variants[place] for place in places] if self.variants else []

    @property
    def _row_bytes(self) -> int:
        return int(np.prod(self._shape)) * 4
