"""The session of a loaded model: batches of frames in, predictions out."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import UsageError
from edgeseg.decision.prediction import Prediction
from edgeseg.modelfile.metadata import ModelMetadata
from edgeseg.modelfile.precisions import runs_on
from edgeseg.modelfile.signature import Statement

_UINT8 = np.dtype(np.uint8)
# What a graph returns, by name: map (N, H, W), score (N,) and, where the model has them, grid and
# map_grid (N, h, w), variant (N,), which is a whole number, and apart (N, P, k).
Outputs = Mapping[str, NDArray[Any]]


class Session(ABC):
    """A loaded model; use it as a context manager, or close it. One thread at a time."""

    metadata: ModelMetadata
    backend: str  # for people: "ONNX Runtime CPU, 2 threads"
    entry: str = ""  # of BACKENDS; `open_session` fills it
    model_sha256: str | None = None  # of the file that runs; `open_session` fills it
    statement: Statement | None = None  # what was signed of it, where keys are trusted; the same
    # What is computed where the file itself does not round: float32, or what the device has.
    arithmetic: str = "float32"
    spin: bool | None = None  # of idle threads; None: the library has no such option
    on_processor: bool = False  # which does not round as some precisions say

    @property
    def runs_on(self) -> str:
        """The backend and all settings that times depend on, for people."""
        return runs_on(self.backend, arithmetic=self.arithmetic, spin=self.spin)

    @abstractmethod
    def _run(self, frames_nhwc: NDArray[np.uint8]) -> Outputs:
        """Run one batch that the graph takes; the arrays may be overwritten by the next run."""

    def close(self) -> None:  # noqa: B027  # most backends release when collected
        """Release the device."""

    @cached_property
    def max_batch(self) -> int:
        """The number of frames that the graph takes at once."""
        return self.metadata.input.batch[2]

    @cached_property
    def _min_batch(self) -> int:
        return self.metadata.input.batch[0]

    @cached_property
    def _frame_shape(self) -> tuple[int, int, int]:
        return (*self.metadata.size_hw, 3)

    def infer(self, frames_nhwc: NDArray[np.uint8]) -> list[Prediction]:
        """Score any number of frames that have the model's size and channel order."""
        if frames_nhwc.dtype != _UINT8 or frames_nhwc.shape[1:] != self._frame_shape:
            raise UsageError(
                f"frames of {frames_nhwc.dtype} {frames_nhwc.shape}, expected uint8 "
                f"(N, {', '.join(map(str, self._frame_shape))})"
            )
        smallest, largest = self._min_batch, self.max_batch
        predictions: list[Prediction] = []
        for start in range(0, len(frames_nhwc), largest):
            part = frames_nhwc[start : start + largest]
            outputs = self._run(_fill_batch(part, smallest))
            names = self.metadata.variants
            predictions += [_prediction(outputs, index, names) for index in range(len(part))]
        return predictions

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _prediction(outputs: Outputs, index: int, variants: Sequence[str]) -> Prediction:
    """Copy what belongs to one frame: a view would keep, or share, the whole batch."""
    grid, shown, apart = (outputs.get(name) for name in ("grid", "map_grid", "apart"))
    return Prediction(
        map_hw=outputs["map"][index].copy(),
        score=float(outputs["score"][index]),
        grid_hw=None if grid is None else grid[index].copy(),
        map_grid_hw=None if shown is None else shown[index].copy(),
        variant=variants[int(outputs["variant"][index])] if variants else None,
        apart_pk=None if apart is None else apart[index].astype(np.float32),
    )


def _fill_batch(frames_nhwc: NDArray[np.uint8], smallest: int) -> NDArray[np.uint8]:
    """Add black frames up to the graph's smallest batch; their results are thrown away."""
    missing = smallest - len(frames_nhwc)
    if missing <= 0:
        return frames_nhwc
    filler = np.zeros((missing, *frames_nhwc.shape[1:]), np.uint8)
    return np.concatenate([frames_nhwc, filler])


def warm_up(session: Session, *, batch: int = 1, rounds: int = 3) -> None:
    """Run on grey frames: first runs allocate, choose kernels and fill caches."""
    frames_nhwc = np.full((batch, *session.metadata.size_hw, 3), 128, np.uint8)
    for _ in range(rounds):
        session.infer(frames_nhwc)
