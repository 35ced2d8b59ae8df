"""ONNX Runtime: on the CPU, through CUDA, or through its TensorRT provider."""

import importlib.util
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeseg.contract.metadata import KEY
from edgeseg.errors import RuntimeFailure
from edgeseg.runtime.backends.base import Outputs, Session
from edgeseg.runtime.backends.model_file import BackendUnavailable, first_line, onnx_metadata

_PROVIDERS = {
    "cpu": "CPUExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "tensorrt": "TensorrtExecutionProvider",
}
_NAMES = {"cpu": "CPU", "cuda": "CUDA", "tensorrt": "TensorRT"}
_ERRORS_ONLY = 3  # its severity scale: 2 would print a warning for every node left to the CPU


class OrtSession(Session):
    """An ONNX file on one execution provider, and on no other without saying so."""

    def __init__(self, model: Path, *, device: str, threads: int | None = None) -> None:
        runtime = _import()
        provider = _PROVIDERS[device]
        if provider not in runtime.get_available_providers():
            raise BackendUnavailable(
                f"{model}: this ONNX Runtime has no {_NAMES[device]} provider; "
                "install `edgeseg[gpu]`, or use --backend cpu"
            )
        threads = threads or available_cores()
        options = runtime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = _ERRORS_ONLY
        # Idle workers would spin for the next run and take the processor from decoding and from
        # what follows the run: 40 % more processor time per frame, and a longer way to a verdict.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        chain = [(provider, _provider_options(device, model))]
        if device != "cpu":
            chain.append((_PROVIDERS["cpu"], {}))  # for the few shape operators no GPU takes
        try:
            self._session = runtime.InferenceSession(str(model), options, providers=chain)
        except Exception as error:  # ONNX Runtime's own classes have no common base
            raise BackendUnavailable(
                f"{model}: ONNX Runtime cannot load it on {_NAMES[device]} ({first_line(error)})"
            ) from None
        # ONNX Runtime falls back by itself when a provider's libraries do not load.
        if self._session.get_providers()[0] != provider:
            raise BackendUnavailable(
                f"{model}: the {_NAMES[device]} provider did not start; are its driver and "
                "libraries installed? --backend cpu needs neither"
            )
        embedded = self._session.get_modelmeta().custom_metadata_map.get(KEY)
        self.metadata = onnx_metadata(model, embedded)
        self.backend = f"ONNX Runtime {_NAMES[device]}"
        if device == "cpu":
            self.backend += f", {threads} thread{'s' if threads > 1 else ''}"
        self._input = self.metadata.input.name
        self._outputs = ["map", "score"] + ["grid"] * ("grid" in self.metadata.outputs)

    def _run(self, frames_nhwc: NDArray[np.uint8]) -> Outputs:
        try:
            maps, scores, *grids = self._session.run(self._outputs, {self._input: frames_nhwc})
        except Exception as error:
            raise RuntimeFailure(
                f"{self.backend}: inference failed ({first_line(error)})"
            ) from error
        return maps, scores, grids[0] if grids else None


def available_cores() -> int:
    """Cores this process may use: containers and systemd limit them below the machine's count."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _import() -> Any:
    if importlib.util.find_spec("onnxruntime") is None:
        raise BackendUnavailable(
            "ONNX Runtime is not installed; `pip install edgeseg[cpu]`, or `edgeseg[gpu]` with CUDA"
        )
    import onnxruntime

    return onnxruntime


def _provider_options(device: str, model: Path) -> dict[str, str]:
    if device != "tensorrt":
        return {}
    # Building takes minutes: keep the engine where the next start finds it.
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "edgeseg" / model.stem
    return {
        "trt_engine_cache_enable": "True",
        "trt_engine_cache_path": str(cache),
        "trt_timing_cache_enable": "True",
    }
