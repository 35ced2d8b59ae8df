"""What everything behind the backbone costs: the whole graph against the graph cut at its taps.

Both run in turns in the same kind of session. The cut graph has to give its feature maps out, which
the whole one does not, so the share of the head comes out a little too small.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper

from edgeseg.bench.harness.sampling import Ratio, ratio_of
from edgeseg.bench.harness.tabular import column
from edgeseg.bench.latency.report import SPIN
from edgeseg.bench.latency.turns import Candidate, Schedule, Timing, measure_latency
from edgeseg.errors import ExportError
from edgeseg.export.graph import ancestors, checked
from edgeseg.progress import Progress, silent
from edgeseg.runtime.backends.session_options import SessionOptions

_ALONE = ", backbone alone"
_KERNEL = "embedding.kernel_"  # of the projection of each tap
# What stands between a tap and its projection: the head's own pooling, and rounding.
_BETWEEN = ("AveragePool", "QuantizeLinear", "DequantizeLinear", "Cast")


@dataclass(frozen=True, kw_only=True)
class HeadRow:
    """One file in one backend: the frame, the backbone alone, and what is left."""

    model: str = field(metadata=column("model"))
    backend: str = field(metadata=column("backend"))
    arithmetic: str = field(metadata=column("arithmetic"))
    # Older results did not say it.
    spin: dict[str, str | None] = field(default_factory=dict, metadata=column("{}"))
    frame_ms: float = field(metadata=column("frame ms", digits=2))
    backbone_ms: float = field(metadata=column("backbone ms", digits=2))
    head: str = field(metadata=column("head's share of the frame (95 %)"))
    head_share: float  # not shown: the same as a number


def at_taps(proto: ModelProto) -> ModelProto:
    """The part of a graph up to the feature maps of its backbone, which it gives out."""
    graph = proto.graph
    makers = {name: node for node in graph.node for name in node.output}
    projections = [node for node in graph.node if _is_projection(node)]
    if not projections:
        raise ExportError("the graph has no projection of features; it is not one of edgeseg's")
    taps = list(dict.fromkeys(_tap(node.input[0], makers) for node in projections))
    made = ModelProto()
    made.CopyFrom(proto)
    wanted = {name for tap in taps for node in ancestors(proto, tap) for name in node.output}
    kept = [node for node in graph.node if wanted.intersection(node.output)]
    used = {name for node in kept for name in node.input}
    del made.graph.node[:], made.graph.output[:]
    made.graph.node.extend(kept)
    for number, tap in enumerate(taps):
        name = f"tap_{number}"
        made.graph.node.append(helper.make_node("Cast", [tap], [name], to=TensorProto.FLOAT))
        made.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
    constants = [tensor for tensor in graph.initializer if tensor.name in used]
    del made.graph.initializer[:]
    made.graph.initializer.extend(constants)
    return checked(made)


def _is_projection(node: NodeProto) -> bool:
    return node.op_type == "Conv" and node.input[1].startswith(_KERNEL)


def _tap(tensor: str, makers: dict[str, NodeProto]) -> str:
    while tensor in makers and makers[tensor].op_type in _BETWEEN:
        tensor = makers[tensor].input[0]
    return tensor


def head_rows(
    files: dict[str, Path],
    *,
    backends: Sequence[str],
    schedule: Schedule,
    options: SessionOptions,
    progress: Progress = silent,
) -> Iterator[HeadRow]:
    """Every file in every backend, all in the same rounds."""
    candidates = []
    for name, path in files.items():
        cut = path.with_suffix(".taps.onnx")
        cut.write_bytes(at_taps(onnx.load(path)).SerializeToString())
        for backend in backends:
            candidates += [
                Candidate(name=f"{name}{part}", path=file, backend=backend)
                for part, file in (("", path), (_ALONE, cut))
            ]
    timings = measure_latency(candidates, schedule=schedule, options=options, progress=progress)
    for whole, cut_timing in zip(timings[::2], timings[1::2], strict=True):
        yield _row(whole, cut_timing)


def _row(whole: Timing, backbone: Timing) -> HeadRow:
    host, alone = (timing.to_dict(whole)["host_ms"]["p50"] for timing in (whole, backbone))
    left = ratio_of(backbone.host_ms, whole.host_ms)
    # What is not the backbone: the interval turns round.
    share = Ratio(value=1 - left.value, low=1 - left.high, high=1 - left.low)
    name, _, _ = whole.key.rpartition(" on ")
    return HeadRow(
        model=name,
        backend=whole.backend,
        arithmetic=whole.arithmetic,
        spin={"spin": SPIN[whole.spin]},
        frame_ms=float(host),
        backbone_ms=float(alone),
        head=share.text,
        head_share=share.value,
    )
