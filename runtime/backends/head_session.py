"""Run a split model: the backbone by any function, the head here.

head --backbone_of, unless a function is given--> HeadSession
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import RuntimeFailure
from edgeseg.runtime.backends.base import Outputs, Session
from edgeseg.runtime.backends.model_file import file_metadata, first_line, graph_source
from edgeseg.runtime.backends.onnxruntime_session import open_onnxruntime
from edgeseg.runtime.backends.session_options import RunBackbone, SessionOptions
from edgeseg.runtime.backends.split_facts import SplitFacts, TapShape, backbone_of, read_split


class HeadSession(Session):
    """The head of a split model in ONNX Runtime, behind a backbone that runs elsewhere."""

    on_processor = True

    def __init__(self, model: Path, options: SessionOptions) -> None:
        self.metadata = file_metadata(model, files=options.files)
        facts = read_split(model, files=options.files)
        if facts is None or facts.half != "head":
            raise RuntimeFailure(f"{model}: not the head of `edgeseg export --split`")
        self._facts = facts
        source = graph_source(model, self.metadata, options.files)
        self._session = open_onnxruntime(source, options, path=model)
        given = options.backbone
        self._backbone = given or _other_half(model, facts, options)
        where = "a given function" if given else "ONNX Runtime CPU"
        count = options.thread_count
        threads = f"{count} thread{'s' if count > 1 else ''}"
        self.backend = f"backbone in {where}, head in ONNX Runtime CPU, {threads}"
        self.spin = options.spin
        self._outputs = list(self.metadata.outputs)

    def _run(self, frames_nhwc: NDArray[np.uint8]) -> Outputs:
        taps = named_taps(self._backbone(frames_nhwc), self._facts.taps)
        try:
            values = self._session.run(self._outputs, taps)
        except Exception as error:  # ONNX Runtime's own classes have no common base
            raise RuntimeFailure(
                f"{self.backend}: inference failed ({first_line(error)})"
            ) from error
        return dict(zip(self._outputs, values, strict=True))


def _other_half(model: Path, facts: SplitFacts, options: SessionOptions) -> RunBackbone:
    """Run the backbone in ONNX Runtime: what an accelerator does later, in fp32."""
    session = open_onnxruntime(backbone_of(model, facts), options)
    names = [tap.name for tap in facts.taps]

    def run(frames_nhwc: NDArray[np.uint8]) -> Sequence[NDArray[Any]]:
        values: Sequence[NDArray[Any]] = session.run(
            names, {facts.pixels.name: facts.normalise(frames_nhwc)}
        )
        return values

    return run


def named_taps(
    values: Mapping[str, NDArray[Any]] | Sequence[NDArray[Any]], taps: tuple[TapShape, ...]
) -> dict[str, NDArray[np.float32]]:
    """Name and check what a backbone gave: a mapping, or arrays in the order of its outputs."""
    names = [tap.name for tap in taps]
    if not isinstance(values, Mapping):
        if len(values) != len(taps):
            raise RuntimeFailure(
                f"the backbone gave {len(values)} tensors, expected {len(taps)}: {', '.join(names)}"
            )
        values = dict(zip(names, values, strict=True))
    if missing := sorted(set(names) - set(values)):
        raise RuntimeFailure(
            f"the backbone gave {', '.join(map(str, values))}, expected also {', '.join(missing)}"
        )
    return {tap.name: _tap(np.asarray(values[tap.name]), tap) for tap in taps}


def _tap(values: NDArray[Any], tap: TapShape) -> NDArray[np.float32]:
    if values.shape != tap.shape:
        raise RuntimeFailure(
            f"the backbone gave {tap.name} as {values.shape}, expected {tap.shape}: frames, "
            "channels, height, width; transpose what comes with channels last"
        )
    if not np.issubdtype(values.dtype, np.floating):
        raise RuntimeFailure(
            f"the backbone gave {tap.name} as {values.dtype}, expected real numbers: let the tool "
            "dequantise, or compute (values - zero_point) * scale"
        )
    return np.ascontiguousarray(values, np.float32)
