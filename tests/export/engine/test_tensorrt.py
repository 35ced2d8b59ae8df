"""Options of a build, and the calls that TensorRT gets.

The package `tensorrt` builds only on a GPU, so these tests talk to a stand-in that records what it
is told (tests/doubles/fake_tensorrt_builder.py); the last test holds the stand-in to the names of
the real bindings.
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgeseg.base.errors import ExportError, UsageError
from edgeseg.export.engine.build import build_engine
from edgeseg.export.engine.options import EngineOptions
from edgeseg.modelfile.metadata import ModelMetadata, PlanFacts
from edgeseg.runtime.backends.model_file import BackendUnavailable, plan_metadata
from edgeseg.runtime.backends.plan_check import check_gpu
from tests.doubles.fake_tensorrt_builder import PLAN, FakeConfig, FakeCuda, FakeTensorRt
from tests.support.small_graphs import SIZE_HW, write_graph

DEFAULT = EngineOptions()
FLAGS = FakeTensorRt.BuilderFlag


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Put stand-ins in the place of the packages."""

    def put(trt: FakeTensorRt | None, *, cuda: FakeCuda | None = None) -> FakeTensorRt | None:
        monkeypatch.setitem(sys.modules, "tensorrt", trt)
        monkeypatch.setitem(sys.modules, "cuda.bindings.runtime", cuda or FakeCuda())
        return trt

    return put


def build(
    folder: Path,
    options: EngineOptions = DEFAULT,
    *,
    precision: str = "fp16",
    batch: tuple[int, int, int] = (1, 1, 1),
) -> ModelMetadata:
    onnx, plan = folder / "small.onnx", folder / "small.plan"
    metadata = write_graph(onnx, precision=precision, batch=batch)
    told = build_engine(onnx, plan, metadata=metadata, options=options)
    assert plan.read_bytes() == PLAN
    assert plan_metadata(plan) == told
    return told


@pytest.mark.parametrize("version", ["10.3.0", "11.4.1"])
def test_precision_comes_from_the_graph(tmp_path: Path, install: Any, version: str) -> None:
    trt = install(FakeTensorRt(version))
    told = build(tmp_path)
    assert trt.network_flags == 1 << 1, "STRONGLY_TYPED"
    assert trt.flags == set(), "no precision flag, and TF32 switched off"
    assert trt.profiles == []
    assert trt.pools == {}
    assert told.plan is not None
    assert told.plan == PlanFacts(
        builder="tensorrt",
        builder_version=version,
        targets=("sm87",),
        gpu="Orin",
        version_compatible=False,
        hardware_compatible=False,
        tf32=False,
        precision="fp16",
        build_seconds=told.plan.build_seconds,
        plan_sha256=told.plan.plan_sha256,
    )


def test_a_version_without_the_flag_is_strongly_typed_anyway(tmp_path: Path, install: Any) -> None:
    trt = FakeTensorRt("12.0.0")
    trt.NetworkDefinitionCreationFlag = object()
    install(trt)
    build(tmp_path)
    assert trt.network_flags == 0


def test_every_setting_reaches_the_builder(tmp_path: Path, install: Any) -> None:
    trt = install(FakeTensorRt(cores=2))
    cache = tmp_path / "timing.cache"
    options = EngineOptions(
        workspace_mb=512,
        timing_cache=cache,
        optimisation_level=5,
        version_compatible=True,
        hardware_compatible=True,
        dla_core=1,
        tf32=True,
    )
    told = build(tmp_path, options)
    assert trt.pools == {"workspace": 512 * 1024 * 1024}
    assert trt.flags == {FLAGS.TF32, FLAGS.VERSION_COMPATIBLE, FLAGS.GPU_FALLBACK}
    assert trt.config.builder_optimization_level == 5
    assert trt.config.hardware_compatibility_level == trt.HardwareCompatibilityLevel.AMPERE_PLUS
    assert (trt.config.default_device_type, trt.config.DLA_core) == ("dla", 1)
    assert cache.read_bytes() == b"ptrt+1"
    build(tmp_path, options)
    assert cache.read_bytes() == b"ptrt+1+1", "the second build starts from the first one's timings"
    assert told.plan is not None
    assert told.plan.version_compatible


def test_a_hardware_compatible_plan_runs_from_ampere_on(tmp_path: Path, install: Any) -> None:
    install(FakeTensorRt())
    told = build(tmp_path, EngineOptions(hardware_compatible=True))
    for capability in ("sm80", "sm86", "sm87", "sm120"):
        check_gpu(tmp_path / "small.plan", told, capability)
    with pytest.raises(BackendUnavailable):
        check_gpu(tmp_path / "small.plan", told, "sm75")


def test_a_dynamic_batch_becomes_a_profile(tmp_path: Path, install: Any) -> None:
    trt = install(FakeTensorRt())
    told = build(tmp_path, replace(DEFAULT, batch=(1, 4, 8)), batch=(1, 2, 4))
    assert trt.profiles == [{"frames": tuple((count, *SIZE_HW, 3) for count in (1, 4, 8))}]
    assert told.input.batch == (1, 4, 8)


@pytest.mark.parametrize(
    ("content", "fits"), [(b"somebody's letters", True), (b"ptrt of another GPU", False)]
)
def test_a_foreign_timing_cache_is_neither_used_nor_overwritten(
    tmp_path: Path, install: Any, content: bytes, fits: bool
) -> None:
    install(FakeTensorRt(cache_fits=fits))
    cache = tmp_path / "timing.cache"
    cache.write_bytes(content)
    with pytest.raises(ExportError, match=r"timing.cache: not a timing cache of this GPU and Tens"):
        build(tmp_path, EngineOptions(timing_cache=cache))
    assert cache.read_bytes() == content


@pytest.mark.parametrize(
    ("trt", "cuda", "message"),
    [
        (
            None,
            None,
            r"^TensorRT cannot be imported; .* `pip install 'edgeseg\[trt\]'`",
        ),
        (FakeTensorRt("8.6.1"), None, "TensorRT 8.6.1 is installed, expected 10 or newer"),
        (
            FakeTensorRt(),
            FakeCuda(status=100),
            r"TensorRT builds on a GPU, and CUDA finds none here \(no CUDA-capable device is "
            r"detected\); run this on the device, or build here with builder=rtx targets=sm86",
        ),
        (FakeTensorRt(driver=False), None, r"CUDA finds none here \(CUDA initialization failure"),
        (
            FakeTensorRt(builds=False),
            None,
            r"TensorRT 10.3.0 built nothing: Error Code 10: Could not find any implementation",
        ),
    ],
)
def test_what_can_be_missing(
    tmp_path: Path, install: Any, trt: Any, cuda: Any, message: str
) -> None:
    install(trt, cuda=cuda)
    with pytest.raises(ExportError, match=message):
        build(tmp_path)
    assert [item.name for item in tmp_path.iterdir()] == ["small.onnx"]


def test_missing_packages_are_named(
    tmp_path: Path, install: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorrt_rtx", None)
    with pytest.raises(ExportError, match=r"TensorRT-RTX cannot .* install 'edgeseg\[trt-rtx\]'`"):
        build(tmp_path, EngineOptions(builder="rtx"))
    install(FakeTensorRt())
    for name in ("cuda.bindings.runtime", "cuda.cudart"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ExportError, match=r"cuda-python is not installed; `pip install 'edgeseg"):
        build(tmp_path)


def test_dla_takes_what_it_can_compute(tmp_path: Path, install: Any) -> None:
    install(FakeTensorRt(cores=2))
    with pytest.raises(ExportError, match="fp32, and a DLA core computes in fp16 and int8"):
        build(tmp_path, EngineOptions(dla_core=0), precision="fp32")
    with pytest.raises(ExportError, match=r"DLA core 2: TensorRT 10.3.0 finds 2 of them here"):
        build(tmp_path, EngineOptions(dla_core=2))
    with pytest.raises(UsageError, match=r"batch=\(1, 2, 4\): a DLA core .* use batch=\(4, 4, 4\)"):
        build(tmp_path, EngineOptions(dla_core=0), batch=(1, 2, 4))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"builder": "tvm"}, "builder='tvm': expected one of tensorrt, rtx"),
        ({"targets": ("sm86",)}, "TensorRT builds for the GPU of its own computer; leave targets="),
        ({"builder": "rtx", "targets": ("8.6",)}, "targets=8.6: expected .* such as sm86"),
        ({"builder": "rtx", "targets": ("sm86", "sm86")}, "expected each of them once"),
        ({"builder": "rtx", "timing_cache": Path("a")}, "^a timing cache: TensorRT-RTX chooses"),
        ({"builder": "rtx", "optimisation_level": 0}, "^an optimisation level: TensorRT-RTX"),
        ({"builder": "rtx", "version_compatible": True}, "^a version-compatible plan: TensorRT-R"),
        ({"builder": "rtx", "hardware_compatible": True}, "^a hardware-compatible plan: Tensor"),
        ({"builder": "rtx", "dla_core": 0}, "^a DLA core: TensorRT-RTX builds for GPUs alone; lea"),
        ({"workspace_mb": 0}, "workspace_mb=0: expected at least 1"),
        ({"optimisation_level": 6}, "optimisation_level=6: expected 0 to 5"),
        ({"dla_core": -1}, "dla_core=-1: expected 0 or more"),
        ({"batch": (2, 1, 4)}, r"batch=\(2, 1, 4\): expected 1 <= min <= opt <= max"),
        ({"batch": (0, 1, 4)}, "expected 1 <= min"),
    ],
)
def test_options_that_contradict_themselves(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        EngineOptions(**options)


def test_a_plan_has_a_name_that_the_runtime_knows(tmp_path: Path) -> None:
    onnx = tmp_path / "small.onnx"
    metadata = write_graph(onnx)
    with pytest.raises(UsageError, match=r"small.trt: expected a name that ends in .plan or .eng"):
        build_engine(onnx, tmp_path / "small.trt", metadata=metadata, options=DEFAULT)


def test_the_stand_in_has_the_names_of_the_bindings() -> None:
    rtx = pytest.importorskip("tensorrt_rtx", reason="needs TensorRT-RTX: edgeseg[trt-rtx]")
    pairs = {
        rtx.IBuilderConfig: {name for name in dir(FakeConfig) if not name.startswith("_")},
        rtx.Builder: {"num_DLA_cores", "create_network", "create_optimization_profile"},
        rtx.BuilderFlag: set(FLAGS.__members__),
        rtx.DeviceType: {"GPU", "DLA"},
        rtx.HardwareCompatibilityLevel: {"NONE", "AMPERE_PLUS"},
        rtx.NetworkDefinitionCreationFlag: {"STRONGLY_TYPED"},
        rtx.ILogger: {"INTERNAL_ERROR", "ERROR", "WARNING", "log"},
    }
    for real, names in pairs.items():
        assert names <= set(dir(real)), real
