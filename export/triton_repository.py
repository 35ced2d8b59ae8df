"""Write a model repository for NVIDIA Triton: NAME/config.pbtxt, NAME/1/model.onnx or .plan."""

import re
from dataclasses import replace
from pathlib import Path

from edgeseg.base.errors import ExportError, UsageError
from edgeseg.base.files import copy_file, file_sha256, write_text
from edgeseg.base.messages import Setting
from edgeseg.modelfile.metadata import KEY, MODEL_SUFFIXES, ModelMetadata

_VERSION = "1"  # Triton serves the highest numbered folder
_MARK = f'key: "{KEY}"'  # in every config.pbtxt of ours
_FILES = ("model.onnx", "model.plan")


def write_triton(
    model_path: Path, folder: Path, *, metadata: ModelMetadata, name: str | None = None
) -> Path:
    """Copy a model into the repository `folder`; return the model's own folder in it."""
    name = metadata.name if name is None else name
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", name):
        raise UsageError(
            f"model name {name!r}: expected letters, digits, '_', '-' and '.', since Triton "
            "makes it part of an address"
        )
    checked = _check(model_path, metadata)
    target = folder / name
    config = target / "config.pbtxt"
    if target.exists() and not (config.is_file() and _MARK in config.read_text(encoding="utf-8")):
        raise ExportError(
            f"{target}: exists and was not written by edgeseg; choose another name or folder"
        )
    version = target / _VERSION
    file_name = _FILES[checked.plan is not None]
    copy_file(model_path, version / file_name)
    kept = {file_name, "model.json"}
    external = model_path.with_name(f"{model_path.name}.data")  # weights of a graph over 2 GB
    if checked.plan is None and external.is_file():
        copy_file(external, version / external.name)
        kept.add(external.name)
    write_text(version / "model.json", checked.to_json(indent=2) + "\n")
    # The last file: a server that polls the repository must not see it before the model.
    write_text(config, triton_config(checked, name=name))
    for stale in [*version.glob("model.*"), *version.glob("*.onnx.data")]:
        if stale.name not in kept:
            stale.unlink()
    return target


def triton_config(metadata: ModelMetadata, *, name: str) -> str:
    """Write the text of config.pbtxt."""
    low, _, high = metadata.input.batch
    batched = low < high
    is_plan = metadata.plan is not None
    height, width = metadata.size_hw
    frame_nhwc = ([] if batched else [high]) + [height, width, 3]
    cells = list(metadata.grid_hw)
    apart = [cells[0] * cells[1], metadata.k]
    shapes = {"map": [height, width], "grid": cells, "map_grid": cells, "apart": apart}
    whole = ("variant",)
    outputs = [
        _tensor(
            output,
            "TYPE_INT64" if output in whole else "TYPE_FP32",
            ([] if batched else [high]) + shapes.get(output, []),
        )
        for output in metadata.outputs
    ]
    lines = [
        *_remarks(metadata),
        f'name: "{name}"',
        f'platform: "{"tensorrt_plan" if is_plan else "onnxruntime_onnx"}"',
        f'backend: "{"tensorrt" if is_plan else "onnxruntime"}"',
        f'default_model_filename: "{_FILES[is_plan]}"',
        # 0 stands for a model whose first dimension is no batch that Triton may fill.
        f"max_batch_size: {high if batched else 0}",
        f"input [ {_tensor(metadata.input.name, 'TYPE_UINT8', frame_nhwc)} ]",
        f"output [ {', '.join(outputs)} ]",
        f"instance_group [ {{ count: 1 kind: {_kind(metadata)} }} ]",
    ]
    if batched:
        lines.append("dynamic_batching { }")  # batches what waits already, and delays nothing
    if is_plan:
        lines.append("optimization { cuda { graphs: true } }")
    lines += [_warmup(metadata.input.name, frame_nhwc), _parameter(metadata)]
    return "\n".join(lines) + "\n"


def _check(model_path: Path, metadata: ModelMetadata) -> ModelMetadata:
    """Refuse what Triton could not serve; return the metadata of this file."""
    if not model_path.is_file():
        raise ExportError(f"{model_path}: no such file; make it with `edgeseg export`")
    if model_path.suffix not in MODEL_SUFFIXES:
        raise UsageError(f"{model_path}: expected {' or '.join(MODEL_SUFFIXES)}")
    if metadata.looks.several is not None:
        raise ExportError(
            f"{model_path}: judges parts that are cut out of pictures with several, and a server "
            "does not cut; run it with `edgeseg stream` or edgeseg.runtime.open"
        )
    digest = file_sha256(model_path)
    if model_path.suffix == ".onnx":
        metadata = replace(metadata, plan=None)
        expected = metadata.onnx_sha256
    elif metadata.plan is None:
        raise ExportError(f"{model_path}: its metadata does not describe a plan; build it again")
    elif metadata.plan.builder != "tensorrt":
        raise ExportError(
            f"{model_path}: built by TensorRT-RTX, and Triton loads plans of TensorRT; serve "
            "the .onnx, or build with ",
            Setting("builder", "tensorrt"),
            " on a GPU like the server's",
        )
    else:
        expected = metadata.plan.plan_sha256
    if expected not in (None, digest):
        raise ExportError(
            f"{model_path}: SHA-256 {digest[:12]}..., expected {expected[:12]}... as in its "
            "metadata; export it again"
        )
    low, _, high = metadata.input.batch
    if 1 < low < high:
        raise ExportError(
            f"{model_path}: batches of {low} to {high}, and Triton sends single frames too; "
            "export it with ",
            Setting("batch", (1, low, high)),
        )
    return metadata if metadata.plan else replace(metadata, onnx_sha256=digest)


def _remarks(metadata: ModelMetadata) -> list[str]:
    remarks = [
        f"# Written by edgeseg. A frame is {metadata.input.channels}, "
        f"height x width x channel; parameter `{KEY}` holds threshold and statistics."
    ]
    if metadata.plan and metadata.plan.version_compatible:
        remarks.append("# Start the server with --backend-config=tensorrt,version-compatible=true")
    return remarks


def _tensor(name: str, kind: str, dims: list[int]) -> str:
    # The protocol has no empty shapes: the score of a batched frame [] is served as [1].
    reshape = "" if dims else " reshape { shape: [ ] }"
    return f'{{ name: "{name}" data_type: {kind} dims: {dims or [1]}{reshape} }}'


def _kind(metadata: ModelMetadata) -> str:
    if metadata.plan is not None:
        return "KIND_GPU"
    # The int8 graph for CPUs has operators that ONNX Runtime runs on CPUs alone.
    for_cpu = metadata.target == "cpu" and metadata.precision == "int8"
    return "KIND_CPU" if for_cpu else "KIND_AUTO"


def _warmup(name: str, dims: list[int]) -> str:
    """Configure one black frame at the start, so that no camera waits for the first allocation."""
    return (
        'model_warmup [ { name: "black frame" batch_size: 1 inputs { '
        f'key: "{name}" value {{ data_type: TYPE_UINT8 dims: {dims} zero_data: true }} }} }} ]'
    )


def _parameter(metadata: ModelMetadata) -> str:
    # JSON escapes everything outside ASCII, so quotes and backslashes are all that is left.
    text = metadata.to_json().replace("\\", "\\\\").replace('"', '\\"')
    return f'parameters {{ {_MARK} value {{ string_value: "{text}" }} }}'
