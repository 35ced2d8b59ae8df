"""Real builds with TensorRT-RTX, which needs no GPU until a plan is loaded."""

import hashlib
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgeseg.base.errors import ExportError
from edgeseg.export.engine.build import build_engine
from edgeseg.export.engine.options import BUILDERS, EngineOptions
from edgeseg.export.engine.packages import find_gpu
from edgeseg.modelfile.metadata import ModelMetadata
from edgeseg.runtime.backends.choose import open_session
from edgeseg.runtime.backends.model_file import BackendUnavailable, onnx_beside, plan_metadata
from edgeseg.runtime.backends.plan_check import check_gpu, import_builder
from tests.support.small_graphs import SIZE_HW, write_graph

rtx = pytest.importorskip("tensorrt_rtx", reason="needs TensorRT-RTX: pip install edgeseg[trt-rtx]")

SM86 = EngineOptions(builder="rtx", targets=("sm86",))


def build(
    onnx: Path, metadata: ModelMetadata, options: EngineOptions = SM86
) -> tuple[Path, ModelMetadata]:
    """Build beside the graph and hold what is true of every plan."""
    plan = onnx.with_suffix(".plan")
    told = build_engine(onnx, plan, metadata=metadata, options=options)
    assert plan_metadata(plan) == told, "the sidecar, read back by the runtime"
    assert onnx_beside(plan) == onnx, "the fallback of a device without a GPU"
    data = plan.read_bytes()
    assert data.startswith(b"vtrt"), "raw: nothing in front of what trtexec expects"
    assert told.plan is not None
    assert told.plan.plan_sha256 == hashlib.sha256(data).hexdigest()
    assert told.plan.builder_version == rtx.__version__
    assert told.plan.precision == metadata.precision
    assert told.plan.build_seconds > 0
    assert [item.name for item in onnx.parent.iterdir() if item.name.startswith(".")] == []
    return plan, told


@pytest.mark.parametrize("targets", [("sm86",), ("sm89",), ("sm86", "sm89"), ()])
@pytest.mark.parametrize("precision", ["fp32", "fp16", "int8"])
def test_a_plan_is_built_without_a_gpu(
    tmp_path: Path, precision: str, targets: tuple[str, ...]
) -> None:
    onnx = tmp_path / "small.onnx"
    metadata = write_graph(onnx, precision=precision)
    _, told = build(onnx, metadata, EngineOptions(builder="rtx", targets=targets))
    assert told.plan is not None
    assert told.plan.builder == "rtx"
    assert told.plan.targets == tuple(targets)
    assert told.plan.gpu is None
    assert told.plan.hardware_compatible is (not targets)
    assert replace(told, plan=None, onnx_sha256=None) == metadata


def test_the_runtime_reads_from_the_sidecar_where_a_plan_runs(tmp_path: Path) -> None:
    onnx = tmp_path / "small.onnx"
    plan, told = build(onnx, write_graph(onnx))
    assert import_builder(plan, told) is rtx
    check_gpu(plan, told, "sm86")
    with pytest.raises(BackendUnavailable, match="built for sm86, and this GPU is sm75"):
        check_gpu(plan, told, "sm75")


def test_targets_and_precision_change_the_plan_and_a_rebuild_does_not(tmp_path: Path) -> None:
    def bytes_of(name: str, *, options: EngineOptions = SM86) -> bytes:
        onnx = tmp_path / name / "small.onnx"
        onnx.parent.mkdir()
        return build(onnx, write_graph(onnx), options)[0].read_bytes()

    once = bytes_of("once")
    assert bytes_of("again") == once
    assert bytes_of("other GPU", options=EngineOptions(builder="rtx", targets=("sm89",))) != once
    assert bytes_of("tf32", options=replace(SM86, tf32=True)) != once
    assert bytes_of("workspace", options=replace(SM86, workspace_mb=256))


def test_rtx_ignores_the_level_that_we_refuse(tmp_path: Path) -> None:
    onnx = tmp_path / "small.onnx"
    write_graph(onnx)

    def plan_at(level: int) -> bytes:
        log = rtx.Logger(rtx.Logger.ERROR)
        builder = rtx.Builder(log)
        network = builder.create_network(0)
        parser = rtx.OnnxParser(network, log)
        assert parser.parse_from_file(str(onnx))
        config = builder.create_builder_config()
        config.builder_optimization_level = level
        return bytes(builder.build_serialized_network(network, config))

    assert plan_at(0) == plan_at(5), "it has an effect now: allow it in EngineOptions"


@pytest.mark.parametrize("asked", [None, (1, 2, 3)])
def test_a_dynamic_batch_gets_a_profile(tmp_path: Path, asked: tuple[int, int, int] | None) -> None:
    onnx = tmp_path / "small.onnx"
    metadata = write_graph(onnx, batch=(1, 2, 4))
    _, told = build(onnx, metadata, replace(SM86, batch=asked))
    assert told.input.batch == tuple(asked or (1, 2, 4))


def test_a_static_batch_cannot_be_made_dynamic(tmp_path: Path) -> None:
    onnx = tmp_path / "small.onnx"
    metadata = write_graph(onnx)
    with pytest.raises(
        ExportError,
        match=r"small.onnx: a static batch of 1, and \(1, 2, 4\) was asked for; "
        r"export it with batch=\(1, 2, 4\)",
    ):
        build_engine(
            onnx, tmp_path / "a.plan", metadata=metadata, options=replace(SM86, batch=(1, 2, 4))
        )


def test_every_refused_node_is_named(tmp_path: Path) -> None:
    onnx = tmp_path / "small.onnx"
    metadata = write_graph(onnx, precision="integer")
    with pytest.raises(ExportError) as caught:
        build_engine(onnx, tmp_path / "small.plan", metadata=metadata, options=SM86)
    message = str(caught.value)
    assert "small.onnx: TensorRT-RTX refuses 2 nodes: " in message
    for node in ("/form/MatMulInteger", "/form/again"):
        assert f"{node} (MatMulInteger): unsupported node, checkMatMulInteger says" in message
    assert message.endswith("A graph that it takes is made by `edgeseg export --for trt`")
    assert [item.name for item in tmp_path.iterdir()] == ["small.onnx"]
    with pytest.raises(ExportError, match="made for TensorRT: report it with the output of `edg"):
        build_engine(
            onnx,
            tmp_path / "small.plan",
            metadata=replace(metadata, target="trt"),
            options=SM86,
        )


def test_an_unknown_target_lists_the_known_ones(tmp_path: Path) -> None:
    onnx = tmp_path / "small.onnx"
    metadata = write_graph(onnx)
    options = EngineOptions(builder="rtx", targets=("sm86", "sm61"))
    with pytest.raises(ExportError, match=r"^targets=sm61: TensorRT-RTX \S+ builds for .*sm86, sm"):
        build_engine(onnx, tmp_path / "small.plan", metadata=metadata, options=options)


def test_a_failed_build_quotes_the_builder(tmp_path: Path) -> None:
    onnx = tmp_path / "small.onnx"
    metadata = write_graph(onnx)
    (tmp_path / "small.plan").write_bytes(b"an older plan")
    with pytest.raises(ExportError, match=r"TensorRT-RTX \S+ built nothing: .*workspace"):
        build_engine(
            onnx,
            tmp_path / "small.plan",
            metadata=metadata,
            options=replace(SM86, workspace_mb=1),
        )
    assert (tmp_path / "small.plan").read_bytes() == b"an older plan"


def test_files_that_are_not_the_graph_of_the_metadata(tmp_path: Path) -> None:
    onnx, plan = tmp_path / "small.onnx", tmp_path / "small.plan"
    metadata = write_graph(onnx)

    def fails(match: str, *, graph: Path = onnx, told: ModelMetadata = metadata) -> None:
        with pytest.raises(ExportError, match=match):
            build_engine(graph, plan, metadata=told, options=SM86)

    fails("no.onnx: no such file; make it with `edgeseg export`", graph=tmp_path / "no.onnx")
    fails("small.onnx: SHA-256 .* as in its metadata", told=replace(metadata, onnx_sha256="0" * 64))
    elsewhere = replace(metadata.input, size_hw=(64, 64))
    fails(rf"inputs .*{SIZE_HW[0]}, {SIZE_HW[1]}", told=replace(metadata, input=elsewhere))
    with pytest.raises(ValueError, match=r"outputs: .*'heat'"):  # metadata refuse it themselves
        replace(metadata, outputs=("map", "score", "heat"))
    other = tmp_path / "other.onnx"
    write_graph(other, precision="fp16")
    fails("small.onnx beside it is another graph than .*other.onnx", graph=other)
    onnx.write_bytes(b"neither ONNX nor anything else")
    fails("small.onnx: ")


def test_nothing_heavy_is_imported_before_a_build() -> None:
    code = (
        "import sys, edgeseg.export.engine.build, edgeseg.export.triton_repository;"
        "print(sorted({'tensorrt', 'tensorrt_rtx', 'torch', 'onnx', 'cuda'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.gpu
@pytest.mark.parametrize("builder", ["rtx", "tensorrt"])
def test_a_plan_runs_like_its_graph(tmp_path: Path, builder: str) -> None:
    try:
        capability = find_gpu().capability
    except ExportError as error:
        pytest.skip(f"needs a GPU: {error}")
    pytest.importorskip(BUILDERS[builder].module, reason=f"needs {BUILDERS[builder].name}")
    onnx, plan = tmp_path / "small.onnx", tmp_path / "small.plan"
    targets = (capability,) if builder == "rtx" else ()
    options = EngineOptions(builder=builder, targets=targets)
    build_engine(onnx, plan, metadata=write_graph(onnx), options=options)
    frames = np.random.default_rng(0).integers(0, 255, (3, *SIZE_HW, 3), dtype=np.uint8)
    with open_session(onnx) as reference, open_session(plan) as compiled:
        pairs = zip(reference.infer(frames), compiled.infer(frames), strict=True)
        for expected, found in pairs:
            np.testing.assert_allclose(found.map_hw, expected.map_hw, rtol=1e-4, atol=1e-4)
