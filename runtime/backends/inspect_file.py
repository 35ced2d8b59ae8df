"""Describe an exported file, for `edgeseg info`; a device has no onnx to read it with."""

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from edgeseg.base.errors import RuntimeFailure
from edgeseg.base.files import file_sha256
from edgeseg.decision.explain import explained_facts
from edgeseg.modelfile.metadata import ModelMetadata
from edgeseg.modelfile.seal import HASH_STATE
from edgeseg.runtime.backends.model_file import file_metadata, plan_metadata
from edgeseg.runtime.backends.onnx_outline import GraphTensor, read_outline
from edgeseg.runtime.backends.onnx_properties import property_text
from edgeseg.runtime.backends.split_facts import read_split

Facts = dict[str, Any]  # plain values, for JSON and for print
# The constants that only the quadratic form reads, as export/graph.py and precision/int8.py name
# them.
_FACTORS = tuple(f"{form}factor{kind}" for form in ("", "map_") for kind in ("", "_int8", "_scale"))


def describe(path: Path) -> Facts:
    """Collect metadata, inputs, outputs, size, operators and the bytes of the quadratic form."""
    if not path.is_file():
        raise RuntimeFailure(f"{path}: no such file; make one with `edgeseg export`")
    return _describe_onnx(path) if path.suffix == ".onnx" else _describe_plan(path)


def _describe_onnx(path: Path) -> Facts:
    ours = property_text(path) is not None
    metadata = file_metadata(path) if ours else None  # compares hashes first
    weights = path.with_name(f"{path.name}.data")  # of a graph over 2 GB
    facts = _graph_facts(path) | {
        "size_bytes": path.stat().st_size + (weights.stat().st_size if weights.is_file() else 0)
    }
    half = read_split(path)
    if half is not None:
        facts["split"] = json.loads(json.dumps(asdict(half)))  # lists, as JSON has them
    if half is not None and half.half == "backbone":
        return facts | {"metadata": "in the other half, .head.onnx"}
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
    grid_hw = metadata.grid_hw
    apart = (grid_hw[0] * grid_hw[1], metadata.k)
    # Others: one value.
    sides = {"map": metadata.size_hw, "grid": grid_hw, "map_grid": grid_hw, "apart": apart}
    facts: Facts = {
        "inputs": {metadata.input.name: _text("uint8", count, *metadata.size_hw, 3)},
        "outputs": {
            name: _text("int64" if name == "variant" else "float", count, *sides.get(name, ()))
            for name in metadata.outputs
        },
    }
    graph = path.with_suffix(".onnx")
    if graph.is_file() and file_sha256(graph) == metadata.onnx_sha256:
        facts |= _graph_facts(graph)
    else:
        facts["operators"] = f"unknown: {graph.name}, which it was built from, is not beside it"
    return facts | {
        "size_bytes": path.stat().st_size,
        "hash": HASH_STATE,
        "metadata": _readable(metadata),
    }


def _graph_facts(path: Path) -> Facts:
    """Describe a graph: its inputs and outputs, its operators, and what is read once a frame."""
    outline = read_outline(path)
    operators = Counter(node.kind for node in outline.nodes)
    form = sum(constant.bytes for constant in outline.constants if constant.name in _FACTORS)
    return {
        "inputs": {tensor.name: str(tensor) for tensor in outline.inputs},
        "outputs": {tensor.name: str(tensor) for tensor in outline.outputs},
        "operators": dict(sorted(operators.items())),
        "quadratic_form_bytes_per_frame": form,  # which decides the time on a processor
    }


def _readable(metadata: ModelMetadata) -> Facts:
    values: Facts = json.loads(metadata.to_json())
    values |= explained_facts(metadata.reasons, metadata.kinds)
    return values | {"threshold": values["threshold"] | {"method": metadata.threshold.method}}


def _text(kind: str, *sides: int | str) -> str:
    return str(GraphTensor(name="", kind=kind, sides=sides))
