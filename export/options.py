"""Options of an export; the command line reads them, so this module loads nothing heavy."""

from dataclasses import dataclass

import click

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Setting
from edgeseg.base.options import RegistryName
from edgeseg.base.typed_options import typed
from edgeseg.modelfile.precisions import EXACT, PRECISIONS, Precision, precision_spec
from edgeseg.runtime.backends.session_options import AUTO

TARGETS = ("cpu", "trt")  # int8 graphs differ
# In which a rounded graph can be fitted again: `auto` is the first that computes as the file says.
SESSIONS = (AUTO, "cpu", "openvino")


def _describe(precision: Precision) -> str:
    needs = ", needs --calibrate" if precision.needs_images else ""
    return f"{precision.name}: {precision.meaning}{needs}."


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """The kind of graph to export."""

    precision: str = typed(
        EXACT,
        f"Precision of the graph. {' '.join(map(_describe, PRECISIONS.values()))}",
        kind=RegistryName(PRECISIONS),
    )
    target: str = typed(
        "cpu",
        "Form of int8: for processors, or for TensorRT. With --trt the default is trt.",
        kind=click.Choice(TARGETS),
        flags=("--for",),
    )
    # Whose numbers a rounded file's threshold is of.
    backend: str = typed(
        AUTO,
        "Backend that will run a bf16 or int8 file: with --calibrate the fit, the threshold and "
        "the drift baseline are measured in it. auto: ONNX Runtime, and OpenVINO for bf16.",
        kind=click.Choice(SESSIONS),
    )
    batch: tuple[int, int, int] = (1, 1, 1)  # min, opt, max
    grid_output: bool = typed(
        True, "Leave out the coarse map, which the drift watch needs.", flags=("--no-grid",)
    )
    split: bool = typed(
        False,
        "Also write the halves for an accelerator: NAME.backbone.onnx, convolutions of fixed "
        "shapes, for its tools, and NAME.head.onnx, which runs here. They are verified together.",
    )
    verify: bool = typed(
        True, "Do not compare the graph with the fitted model.", flags=("--no-verify",)
    )
    allow_random_weights: bool = typed(
        False, "Export a model whose weights are random, to measure its speed."
    )

    def __post_init__(self) -> None:
        precision = precision_spec(self.precision)
        if self.target not in TARGETS:
            raise UsageError(Setting("target", repr(self.target)), f": expected one of {TARGETS}")
        if self.backend not in SESSIONS:
            raise UsageError(
                Setting("backend", repr(self.backend)), f": expected one of {SESSIONS}"
            )
        if self.backend != AUTO:
            self._check_backend(precision)
        if self.split:
            self._check_split()

    def _check_split(self) -> None:
        if self.precision != EXACT:
            raise UsageError(
                Setting("split", True),
                ": an accelerator's tools round by themselves, from ",
                Setting("precision", EXACT),
                "; leave the precision out",
            )
        if self.batch[0] != self.batch[2]:
            raise UsageError(
                Setting("split", True),
                f": accelerators take one size of a batch, and this is any from {self.batch[0]} to "
                f"{self.batch[2]}; give one number",
            )

    def _check_backend(self, precision: Precision) -> None:
        if self.precision == EXACT:
            raise UsageError(
                Setting("backend", self.backend),
                ": the session in which a rounded file is calibrated, and ",
                Setting("precision", EXACT),
                " is the same in all; leave it out",
            )
        if self.target == "trt":
            raise UsageError(
                Setting("backend", self.backend),
                ": a file for TensorRT does not run there; leave it out, and run `edgeseg "
                "calibrate` on the device",
            )
        if precision.arithmetic != "float32" and self.backend != "openvino":
            raise UsageError(
                Setting("backend", self.backend),
                f": does not compute in {precision.arithmetic}; ",
                Setting("precision", self.precision),
                " runs in OpenVINO alone",
            )
