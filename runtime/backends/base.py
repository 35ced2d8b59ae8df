"""Models behind one protocol, and the choice of the backend that runs them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from pathlib import Path
from types import TracebackType
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from edgeseg.contract.metadata import PLAN_SUFFIXES, ModelMetadata
from edgeseg.contract.prediction import Prediction
from edgeseg.errors import RuntimeFailure, UsageError
from edgeseg.runtime.backends.model_file import (
    BackendUnavailable,
    check_usable,
    onnx_beside,
)

Backend = Literal["auto", "tensorrt", "cuda", "cpu", "openvino"]
BACKENDS: tuple[Backend, ...] = get_args(Backend)
Say = Callable[[str], None]
_UINT8 = np.dtype(np.uint8)
# What a graph returns: map (N, H, W), score (N,) and, where the model has one, grid (N, h, w).
Outputs = tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32] | None]


class Session(ABC):
    """A loaded model; use it as a context manager, or close it. One thread at a time."""

    metadata: ModelMetadata
    backend: str  # for people: "ONNX Runtime CPU, 2 threads"

    @abstractmethod
    def _run(self, frames_nhwc: NDArray[np.uint8]) -> Outputs:
        """Run one batch that the graph takes; the arrays may be overwritten by the next run."""

    def close(self) -> None:  # noqa: B027  # most backends release when collected
        """Release the device."""

    @cached_property
    def max_batch(self) -> int:
        """How many frames the graph takes at once."""
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
            maps, scores, grids = self._run(_filled(part, smallest))
            predictions += [
                Prediction(
                    map_hw=maps[index].copy(),  # a view would keep, or share, the whole batch
                    score=float(scores[index]),
                    grid_hw=None if grids is None else grids[index].copy(),
                )
                for index in range(len(part))
            ]
        return predictions

    def __enter__(self) -> "Session":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


Opener = Callable[[Path, int | None], Session]  # model, threads


def _filled(frames_nhwc: NDArray[np.uint8], smallest: int) -> NDArray[np.uint8]:
    """Black frames up to the graph's smallest batch; their answers are thrown away."""
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


def open_session(
    model: Path,
    *,
    backend: Backend = "auto",
    threads: int | None = None,
    allow_random_weights: bool = False,
    say: Say = lambda message: None,
) -> Session:
    """Load a .onnx or .plan file; `auto` says which backend it takes and why not a faster one."""
    model = Path(model)
    if not model.is_file():
        raise UsageError(f"{model}: no such model; `edgeseg export` writes .onnx and .plan files")
    attempts = _attempts(model, backend, threads)
    for number, attempt in enumerate(attempts):
        try:
            session = attempt()
        except BackendUnavailable as error:
            if number == len(attempts) - 1:
                raise
            say(str(error))
            continue
        try:
            check_usable(session.metadata, model, allow_random_weights=allow_random_weights)
        except RuntimeFailure:
            session.close()
            raise
        say(f"{model.name} runs on {session.backend}")
        return session
    raise AssertionError("unreachable: the last attempt returns or raises")


def _ort(device: str) -> Opener:
    def opener(model: Path, threads: int | None) -> Session:
        from edgeseg.runtime.backends.onnxruntime_session import OrtSession

        return OrtSession(model, device=device, threads=threads)

    return opener


def _openvino(model: Path, threads: int | None) -> Session:
    from edgeseg.runtime.backends.openvino_session import OpenVinoSession

    return OpenVinoSession(model, threads=threads)


# What runs an .onnx file, by the name of the backend.
ONNX_BACKENDS: dict[str, Opener] = {
    "tensorrt": _ort("tensorrt"),
    "cuda": _ort("cuda"),
    "cpu": _ort("cpu"),
    "openvino": _openvino,
}


def _attempts(
    model: Path, backend: Backend, threads: int | None
) -> Sequence[Callable[[], Session]]:
    if model.suffix in PLAN_SUFFIXES:
        return _plan_attempts(model, backend, threads)
    if model.suffix != ".onnx":
        raise UsageError(f"{model}: expected a .onnx or .plan file, as `edgeseg export` writes")
    if backend == "auto":
        return _onnx_attempts(model, ("tensorrt", "cuda", "cpu"), threads)
    if backend not in ONNX_BACKENDS:
        known = ", ".join(("auto", *ONNX_BACKENDS))
        raise UsageError(f"backend {backend!r}: expected one of {known}")
    return _onnx_attempts(model, (backend,), threads)


def _onnx_attempts(
    model: Path, backends: Sequence[str], threads: int | None
) -> list[Callable[[], Session]]:
    return [partial(ONNX_BACKENDS[name], model, threads) for name in backends]


def _plan_attempts(
    model: Path, backend: Backend, threads: int | None
) -> list[Callable[[], Session]]:
    from edgeseg.runtime.backends.tensorrt_session import TensorRtSession

    if backend not in ("auto", "tensorrt"):
        raise UsageError(
            f"{model}: --backend {backend} cannot run a plan, only `tensorrt` can; "
            f"give the {model.stem}.onnx it was built from"
        )
    attempts: list[Callable[[], Session]] = [lambda: TensorRtSession(model)]
    graph = onnx_beside(model)
    if backend == "auto" and graph is not None:
        attempts += _onnx_attempts(graph, ("cuda", "cpu"), threads)
    return attempts
