"""What may be asked of an export; read by the command line, so it loads nothing heavy."""

from dataclasses import dataclass

from edgeseg.contract.precisions import EXACT, Precision, precision_spec
from edgeseg.errors import UsageError
from edgeseg.runtime.backends.session_options import AUTO

TARGETS = ("cpu", "trt")  # int8 graphs differ
# In which a rounded graph can be fitted again: `auto` is the first that computes as the file says.
SESSIONS = (AUTO, "cpu", "openvino")


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """What kind of graph is wanted."""

    precision: str = EXACT
    target: str = "cpu"
    backend: str = AUTO  # whose numbers a rounded file's threshold is of
    batch: tuple[int, int, int] = (1, 1, 1)  # min, opt, max
    grid_output: bool = True
    allow_random_weights: bool = False
    verify: bool = True

    def __post_init__(self) -> None:
        precision = precision_spec(self.precision)
        if self.target not in TARGETS:
            raise UsageError(f"target={self.target!r}: expected one of {TARGETS}")
        if self.backend not in SESSIONS:
            raise UsageError(f"backend={self.backend!r}: expected one of {SESSIONS}")
        if self.backend != AUTO:
            self._check_backend(precision)

    def _check_backend(self, precision: Precision) -> None:
        if self.precision == EXACT:
            raise UsageError(
                f"backend={self.backend}: the session in which a rounded file is calibrated, and "
                f"precision={EXACT} is the same in all; leave it out"
            )
        if self.target == "trt":
            raise UsageError(
                f"backend={self.backend}: a file for TensorRT does not run there; leave it out, "
                "and run `edgeseg calibrate` on the device"
            )
        if precision.arithmetic != "float32" and self.backend != "openvino":
            raise UsageError(
                f"backend={self.backend}: does not compute in {precision.arithmetic}; "
                f"precision={self.precision} runs in OpenVINO alone"
            )
