"""Find what a builder needs before it starts, and keep what it says when it fails."""

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgeseg.base.errors import ExportError
from edgeseg.base.messages import Setting
from edgeseg.export.engine.options import Builder

OLDEST = {"tensorrt": 10, "tensorrt_rtx": 1}  # TensorRT 8 has no strongly typed networks
_LONGEST = 400  # characters of a foreign message that are worth a user's time


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """The GPU that TensorRT builds for."""

    name: str
    capability: str  # sm86


def import_package(builder: Builder) -> Any:
    """Import the builder's Python package, only when it is needed."""
    try:
        package = importlib.import_module(builder.module)
    except (ImportError, OSError) as error:
        # The package without its shared libraries is as good as missing, but for another reason.
        reason = "" if isinstance(error, ModuleNotFoundError) else f" ({brief(str(error))})"
        other = ("; ", Setting("builder", "rtx"), " builds plans without a GPU")
        raise ExportError(
            f"{builder.name} cannot be imported{reason}; "
            f"install it with `pip install 'edgeseg[{builder.extra}]'`",
            *(other if builder.extra == "trt" else ()),
        ) from None
    oldest = OLDEST[builder.module]
    if int(str(package.__version__).split(".")[0]) < oldest:
        raise ExportError(
            f"{builder.name} {package.__version__} is installed, expected {oldest} or newer: older "
            "ones cannot take precision from the graph; "
            f"`pip install --upgrade 'edgeseg[{builder.extra}]'`"
        )
    return package


def find_gpu() -> Gpu:
    """Return the GPU that CUDA uses on this computer."""
    for name in ("cuda.bindings.runtime", "cuda.cudart"):  # cuda-python 12.6 renamed it
        try:
            cuda = importlib.import_module(name)
            break
        except ImportError:
            continue
    else:
        raise ExportError("cuda-python is not installed; `pip install 'edgeseg[trt]'`")
    status, device = cuda.cudaGetDevice()
    if int(status) == 0:
        status, properties = cuda.cudaGetDeviceProperties(device)
    if int(status) != 0:
        raise no_gpu(cuda.cudaGetErrorString(status)[1].decode())
    label = properties.name.decode() if isinstance(properties.name, bytes) else str(properties.name)
    return Gpu(name=label.rstrip("\0"), capability=f"sm{properties.major}{properties.minor}")


def no_gpu(reason: str) -> ExportError:
    """Make the error for a computer without a GPU: TensorRT builds on the GPU it builds for."""
    return ExportError(
        f"TensorRT builds on a GPU, and CUDA finds none here ({reason}); run this on the "
        "device, or build here with ",
        Setting("builder", "rtx"),
        " ",
        Setting("targets", "sm86"),
    )


def targets_of(package: Any) -> dict[str, Any]:
    """Return the compute capabilities that this TensorRT-RTX builds for, by name."""
    members = package.ComputeCapability.__members__
    numbered = sorted((int(name[2:]), name) for name in members if name.startswith("SM"))
    return {name.lower(): members[name] for _, name in numbered}


def make_log(package: Any) -> Any:
    """Make a logger that keeps warnings and errors for our own messages, and prints nothing."""
    severity = package.ILogger
    kept = {severity.INTERNAL_ERROR: True, severity.ERROR: True, severity.WARNING: False}

    class BuilderLog(package.ILogger):  # type: ignore[misc]  # its base is known only now
        def __init__(self) -> None:
            package.ILogger.__init__(self)
            self.messages: list[tuple[bool, str]] = []  # is an error, text

        def log(self, level: Any, text: str) -> None:
            if level in kept:
                self.messages.append((kept[level], text))

        def errors(self) -> str:
            errors = [brief(text) for is_error, text in self.messages if is_error]
            return " | ".join(errors) or "it gave no reason"

    return BuilderLog()


def parser_failure(
    onnx_path: Path, builder: Builder, parser: Any, log: Any, *, made_for: str
) -> ExportError:
    """Make an error that lists every refused node with its name, operator and reason."""
    errors = [_describe(parser.get_error(index)) for index in range(parser.num_errors)]
    count = f"{len(errors)} node{'s' * (len(errors) != 1)}" if errors else "the file"
    advice = (
        "This graph was made for TensorRT: report it with the output of `edgeseg doctor`"
        if made_for == "trt"
        else "A graph that it takes is made by `edgeseg export --for trt`"
    )
    return ExportError(
        f"{onnx_path}: {builder.name} refuses {count}: {'; '.join(errors) or log.errors()}. "
        f"{advice}"
    )


def _describe(error: Any) -> str:
    where = error.node_name() or (f"node {error.node()}" if error.node() >= 0 else "the graph")
    operator = f" ({error.node_operator()})" if error.node_operator() else ""
    kind = str(error.code()).rpartition(".")[2].lower().replace("_", " ")
    # The description alone can be as little as `false`: the name of the check explains it.
    return f"{where}{operator}: {kind}, {error.func()} says {brief(error.desc())}"


def brief(text: str) -> str:
    """Shorten a message of another library to one line."""
    # Without a GPU every other message carries a second one, about the GPU that is not there.
    lines = text.splitlines()
    line = " ".join(" ".join(part for part in lines if "catchCudaError" not in part).split())
    line = line or " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."
