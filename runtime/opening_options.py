"""How a model is opened, as people type it: the same for every command that runs one.

Light: the help of the stream reads this.
"""

from pathlib import Path

import click

from edgeseg.options import gathered, params_of, trust_option
from edgeseg.runtime.backends.choose import backend_names
from edgeseg.runtime.backends.session_options import AUTO, SessionOptions

_OPTIONS = (
    click.option(
        "--backend",
        type=click.Choice(backend_names()),
        default=AUTO,
        show_default=True,
        help="auto: TensorRT, else CUDA, else CPU, and says why.",
    ),
    click.option("--threads", type=int, help="Processor threads; default: all cores."),
    click.option(
        "--spin/--no-spin",
        default=SessionOptions.spin,
        show_default=True,
        help="Let ONNX Runtime's idle threads watch for the next frame, awake.",
    ),
    click.option(
        "--allow-random-weights", is_flag=True, help="Run a model that was never trained."
    ),
    trust_option,
)


def _opening(
    backend: str,
    threads: int | None,
    spin: bool,
    allow_random_weights: bool,
    trust: tuple[Path, ...],
) -> SessionOptions:
    return SessionOptions(
        backend=backend,
        threads=threads,
        spin=spin,
        trust=trust,
        allow_random_weights=allow_random_weights,
    )


opening_options = gathered("opening", _opening, *_OPTIONS)


def opening_params() -> list[click.Parameter]:
    """The same for the stream, whose options are a list."""
    return params_of(*_OPTIONS)
