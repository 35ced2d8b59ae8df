"""Pass the settings of a build to the builder; a setting that it refuses is an error."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgeseg.base.errors import ExportError
from edgeseg.base.files import atomic_path
from edgeseg.base.messages import Setting
from edgeseg.export.engine.options import EngineOptions
from edgeseg.export.engine.packages import targets_of

Batch = tuple[int, int, int]  # min, opt, max


@dataclass(frozen=True, kw_only=True)
class Workbench:
    """The objects of one build; they point to each other's memory, so they live together."""

    package: Any
    log: Any
    builder: Any
    network: Any
    parser: Any  # owns the weights that the network points to
    config: Any


def configure(bench: Workbench, options: EngineOptions) -> None:
    """Set the options that were given; precision is decided by the graph."""
    package, config = bench.package, bench.config
    if not options.tf32:
        config.clear_flag(package.BuilderFlag.TF32)
    if options.workspace_mb is not None:
        config.set_memory_pool_limit(package.MemoryPoolType.WORKSPACE, options.workspace_mb << 20)
    if options.builder == "rtx":
        # Without it the engine may allocate while it runs, and cannot be captured as a CUDA graph.
        config.set_flag(package.BuilderFlag.REQUIRE_USER_ALLOCATION)
        _set_targets(package, config, options.targets)
        return
    if options.optimisation_level is not None:
        config.builder_optimization_level = options.optimisation_level
    if options.version_compatible:
        config.set_flag(package.BuilderFlag.VERSION_COMPATIBLE)
    if options.hardware_compatible:
        config.hardware_compatibility_level = package.HardwareCompatibilityLevel.AMPERE_PLUS
    if options.dla_core is not None:
        _set_dla(bench, options.dla_core)
    if options.timing_cache is not None:
        _load_timing_cache(bench, options.timing_cache)


def _set_targets(package: Any, config: Any, targets: tuple[str, ...]) -> None:
    known = targets_of(package)
    unknown = [target for target in targets if target not in known]
    if unknown:
        raise ExportError(
            Setting("targets", ",".join(unknown)),
            f": TensorRT-RTX {package.__version__} builds for {', '.join(known)}; for other "
            "GPUs build on the device with ",
            Setting("builder", "tensorrt"),
        )
    if targets:
        config.num_compute_capabilities = len(targets)
    for index, target in enumerate(targets):
        if not config.set_compute_capability(known[target], index):
            raise ExportError(f"target {target}: TensorRT-RTX {package.__version__} refuses it")


def _set_dla(bench: Workbench, core: int) -> None:
    package, config = bench.package, bench.config
    count = int(bench.builder.num_DLA_cores)
    if core >= count:
        raise ExportError(
            f"DLA core {core}: TensorRT {package.__version__} finds {count} of them here; "
            "leave it out to build for the GPU"
        )
    config.default_device_type = package.DeviceType.DLA
    config.DLA_core = core
    # Upsampling and the quadratic form are no layers that a DLA has.
    config.set_flag(package.BuilderFlag.GPU_FALLBACK)


def _load_timing_cache(bench: Workbench, path: Path) -> None:
    seen = len(bench.log.messages)
    cache = bench.config.create_timing_cache(path.read_bytes() if path.is_file() else b"")
    # A file that is no cache gives an empty one and a warning; it must not be overwritten.
    complaints = [text for _, text in bench.log.messages[seen:]]
    taken = cache is not None and bench.config.set_timing_cache(cache, ignore_mismatch=False)
    if not taken or (complaints and path.is_file()):
        raise ExportError(
            f"{path}: not a timing cache of this GPU and TensorRT {bench.package.__version__} "
            f"({complaints[0] if complaints else 'refused'}); remove it, or name another file"
        )


def save_timing_cache(config: Any, path: Path) -> None:
    """Save the kernel timings for the next build."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(memoryview(config.get_timing_cache().serialize()))


def add_profile(bench: Workbench, batch: Batch) -> None:
    """Tell the builder the sizes of a dynamic batch; a static graph needs no profile."""
    tensor = bench.network.get_input(0)
    if tensor.shape[0] > 0:
        return
    profile = bench.builder.create_optimization_profile()
    profile.set_shape(tensor.name, *((count, *tuple(tensor.shape)[1:]) for count in batch))
    if bench.config.add_optimization_profile(profile) < 0:
        raise ExportError(f"batch {batch}: the builder refuses it: {bench.log.errors()}")
