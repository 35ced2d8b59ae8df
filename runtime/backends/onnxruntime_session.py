"""Run a graph in ONNX Runtime: on the CPU, through CUDA, or through its TensorRT provider."""

import importlib.util
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import RuntimeFailure
from edgeseg.base.messages import Setting
from edgeseg.modelfile.metadata import KEY
from edgeseg.runtime.backends.base import Outputs, Session
from edgeseg.runtime.backends.model_file import (
    BackendUnavailable,
    file_metadata,
    first_line,
    graph_source,
)
from edgeseg.runtime.backends.session_options import SessionOptions

_PROVIDERS = {
    "cpu": "CPUExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "tensorrt": "TensorrtExecutionProvider",
}
DEVICES = tuple(_PROVIDERS)
_NAMES = {"cpu": "CPU", "cuda": "CUDA", "tensorrt": "TensorRT"}
_ERRORS_ONLY = 3  # its severity scale: 2 would print a warning for every node left to the CPU


def open_onnxruntime(
    model: Path | bytes,
    options: SessionOptions,
    *,
    device: str = "cpu",
    exact: bool = False,
    path: Path | None = None,
) -> Any:
    """Open any graph in ONNX Runtime, on one provider and no other.

    All code that runs a graph opens it here, so that the verified and timed session is the one that
    runs. `exact` is for probes of a graph during its export: see `_exactly`. `path` is the file of
    the bytes.
    """
    path = model if isinstance(model, Path) else path
    name = "the graph" if path is None else str(path)
    runtime, provider = _import_for(device, name), _PROVIDERS[device]
    settings = _settings(runtime, options)
    if exact:
        _exactly(runtime, settings)
    cached = None if options.trust else path  # nobody signs what TensorRT keeps for itself
    chain = [(provider, _provider_options(device, cached))]
    if device != "cpu":
        chain.append((_PROVIDERS["cpu"], {}))  # for the few shape operators no GPU takes
    source = model if isinstance(model, bytes) else str(model)
    try:
        # Its own fallback prints on standard output, where events may go, and tries in vain.
        session = runtime.InferenceSession(source, settings, providers=chain, enable_fallback=0)
    except Exception as error:  # ONNX Runtime's own classes have no common base
        raise BackendUnavailable(
            f"{name}: ONNX Runtime cannot load it on {_NAMES[device]} ({first_line(error)})"
        ) from None
    # ONNX Runtime falls back by itself when a provider's libraries do not load.
    if session.get_providers()[0] != provider:
        raise BackendUnavailable(
            f"{name}: the {_NAMES[device]} provider did not start; are its driver and "
            "libraries installed? ",
            Setting("backend", "cpu"),
            " needs neither",
        )
    return session


def metadata_text(session: Any) -> str | None:
    """Return our metadata inside the graph of an open session; foreign graphs have none."""
    text: str | None = session.get_modelmeta().custom_metadata_map.get(KEY)
    return text


class OrtSession(Session):
    """An exported ONNX file on one execution provider."""

    def __init__(self, model: Path, options: SessionOptions, *, device: str) -> None:
        _import_for(device, str(model))  # a missing library is known before a large file is read
        self.metadata = file_metadata(model, files=options.files)
        source = graph_source(model, self.metadata, options.files)
        self._session = open_onnxruntime(source, options, device=device, path=model)
        self.backend = f"ONNX Runtime {_NAMES[device]}"
        self.spin, self.on_processor = options.spin, device == "cpu"
        if self.on_processor:
            count = options.thread_count
            self.backend += f", {count} thread{'s' if count > 1 else ''}"
        self._input = self.metadata.input.name
        self._outputs = list(self.metadata.outputs)

    def _run(self, frames_nhwc: NDArray[np.uint8]) -> Outputs:
        try:
            values = self._session.run(self._outputs, {self._input: frames_nhwc})
        except Exception as error:
            raise RuntimeFailure(
                f"{self.backend}: inference failed ({first_line(error)})"
            ) from error
        return dict(zip(self._outputs, values, strict=True))


def _import_for(device: str, name: str) -> Any:
    """Import ONNX Runtime, if it is installed and has the provider of a device."""
    if importlib.util.find_spec("onnxruntime") is None:
        raise BackendUnavailable(
            "ONNX Runtime is not installed; `pip install 'edgeseg[cpu]'`, or `edgeseg[gpu]` with "
            "CUDA"
        )
    import onnxruntime

    if _PROVIDERS[device] not in onnxruntime.get_available_providers():
        raise BackendUnavailable(
            f"{name}: this ONNX Runtime has no {_NAMES[device]} provider; install "
            "`edgeseg[gpu]`, or use ",
            Setting("backend", "cpu"),
        )
    return onnxruntime


def _settings(runtime: Any, options: SessionOptions) -> Any:
    settings = runtime.SessionOptions()
    settings.intra_op_num_threads = options.thread_count
    settings.log_severity_level = _ERRORS_ONLY
    settings.add_session_config_entry("session.intra_op.allow_spinning", str(int(options.spin)))
    if options.helper_cores:  # it counts cores from 1
        cores = ";".join(str(core + 1) for core in options.helper_cores)
        settings.add_session_config_entry("session.intra_op_thread_affinities", cores)
    return settings


def _exactly(runtime: Any, settings: Any) -> None:
    """Set a session to run the graph as written: Q/DQ as arithmetic, no kernel that saturates.

    Large frames are calibrated in it, so memory is released at once, and nodes run in the order
    that needs least of it. By default, ONNX Runtime keeps all activations of a calibration to the
    end, 10 GB for a frame of 2160x3840.
    """
    settings.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    settings.enable_cpu_mem_arena = False
    settings.execution_order = runtime.ExecutionOrder.PRIORITY_BASED


def _provider_options(device: str, model: Path | None) -> dict[str, str]:
    if device == "cuda":
        return {"use_tf32": "0"}  # its default rounds an fp32 file to ten bits
    if device == "cpu" or model is None:
        return {}
    # Building takes minutes: keep the engine where the next start finds it.
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "edgeseg" / model.stem
    return {
        "trt_engine_cache_enable": "True",
        "trt_engine_cache_path": str(cache),
        "trt_timing_cache_enable": "True",
    }
