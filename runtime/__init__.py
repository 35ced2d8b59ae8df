"""Run an exported model on a device: camera frames in, verdicts and latency out, without torch."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from edgeseg.base.errors import EdgesegError
from edgeseg.base.progress import Note, ignore
from edgeseg.runtime.backends.session_options import AUTO, SessionOptions

if TYPE_CHECKING:
    from edgeseg.runtime.scoring.detector import Detector


def open(  # noqa: A001  # as people say it: edgeseg.runtime.open("part.onnx")
    model: str | os.PathLike[str],
    *,
    backend: str = AUTO,
    threads: int | None = None,
    spin: bool = SessionOptions.spin,
    trust: Sequence[str | os.PathLike[str]] = (),
    threshold: float | None = None,
    allow_random_weights: bool = False,
    note: Note = ignore,
) -> "Detector":
    """Load a .onnx or .plan file of `edgeseg export`; use it as a context manager, or close it.

    "auto" takes TensorRT, else CUDA, else the CPU; `note=print` tells which, and why.
    `threads` are all cores unless given; `spin` keeps them awake for the next frame.
    `threshold` replaces the model's own. `trust` are public keys: a file that none of them has
    signed is refused, and so is a version below the one that ran here.

        with edgeseg.runtime.open("part.onnx") as detector:
            result = detector.predict(frame_hwc)  # .anomalous, .score, .map_hw, .regions
    """
    from edgeseg.runtime.backends.ran_versions import remember_ran
    from edgeseg.runtime.scoring.detector import open_detector

    detector = open_detector(
        Path(model),
        SessionOptions(
            backend=backend,
            threads=threads,
            spin=spin,
            trust=tuple(map(Path, trust)),
            allow_random_weights=allow_random_weights,
        ),
        threshold=threshold,
        note=note,
    )
    try:
        if detector.statement is not None:
            remember_ran(detector.statement)
    except EdgesegError:
        detector.close()
        raise
    return detector
