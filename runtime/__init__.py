"""Run an exported model on a device: camera frames in, verdicts and latency out, without torch."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from edgeseg.base.errors import EdgesegError
from edgeseg.base.progress import Note, ignore
from edgeseg.runtime.backends.session_options import AUTO, RunBackbone, SessionOptions

__all__ = ["Detector", "open"]

if TYPE_CHECKING:
    from edgeseg.runtime.scoring.detector import Detector
else:

    def __getattr__(name: str) -> object:
        if name != "Detector":
            raise AttributeError(f"module 'edgeseg.runtime' has no attribute {name!r}")
        from edgeseg.runtime.scoring.detector import Detector

        return Detector


def open(  # noqa: A001  # as people say it: edgeseg.runtime.open("part.onnx")
    model: str | os.PathLike[str],
    *,
    backend: str = AUTO,
    threads: int | None = None,
    spin: bool = SessionOptions.spin,
    trust: Sequence[str | os.PathLike[str]] = (),
    threshold: float | None = None,
    allow_random_weights: bool = False,
    backbone: RunBackbone | None = None,
    note: Note = ignore,
) -> "Detector":
    """Load a .onnx or .plan file of `edgeseg export`; use it as a context manager, or close it.

    model: the file; its sidecar, .json, belongs beside it.
    backend: "auto" takes TensorRT, else CUDA, else the CPU; or "tensorrt", "cuda", "cpu",
        "openvino".
    threads: how many a processor uses; all cores unless given.
    spin: keep idle threads awake for the next frame.
    trust: public keys; a file that none of them has signed is refused, and so is a version below
        the one that ran here.
    threshold: replaces the model's own.
    allow_random_weights: also run a model that means nothing, for a test.
    backbone: for the head of `edgeseg export --split`: the function that runs the other half, from
        uint8 frames (N, H, W, 3) to its taps; ONNX Runtime runs part.backbone.onnx unless given.
    note: is told which backend runs, and why; `print` will do.

        with edgeseg.runtime.open("part.onnx") as detector:
            result = detector.predict(frame, channels="bgr")  # or a path, a list, a folder
            print(result.anomalous, result.score, [region.box_xywh for region in result.regions])
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
            backbone=backbone,
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
