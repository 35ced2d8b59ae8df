"""A stand-in for the package `tensorrt`, which builds only on a GPU: it records what it is told.

Names and signatures are those of TensorRT 10 and 11; a test compares them with tensorrt_rtx, which
shares them. The graph is read with onnx, so that inputs and outputs are the real ones.
"""

import enum
from types import SimpleNamespace
from typing import Any

import onnx

PLAN = b"ftrt a plan of TensorRT"


class _Flag10(enum.IntEnum):
    EXPLICIT_BATCH = 0
    STRONGLY_TYPED = 1


class _BuilderFlag(enum.IntEnum):
    TF32 = 7
    GPU_FALLBACK = 3
    VERSION_COMPATIBLE = 13


class _Level(enum.IntEnum):
    NONE = 0
    AMPERE_PLUS = 1


class FakeConfig:
    """IBuilderConfig; slots refuse a misspelt setting, as the real bindings do not."""

    __slots__ = (
        "DLA_core",
        "_cache",
        "_told",
        "builder_optimization_level",
        "default_device_type",
        "hardware_compatibility_level",
    )

    def __init__(self, told: "FakeTensorRt") -> None:
        self._told = told
        self._cache: Any = None

    def set_flag(self, flag: _BuilderFlag) -> None:
        self._told.flags.add(flag)

    def clear_flag(self, flag: _BuilderFlag) -> None:
        self._told.flags.discard(flag)

    def set_memory_pool_limit(self, pool: str, pool_size: int) -> None:
        self._told.pools[pool] = pool_size

    def create_timing_cache(self, serialized_timing_cache: bytes) -> Any:
        if serialized_timing_cache and not serialized_timing_cache.startswith(b"ptrt"):
            self._told.say("WARNING", "Failed to deserialize timing cache. Returning an empty one.")
            return SimpleNamespace(serialize=lambda: b"ptrt")
        return SimpleNamespace(serialize=lambda: (serialized_timing_cache or b"ptrt") + b"+1")

    def set_timing_cache(self, cache: Any, ignore_mismatch: bool) -> bool:
        assert not ignore_mismatch
        self._cache = cache
        return self._told.cache_fits

    def get_timing_cache(self) -> Any:
        return self._cache

    def add_optimization_profile(self, profile: Any) -> int:
        self._told.profiles.append(profile.shapes)
        return len(self._told.profiles) - 1


class FakeTensorRt:
    """The module; `flags`, `pools`, `profiles` and `config` hold what a build was told."""

    BuilderFlag = _BuilderFlag
    HardwareCompatibilityLevel = _Level
    NetworkDefinitionCreationFlag: Any = _Flag10
    DeviceType = SimpleNamespace(GPU="gpu", DLA="dla")
    MemoryPoolType = SimpleNamespace(WORKSPACE="workspace")

    class ILogger:
        INTERNAL_ERROR, ERROR, WARNING, INFO, VERBOSE = range(5)

    def __init__(
        self,
        version: str = "10.3.0",
        *,
        cores: int = 0,
        driver: bool = True,
        builds: bool = True,
        cache_fits: bool = True,
    ) -> None:
        self.__version__ = version
        self._cores, self._driver, self._builds = cores, driver, builds
        self.cache_fits = cache_fits
        self.flags = {_BuilderFlag.TF32}  # on by default, as in the real one
        self.pools: dict[str, int] = {}
        self.profiles: list[dict[str, Any]] = []
        self.network_flags: int | None = None
        self.config: Any = None
        self._log: Any = None

    def say(self, severity: str, text: str) -> None:
        self._log.log(getattr(self.ILogger, severity), text)

    def Builder(self, logger: Any) -> Any:
        self._log = logger
        if not self._driver:
            self.say("ERROR", "CUDA initialization failure with error: 35")
            raise TypeError("pybind11::init(): factory function returned nullptr")
        return SimpleNamespace(
            num_DLA_cores=self._cores,
            create_network=self._create_network,
            create_builder_config=self._create_config,
            create_optimization_profile=_profile,
            build_serialized_network=self._build,
        )

    def OnnxParser(self, network: Any, logger: Any) -> Any:
        def parse(path: str) -> bool:
            graph = onnx.load(path).graph
            network.inputs = [_tensor(item) for item in graph.input]
            network.outputs = [_tensor(item) for item in graph.output]
            network.num_inputs, network.num_outputs = len(network.inputs), len(network.outputs)
            return True

        return SimpleNamespace(parse_from_file=parse, num_errors=0)

    def _create_network(self, flags: int) -> Any:
        self.network_flags = flags
        network = SimpleNamespace(inputs=[], outputs=[], num_inputs=0, num_outputs=0)
        network.get_input = lambda index: network.inputs[index]
        network.get_output = lambda index: network.outputs[index]
        return network

    def _create_config(self) -> FakeConfig:
        self.config = FakeConfig(self)
        return self.config

    def _build(self, network: Any, config: FakeConfig) -> bytes | None:
        assert config is self.config
        if not self._builds:
            self.say("WARNING", "only a warning")
            self.say("ERROR", "Error Code 10: Could not find any implementation for node /form.")
            return None
        return PLAN


def _tensor(value: Any) -> Any:
    dims = value.type.tensor_type.shape.dim
    return SimpleNamespace(
        name=value.name, shape=tuple(-1 if dim.dim_param else dim.dim_value for dim in dims)
    )


def _profile() -> Any:
    shapes: dict[str, Any] = {}

    def set_shape(name: str, low: Any, likely: Any, high: Any) -> None:
        shapes[name] = (low, likely, high)

    return SimpleNamespace(shapes=shapes, set_shape=set_shape)


class FakeCuda:
    """cuda.bindings.runtime on a computer with one GPU."""

    def __init__(self, *, status: int = 0) -> None:
        self._status = status

    def cudaGetDevice(self) -> tuple[int, int | None]:
        return self._status, None if self._status else 0

    def cudaGetDeviceProperties(self, device: int) -> tuple[int, Any]:
        return 0, SimpleNamespace(name=b"Orin\0\0", major=8, minor=7)

    def cudaGetErrorString(self, status: int) -> tuple[int, bytes]:
        return 0, b"no CUDA-capable device is detected"
