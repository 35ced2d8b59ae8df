"""Options of a TensorRT build, and what each of the two builders supports."""

import re
from dataclasses import dataclass
from pathlib import Path

import click

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Sentence, Setting
from edgeseg.base.options import FILE, Names, RegistryName
from edgeseg.base.typed_options import typed


@dataclass(frozen=True, kw_only=True)
class Builder:
    """One of NVIDIA's two compilers."""

    name: str
    module: str
    extra: str


BUILDERS = {
    "tensorrt": Builder(name="TensorRT", module="tensorrt", extra="trt"),
    "rtx": Builder(name="TensorRT-RTX", module="tensorrt_rtx", extra="trt-rtx"),
}

# TensorRT-RTX 1.7 takes four of these and builds the same bytes as without them; for a
# version-compatible plan it lacks a library. An option that does nothing must not look like one
# that does.
_NOT_IN_RTX = {
    "timing_cache": "a timing cache: TensorRT-RTX chooses its kernels on the device, and times "
    "nothing while it builds",
    "optimisation_level": "an optimisation level: TensorRT-RTX builds the same plan at each one",
    "version_compatible": "a version-compatible plan: TensorRT-RTX has none, and builds again in "
    "seconds after an upgrade",
    "hardware_compatible": Sentence(
        "a hardware-compatible plan: TensorRT-RTX builds one whenever no ",
        Setting("targets"),
        " are given",
    ),
    "dla_core": "a DLA core: TensorRT-RTX builds for GPUs alone",
}


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """Settings of one build; None leaves a setting to the builder."""

    builder: str = typed(
        "tensorrt",
        "tensorrt: on the device. rtx: TensorRT-RTX, builds without a GPU.",
        kind=RegistryName(BUILDERS),
    )
    # Of rtx; none: a plan for every GPU from sm80 on.
    targets: tuple[str, ...] = typed(
        (), "GPUs to build for (rtx).", kind=Names("sm86,sm89"), flags=("--target",)
    )
    workspace_mb: int | None = typed(
        None, "MB for the builder.", kind=click.IntRange(1), flags=("--workspace",)
    )
    timing_cache: Path | None = typed(
        None, "Timings of earlier builds: read if it is there, and kept.", kind=FILE
    )
    optimisation_level: int | None = typed(None, "More: slower build.", kind=click.IntRange(0, 5))
    version_compatible: bool = typed(False, "Plan loads in later TensorRT versions.")
    hardware_compatible: bool = typed(False, "Plan runs on Ampere and newer GPUs.")
    dla_core: int | None = typed(None, "Run on this DLA core (Jetson).", kind=click.IntRange(0))
    # Off: fp32 tensors keep their 23 bits. TF32 would round them to the 10 bits of fp16, which is
    # not what the graph says.
    tf32: bool = False
    batch: tuple[int, int, int] | None = None  # min, opt, max; None: those of the metadata

    def __post_init__(self) -> None:
        if self.builder not in BUILDERS:
            raise UsageError(
                Setting("builder", repr(self.builder)), f": expected one of {', '.join(BUILDERS)}"
            )
        if self.builder == "rtx":
            self._refuse_what_rtx_lacks()
        elif self.targets:
            raise UsageError(
                Setting("targets", ",".join(self.targets)),
                ": TensorRT builds for the GPU of its own computer; leave ",
                Setting("targets"),
                " out and build on the device, or use ",
                Setting("builder", "rtx"),
            )
        self._check_targets()
        self._check_numbers()

    def _refuse_what_rtx_lacks(self) -> None:
        for name, reason in _NOT_IN_RTX.items():
            value = getattr(self, name)
            if value is not None and value is not False:  # level 0 and core 0 are requests
                raise UsageError(reason, "; leave it out, or use ", Setting("builder", "tensorrt"))

    def _check_targets(self) -> None:
        for target in self.targets:
            if not re.fullmatch(r"sm\d{2,3}", target):
                raise UsageError(
                    Setting("targets", target),
                    ": expected a compute capability such as sm86 (8.6) or sm120",
                )
        if len(set(self.targets)) < len(self.targets):
            raise UsageError(
                Setting("targets", ",".join(self.targets)), ": expected each of them once"
            )

    def _check_numbers(self) -> None:
        if self.workspace_mb is not None and self.workspace_mb < 1:
            raise UsageError(Setting("workspace_mb", self.workspace_mb), ": expected at least 1")
        if self.optimisation_level is not None and not 0 <= self.optimisation_level <= 5:
            raise UsageError(
                Setting("optimisation_level", self.optimisation_level), ": expected 0 to 5"
            )
        if self.dla_core is not None and self.dla_core < 0:
            raise UsageError(Setting("dla_core", self.dla_core), ": expected 0 or more")
        if self.batch is not None:
            low, likely, high = self.batch
            if not 1 <= low <= likely <= high:
                raise UsageError(Setting("batch", self.batch), ": expected 1 <= min <= opt <= max")
