"""Describe an exported file, for `edgeseg info`."""

import json
import math
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgeseg.base.errors import RuntimeFailure
from edgeseg.base.files import file_sha256
from edgeseg.modelfile.metadata import ModelMetadata
from edgeseg.modelfile.seal import HASH_STATE
from edgeseg.runtime.backends.model_file import file_metadata, plan_metadata
from edgeseg.runtime.backends.onnx_properties import property_text

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto

Facts = dict[str, Any]  # plain values, for JSON and for print
# The constants that only the quadratic form reads, as graph.py and precision/int8.py name them.
_FACTORS = ("factor", "factor_int8", "factor_scale")


def describe(path: Path) -> Facts:
    """Collect metadata, inputs, outputs, size, operators and the bytes of the quadratic form."""
    if not path.is_file():
        raise RuntimeFailure(f"{path}: no such file; make one with `edgeseg export`")
    return _describe_onnx(path) if path.suffix == ".onnx" else _describe_plan(path)


def _describe_onnx(path: Path) -> Facts:
    ours = property_text(path) is not None
    metadata = file_metadata(path) if ours else None  # compares hashes before onnx parses it
    proto = _load(path)
    weights = path.with_name(f"{path.name}.data")  # of a graph over 2 GB
    facts = _graph_facts(proto, path) | {
        "size_bytes": path.stat().st_size + (weights.stat().st_size if weights.is_file() else 0)
    }
    if metadata is None:
        return facts | {"metadata": "none: this file was not exported by edgeseg"}
    return facts | {"hash": HASH_STATE, "metadata": _readable(metadata)}


def _describe_plan(path: Path) -> Facts:
    """Describe a plan by its sidecar, and by the graph that it was built from if it is there."""
    sidecar = path.with_suffix(".json")
    if not sidecar.is_file():
        raise RuntimeFailure(
            f"{path}: its sidecar {sidecar.name} is missing; a plan says nothing of itself, "
            "keep the two together or export again"
        )
    metadata = plan_metadata(path)
    low, _, high = metadata.input.batch
    count = low if low == high else "batch"
    sides = {"map": metadata.size_hw, "score": (), "grid": metadata.grid_hw}
    facts: Facts = {
        "inputs": {metadata.input.name: _tensor("uint8", [count, *metadata.size_hw, 3])},
        "outputs": {name: _tensor("float", [count, *sides[name]]) for name in metadata.outputs},
    }
    graph = path.with_suffix(".onnx")
    if graph.is_file() and file_sha256(graph) == metadata.onnx_sha256:
        facts |= _graph_facts(_load(graph), graph)
    else:
        facts["operators"] = f"unknown: {graph.name}, which it was built from, is not beside it"
    return facts | {
        "size_bytes": path.stat().st_size,
        "hash": HASH_STATE,
        "metadata": _readable(metadata),
    }


def _load(path: Path) -> "ModelProto":
    import onnx

    try:
        proto = onnx.load(path, load_external_data=False)
    except Exception as error:  # protobuf raises its own kinds, and onnx changes which
        raise RuntimeFailure(f"{path}: not an ONNX file ({error}); export it again") from None
    if not proto.graph.node:  # an empty file is a valid message without anything in it
        raise RuntimeFailure(f"{path}: not an ONNX file (it has no graph); export it again")
    return proto


def _graph_facts(proto: "ModelProto", path: Path) -> Facts:
    try:
        return {
            "inputs": {_name(value.name): _shape(value) for value in proto.graph.input},
            "outputs": {_name(value.name): _shape(value) for value in proto.graph.output},
            "operators": dict(sorted(Counter(_name(n.op_type) for n in proto.graph.node).items())),
            "quadratic_form_bytes_per_frame": _form_bytes(proto),
        }
    except (LookupError, ValueError, TypeError) as error:  # types and names that are none
        raise RuntimeFailure(f"{path}: damaged graph ({error}); export it again") from None


def _name(text: str | bytes) -> str:
    """Return the name, or raise ValueError: protobuf gives bytes for one that is not UTF-8."""
    if not isinstance(text, str):
        raise ValueError(f"the name {text!r} is not UTF-8")
    return text


def _form_bytes(proto: "ModelProto") -> int:
    """Sum the bytes of all factors. Each is read once a frame, which decides the time on a CPU."""
    from onnx import helper

    return sum(
        math.prod(tensor.dims) * helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
        for tensor in proto.graph.initializer
        if tensor.name in _FACTORS
    )


def _readable(metadata: ModelMetadata) -> Facts:
    values: Facts = json.loads(metadata.to_json())
    return values | {"threshold": values["threshold"] | {"method": metadata.threshold.method}}


def _shape(value: "ValueInfoProto") -> str:
    from onnx import TensorProto

    tensor = value.type.tensor_type
    sides = [dim.dim_param or dim.dim_value for dim in tensor.shape.dim]
    return _tensor(TensorProto.DataType.Name(tensor.elem_type).lower(), sides)


def _tensor(kind: str, sides: list[Any]) -> str:
    return f"{kind} [{', '.join(map(str, sides))}]"
