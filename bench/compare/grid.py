"""What this computer has of backbones, precisions and backends, and a sentence on what it lacks."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from edgeseg.base.errors import EdgesegError, ExportError, UsageError
from edgeseg.base.messages import Setting
from edgeseg.bench.compare.candidates import TuneOptions
from edgeseg.bench.latency.timing import runnable
from edgeseg.export.sessions import check_arithmetic
from edgeseg.model.backbones import BACKBONES, backbone_spec
from edgeseg.model.weights import local_weights
from edgeseg.modelfile.precisions import PRECISIONS, precision_spec
from edgeseg.runtime.backends.choose import BACKENDS

_GPUS = ("cuda", "tensorrt")


@dataclass(frozen=True, kw_only=True)
class Grid:
    """What is tried, and why the rest is not."""

    backbones: tuple[str, ...]
    precisions: tuple[str, ...]
    backends: tuple[str, ...]
    left_out: tuple[str, ...]  # a sentence each


def grid_here(options: TuneOptions) -> Grid:
    """All that was asked for and can be tried; what was not asked for is what is at hand."""
    backends = tuple(runnable(options.backends))
    left_out = [f"backend {name}: {_why_no(name)}." for name in BACKENDS if name not in backends]
    backbones, sentences = _backbones(options)
    left_out += sentences
    precisions, sentences = _precisions(options.precisions, backends)
    left_out += sentences
    if not backbones or not precisions:
        raise EdgesegError(f"nothing to try here: {' '.join(left_out)}")
    return Grid(
        backbones=backbones, precisions=precisions, backends=backends, left_out=tuple(left_out)
    )


def _why_no(backend: str) -> str:
    library = {"openvino": "openvino", "tensorrt": "tensorrt"}.get(backend, "onnxruntime")
    if find_spec(library) is None:
        return "not installed"
    return "not asked for" if backend not in _GPUS else "needs a GPU; not tried"


def _backbones(options: TuneOptions) -> tuple[tuple[str, ...], list[str]]:
    """Those that were named, else those whose weights need no download."""
    for name in options.backbones:
        backbone_spec(name)
    if options.backbones or options.weights is not None:
        return options.backbones or tuple(BACKBONES), []
    here = {name: local_weights(spec) is not None for name, spec in BACKBONES.items()}
    missing = [name for name, found in here.items() if not found]
    sentences = [f"backbones {', '.join(missing)}: no weights here; name one to fetch it."]
    return tuple(name for name, found in here.items() if found), sentences if missing else []


def _precisions(
    wanted: Sequence[str], backends: Sequence[str]
) -> tuple[tuple[str, ...], list[str]]:
    tried, sentences = [], []
    for name in wanted or PRECISIONS:
        spec, asked = precision_spec(name), Setting("precision", name)
        try:
            check_arithmetic(spec)
            if spec.needs_rounding and not set(_GPUS).intersection(backends):
                raise UsageError(asked, ": only GPUs gain by it, and none is tried")
            if spec.arithmetic != "float32" and "openvino" not in backends:
                raise UsageError(asked, ": runs in OpenVINO alone, which is not tried")
            tried.append(name)
        except (ExportError, UsageError) as error:
            words = error.text(lambda setting: f"{setting.name} {setting.value}")
            sentences.append(f"{words}.")
    return tuple(tried), sentences
