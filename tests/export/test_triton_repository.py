"""Model repositories for Triton, read back through the schema that its client publishes."""

import ast
import hashlib
import importlib.metadata
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

from edgeseg.base.errors import ExportError, UsageError
from edgeseg.export.triton_repository import write_triton
from edgeseg.modelfile.metadata import KEY, ModelMetadata
from tests.support import brightness_model
from tests.support.small_graphs import GRID_HW, SIZE_HW, write_graph

PLAN = replace(brightness_model.PLAN, plan_sha256=hashlib.sha256(b"a plan").hexdigest())


@pytest.fixture(scope="module")
def schema() -> Any:
    """ModelConfig of model_config.proto.

    The generated module pins a version of protobuf and its package imports gRPC; the descriptor
    inside it needs neither, so it is taken out as data.
    """
    try:
        package = importlib.metadata.distribution("tritonclient")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("needs Triton's schema: pip install tritonclient")
    file = Path(str(package.locate_file("tritonclient/grpc/model_config_pb2.py")))
    blobs = [
        node.args[0].value
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "AddSerializedFile"
        and isinstance(node.args[0], ast.Constant)
    ]
    described = descriptor_pb2.FileDescriptorProto.FromString(blobs[0])
    pool = descriptor_pool.DescriptorPool()
    pool.Add(described)  # type: ignore[no-untyped-call, unused-ignore]
    found = pool.FindMessageTypeByName(f"{described.package}.ModelConfig")
    return message_factory.GetMessageClass(found)


def read(schema: Any, folder: Path) -> Any:
    return text_format.Parse((folder / "config.pbtxt").read_text(encoding="utf-8"), schema())


def value_names(message: Any, field: str) -> str:
    """The name of an enumerator."""
    numbers = message.DESCRIPTOR.fields_by_name[field].enum_type.values_by_number
    return str(numbers[getattr(message, field)].name)


def shapes(tensors: Any) -> dict[str, tuple[str, list[int]]]:
    return {
        item.name: (value_names(item, "data_type"), [int(size) for size in item.dims])
        for item in tensors
    }


def write_plan(folder: Path, **plan: Any) -> tuple[Path, ModelMetadata]:
    told = write_graph(folder / "part.onnx", precision="fp16")
    (folder / "part.plan").write_bytes(b"a plan")
    return folder / "part.plan", replace(told, plan=replace(PLAN, **plan))


def test_a_static_graph(tmp_path: Path, schema: Any) -> None:
    onnx = tmp_path / "part.onnx"
    metadata = write_graph(onnx)
    folder = write_triton(onnx, tmp_path / "models", metadata=metadata)
    assert folder == tmp_path / "models" / "small"
    config = read(schema, folder)
    assert config.name == folder.name
    assert (config.platform, config.backend) == ("onnxruntime_onnx", "onnxruntime")
    assert config.max_batch_size == 0
    assert shapes(config.input) == {"frames": ("TYPE_UINT8", [1, *SIZE_HW, 3])}
    assert shapes(config.output) == {
        "map": ("TYPE_FP32", [1, *SIZE_HW]),
        "score": ("TYPE_FP32", [1]),
        "grid": ("TYPE_FP32", [1, *GRID_HW]),
    }
    assert not any(item.HasField("reshape") for item in config.output)
    assert not config.HasField("dynamic_batching")
    assert not config.HasField("optimization")
    assert value_names(config.instance_group[0], "kind") == "KIND_AUTO"
    assert (folder / "1" / config.default_model_filename).read_bytes() == onnx.read_bytes()
    black = config.model_warmup[0]
    assert black.batch_size == 1
    assert list(black.inputs["frames"].dims) == list(config.input[0].dims)
    assert black.inputs["frames"].zero_data


def test_the_maps_own_cells_are_served_too(tmp_path: Path, schema: Any) -> None:
    onnx = tmp_path / "part.onnx"
    plain = write_graph(onnx)
    metadata = replace(plain, outputs=(*plain.outputs, "map_grid"))
    config = read(schema, write_triton(onnx, tmp_path / "models", metadata=metadata))
    assert shapes(config.output)["map_grid"] == ("TYPE_FP32", [1, *GRID_HW])
    assert list(shapes(config.output)) == list(metadata.outputs)


def test_the_metadata_travel_along(tmp_path: Path, schema: Any) -> None:
    onnx = tmp_path / "part.onnx"
    plain = write_graph(onnx)
    metadata = replace(plain, name='a "b"\\ \n é')
    folder = write_triton(onnx, tmp_path, metadata=metadata, name="line-1")
    assert folder.name == "line-1"
    told = ModelMetadata.from_json(
        read(schema, folder).parameters[KEY].string_value, source="parameter"
    )
    digest = hashlib.sha256(onnx.read_bytes()).hexdigest()
    assert told == replace(metadata, onnx_sha256=digest)
    sidecar = (folder / "1" / "model.json").read_text(encoding="utf-8")
    assert ModelMetadata.from_json(sidecar, source="sidecar") == told


def test_a_dynamic_batch_is_filled_by_the_server(tmp_path: Path, schema: Any) -> None:
    onnx = tmp_path / "part.onnx"
    metadata = write_graph(onnx, batch=(1, 2, 4))
    config = read(schema, write_triton(onnx, tmp_path, metadata=metadata))
    assert config.max_batch_size == 4
    assert config.HasField("dynamic_batching")
    assert shapes(config.input) == {"frames": ("TYPE_UINT8", [*SIZE_HW, 3])}
    assert shapes(config.output)["map"] == ("TYPE_FP32", list(SIZE_HW))
    # One number per frame has an empty shape, which Triton's protocol lacks.
    score = next(item for item in config.output if item.name == "score")
    assert list(score.dims) == [1]
    assert score.HasField("reshape")
    assert list(score.reshape.shape) == []


def test_a_plan(tmp_path: Path, schema: Any) -> None:
    plan, metadata = write_plan(tmp_path)
    folder = write_triton(plan, tmp_path, metadata=metadata)
    config = read(schema, folder)
    assert (config.platform, config.backend) == ("tensorrt_plan", "tensorrt")
    assert value_names(config.instance_group[0], "kind") == "KIND_GPU"
    assert config.optimization.cuda.graphs
    assert (folder / "1" / "model.plan").read_bytes() == b"a plan"
    assert "version-compatible" not in (folder / "config.pbtxt").read_text(encoding="utf-8")
    plan, metadata = write_plan(tmp_path, version_compatible=True)
    folder = write_triton(plan, tmp_path, metadata=metadata)
    assert "tensorrt,version-compatible=true" in (folder / "config.pbtxt").read_text("utf-8")


def test_int8_for_cpus_stays_on_the_cpu(tmp_path: Path, schema: Any) -> None:
    onnx = tmp_path / "part.onnx"
    metadata = replace(write_graph(onnx, precision="int8"), target="cpu")
    config = read(schema, write_triton(onnx, tmp_path, metadata=metadata))
    assert value_names(config.instance_group[0], "kind") == "KIND_CPU"


def test_writing_again_replaces_the_model(tmp_path: Path, schema: Any) -> None:
    plan, metadata = write_plan(tmp_path)
    onnx = tmp_path / "part.onnx"
    (tmp_path / "part.onnx.data").write_bytes(b"weights of a large graph")
    write_triton(onnx, tmp_path, metadata=metadata)
    folder = write_triton(plan, tmp_path, metadata=metadata)
    assert {item.name for item in (folder / "1").iterdir()} == {"model.json", "model.plan"}
    write_triton(onnx, tmp_path, metadata=metadata)
    assert read(schema, folder).platform == "onnxruntime_onnx"
    assert not (folder / "1" / "model.plan").exists()
    assert (folder / "1" / "part.onnx.data").read_bytes() == b"weights of a large graph"


def test_what_triton_could_not_serve(tmp_path: Path) -> None:
    plan, metadata = write_plan(tmp_path)
    onnx = tmp_path / "part.onnx"

    def fails(model: Path, told: ModelMetadata, match: str, *, name: str | None = None) -> None:
        with pytest.raises((ExportError, UsageError), match=match):
            write_triton(model, tmp_path / "models", metadata=told, name=name)

    fails(tmp_path / "no.onnx", metadata, "no.onnx: no such file; make it with `edgeseg export`")
    fails(Path(__file__), metadata, r"expected .onnx or .plan or .engine")
    fails(onnx, metadata, "model name 'a/b': expected letters, digits", name="a/b")
    fails(onnx, metadata, "model name '..'", name="..")
    fails(onnx, replace(metadata, onnx_sha256="0" * 64), "part.onnx: SHA-256 .* export it again")
    fails(plan, replace(metadata, plan=replace(PLAN, plan_sha256="0" * 64)), "part.plan: SHA-256 ")
    fails(plan, replace(metadata, plan=None), "its metadata does not describe a plan")
    fails(
        plan, replace(metadata, plan=replace(PLAN, builder="rtx")), "built by TensorRT-RTX, and Tr"
    )
    batch = replace(metadata.input, batch=(2, 3, 4))
    fails(onnx, replace(metadata, input=batch), r"batches of 2 to 4, .* batch=\(1, 2, 4\)")
    assert not (tmp_path / "models").exists()


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    onnx = tmp_path / "part.onnx"
    metadata = write_graph(onnx)
    (tmp_path / "models" / "small").mkdir(parents=True)
    with pytest.raises(ExportError, match="small: exists and was not written by edgeseg"):
        write_triton(onnx, tmp_path / "models", metadata=metadata)
    assert list((tmp_path / "models" / "small").iterdir()) == []
