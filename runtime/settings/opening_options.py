"""Options for opening a model, the same for every command that runs one.

The help of the stream reads this module, so it loads nothing heavy.
"""

from dataclasses import dataclass
from pathlib import Path

import click

from edgeseg.base.options import Shared
from edgeseg.base.typed_options import same_as, takes, typed
from edgeseg.runtime.backends.choose import backend_names
from edgeseg.runtime.backends.session_options import AUTO, SessionOptions


@dataclass(frozen=True, kw_only=True)
class OpeningOptions:
    """The backend that runs a model, and whose models may run."""

    backend: str = typed(
        AUTO,
        "auto: TensorRT, else CUDA, else CPU, and says why.",
        kind=click.Choice(backend_names()),
    )
    threads: int | None = typed(None, "Processor threads; default: all cores.")
    spin: bool = typed(
        SessionOptions.spin,
        "Let ONNX Runtime's idle threads watch for the next frame, awake.",
        flags=("--spin/--no-spin",),
    )
    allow_random_weights: bool = typed(False, "Run a model that was never trained.")
    trust: tuple[Path, ...] = same_as(Shared, "trust")

    def session(self) -> SessionOptions:
        """Give what `open_session` takes."""
        return SessionOptions(
            backend=self.backend,
            threads=self.threads,
            spin=self.spin,
            trust=self.trust,
            allow_random_weights=self.allow_random_weights,
        )


opening_options = takes(
    "opening", OpeningOptions, made=lambda **values: OpeningOptions(**values).session()
)
