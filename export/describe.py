"""What an exported file is: for `edgeseg info`."""

from collections import Counter
from pathlib import Path
from typing import Any

from edgeseg.errors import RuntimeFailure
from edgeseg.metadata import KEY, ModelMetadata


def describe(path: Path) -> dict[str, Any]:
    """Metadata, inputs, outputs, size, operators and the bytes the quadratic form reads."""
    if not path.is_file():
        raise RuntimeFailure(f"{path}: no such file; make one with `edgeseg export`")
    return _describe_onnx(path) if path.suffix == ".onnx" else _describe_plan(path)


def _describe_onnx(path: Path) -> dict[str, Any]:
    import onnx

    try:
        proto = onnx.load(path, load_external_data=False)
    except Exception as error:  # protobuf raises its own kinds, and onnx changes which
        raise RuntimeFailure(f"{path}: not an ONNX file ({error}); export it again") from None
    properties = {item.key: item.value for item in proto.metadata_props}
    constants = {tensor.name: tensor for tensor in proto.graph.initializer}
    facts: dict[str, Any] = {
        "inputs": {value.name: _shape(value) for value in proto.graph.input},
        "outputs": {value.name: _shape(value) for value in proto.graph.output},
        "operators": dict(sorted(Counter(node.op_type for node in proto.graph.node).items())),
        "size_bytes": path.stat().st_size,
        "quadratic_form_bytes_per_frame": _form_bytes(constants),
    }
    if KEY not in properties:
        return facts | {"metadata": "none: this file was not exported by edgeseg"}
    return facts | {"metadata": _readable(properties[KEY], path)}


def _describe_plan(path: Path) -> dict[str, Any]:
    sidecar = path.with_suffix(".json")
    if not sidecar.is_file():
        raise RuntimeFailure(
            f"{path}: its sidecar {sidecar.name} is missing; a plan says nothing of itself, "
            "keep the two together or export again"
        )
    metadata = _readable(sidecar.read_text(encoding="utf-8"), path)
    return {"size_bytes": path.stat().st_size, "metadata": metadata}


def _readable(text: str, path: Path) -> dict[str, Any]:
    import json

    metadata = ModelMetadata.from_json(text, source=str(path))
    values: dict[str, Any] = json.loads(metadata.to_json())
    return values


def _shape(value: Any) -> str:
    import onnx

    tensor = value.type.tensor_type
    name = onnx.TensorProto.DataType.Name(tensor.elem_type).lower()
    sides = [dim.dim_param or str(dim.dim_value) for dim in tensor.shape.dim]
    return f"{name} [{', '.join(sides)}]"


def _form_bytes(constants: dict[str, Any]) -> int:
    """Every factor is read once a frame: the number that decides the time on a CPU."""
    names = ("factor", "factor_int8", "factor_scale")
    return sum(len(constants[name].raw_data) for name in names if name in constants)
