"""Embeddings on disk, for as long as a fit needs them twice."""

import tempfile
from collections.abc import Iterator, Sequence
from types import TracebackType

import numpy as np
import torch
from torch import Tensor


class EmbeddingSpool:
    """A temporary file of equal-sized embeddings.

    Calibration looks at every image again. Keeping embeddings in memory would make it grow with
    the number of images, and a second pass through the backbone would double the time.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="edgeseg-")  # noqa: SIM115 (closed in __exit__)
        self._shape: tuple[int, ...] = ()
        self._count = 0

    def __enter__(self) -> "EmbeddingSpool":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def __len__(self) -> int:
        return self._count

    def append(self, row: Tensor) -> None:
        """Write one embedding (k, P), float32."""
        self._shape = tuple(row.shape)
        self._file.seek(0, 2)
        self._file.write(row.contiguous().numpy().tobytes())
        self._count += 1

    def batches(self, indices: Sequence[int], *, size: int) -> Iterator[Tensor]:
        """Read these embeddings back as (N, k, P), at most `size` at a time."""
        row_bytes = int(np.prod(self._shape)) * 4
        for start in range(0, len(indices), size):
            rows = []
            for index in indices[start : start + size]:
                self._file.seek(index * row_bytes)
                data = bytearray(self._file.read(row_bytes))
                rows.append(torch.frombuffer(data, dtype=torch.float32).view(self._shape))
            yield torch.stack(rows)
