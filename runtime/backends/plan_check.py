"""Check that a TensorRT plan fits this computer, by its sidecar, before the plan is loaded."""

import importlib
import importlib.util
import re
from pathlib import Path
from typing import Any

from edgeseg.base.errors import RuntimeFailure
from edgeseg.modelfile.metadata import ModelMetadata
from edgeseg.modelfile.precisions import EXACT, precision_spec
from edgeseg.runtime.backends.model_file import BackendUnavailable

_MODULES = {"tensorrt": "tensorrt", "rtx": "tensorrt_rtx"}
_EXTRAS = {"tensorrt": "trt", "rtx": "trt-rtx"}
_NAMES = {"tensorrt": "TensorRT", "rtx": "TensorRT-RTX"}


def builder_name(metadata: ModelMetadata) -> str:
    """Return the builder's name for people."""
    return _NAMES[metadata.plan_facts.builder]


def import_builder(model: Path, metadata: ModelMetadata) -> Any:
    """Import the Python package that can load the plan, in a version that can."""
    plan = metadata.plan_facts
    builder = plan.builder
    if builder not in _MODULES:
        raise RuntimeFailure(
            f"{model}: built by {builder!r}, expected one of {', '.join(_MODULES)}; "
            f"{rebuild(model, metadata)}"
        )
    if importlib.util.find_spec(_MODULES[builder]) is None:
        raise BackendUnavailable(
            f"{model}: {_NAMES[builder]} is not installed; "
            f"`pip install 'edgeseg[{_EXTRAS[builder]}]'`"
        )
    module = importlib.import_module(_MODULES[builder])
    built, here = plan.builder_version, str(module.__version__)
    if not _versions_fit(built, here, compatible=plan.version_compatible):
        raise BackendUnavailable(
            f"{model}: built with {_NAMES[builder]} {built}, and {here} is installed; "
            f"{rebuild(model, metadata)}"
        )
    return module


def check_gpu(model: Path, metadata: ModelMetadata, here: str) -> None:
    """Compare the plan's targets with this GPU, given as `sm86`."""
    plan = metadata.plan_facts
    targets = plan.targets
    if not targets or here in targets:
        return
    # Hardware-compatible plans run on newer GPUs than the oldest they were built for.
    oldest = min(_capability(target) for target in targets)
    if plan.hardware_compatible and _capability(here) >= oldest:
        return
    raise BackendUnavailable(
        f"{model}: built for {', '.join(targets)}, and this GPU is {here}; "
        f"{rebuild(model, metadata)}"
    )


def rebuild(model: Path, metadata: ModelMetadata) -> str:
    """Return the advice for a plan that does not fit."""
    command = f"edgeseg export {model.stem}.edgeseg --trt"
    if metadata.plan_facts.builder == "rtx":
        command += " --builder rtx"
    if metadata.precision != EXACT:
        command += f" --precision {metadata.precision}"
    if precision_spec(metadata.precision).needs_images:
        command += " --calibrate GOOD_IMAGES"
    return f"build it again on this computer with `{command}`, or run the .onnx file"


def _versions_fit(built: str, here: str, *, compatible: bool) -> bool:
    built_parts, here_parts = (
        [int(number) for number in re.findall(r"\d+", text)[:3]] for text in (built, here)
    )
    if built_parts == here_parts:
        return True
    return compatible and built_parts[:1] == here_parts[:1] and built_parts <= here_parts


def _capability(target: str) -> int:
    return int("".join(filter(str.isdigit, target)) or 0)
