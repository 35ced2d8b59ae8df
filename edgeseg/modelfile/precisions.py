"""The registry of precisions of exported models; export/precision makes them."""

from dataclasses import dataclass

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Setting


@dataclass(frozen=True, kw_only=True)
class Precision:
    """A precision that a graph computes in, as its file states it."""

    name: str  # in metadata, reports and options
    meaning: str  # for people
    arithmetic: str = "float32"  # what backends compute in where the file itself does not round
    needs_images: bool = False  # good ones, to calibrate on
    folds_scale: bool = True  # of the input into the first layer
    needs_rounding: bool = False  # that CPUs do not do: they run the graph as another device would
    runs_on_dla: bool = True  # NVIDIA's DLA cores


PRECISIONS = {
    precision.name: precision
    for precision in (
        Precision(name="fp32", meaning="as the model was fitted", runs_on_dla=False),
        Precision(
            name="fp16",
            meaning="half the size, for GPUs",
            folds_scale=False,  # half weights divided by 58 would lose digits
            needs_rounding=True,
        ),
        Precision(
            name="bf16",
            meaning="for processors that have bfloat16, in OpenVINO",
            arithmetic="bfloat16",
            needs_images=True,
            runs_on_dla=False,
        ),
        Precision(name="int8", meaning="smallest and fastest", needs_images=True),
    )
}
EXACT = "fp32"  # every other one is held against it


def runs_on(backend: str, *, arithmetic: str, spin: bool | None) -> str:
    """Describe what milliseconds were measured with: backend, floating point, spinning threads."""
    words = {True: ", spin", False: ", no spin", None: ""}[spin]
    return f"{backend}, {arithmetic}{words}"


def precision_spec(name: str) -> Precision:
    """Return the registry entry of a precision."""
    if name not in PRECISIONS:
        raise UsageError(Setting("precision", repr(name)), f": expected one of {tuple(PRECISIONS)}")
    return PRECISIONS[name]
