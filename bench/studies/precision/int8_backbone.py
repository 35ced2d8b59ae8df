"""Where a backbone breaks in int8: ways of rounding it, one at a time.

    python -m edgeseg.bench.studies.precision.int8_backbone mvtec_ad/cable \
        --backbone mobilenet_v3_small

Noise is what rounding adds to the embedding of good images, as a share of how much they vary around
their mean at each cell: above 1 the model sees more of the rounding than of the parts. The rest is
of the model fitted again through the rounded graph, with an exact head.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import click
import numpy as np
import torch
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto
from onnxruntime.quantization.calibrate import CalibrationMethod

from edgeseg.artefact.artefact import Artefact, load_artefact, save_artefact
from edgeseg.artefact.model_metadata import describe_model
from edgeseg.bench.harness.accuracy import open_limited
from edgeseg.bench.harness.tabular import column, table_of
from edgeseg.bench.latency.report import runnable
from edgeseg.bench.latency.turns import Candidate, Schedule, measure_latency
from edgeseg.config import FitConfig
from edgeseg.contract.metadata import ModelMetadata
from edgeseg.data.datasets import Dataset
from edgeseg.evaluation.evaluate import evaluate
from edgeseg.export.calibration_frames import calibration_frames
from edgeseg.export.graph import GraphOptions, ancestors, build_graph, set_metadata
from edgeseg.export.precision.int8 import (
    AS_SHIPPED,
    Quantiser,
    Rounding,
    first_layers,
    quantise_form,
)
from edgeseg.export.precision.refit import EMBEDDING, cut, embedder, refitted
from edgeseg.export.sessions import installed_runs
from edgeseg.files import write_json
from edgeseg.fitting.feature_space import with_context
from edgeseg.fitting.fitting import FitOptions, fit
from edgeseg.model.predictor import Embedder
from edgeseg.model.reference import ReferenceModel
from edgeseg.options import FILE, FOLDER, note
from edgeseg.progress import ignore, silent
from edgeseg.runtime.backends.session_options import SessionOptions

Arrays = tuple[NDArray[np.float32], NDArray[np.float32]]  # maps and scores
_REACH = 1.0  # of int8 embeddings, where only time is asked for
_LOOKED_AT = 24  # good images whose embeddings are compared
_FRAMES = 32  # that ranges are taken from: histograms keep all activations of them at once


def _makers_of(proto: ModelProto, kinds: Collection[str]) -> list[NodeProto]:
    """Convolutions whose output goes into one of these operations."""
    readers = {name: node for node in proto.graph.node for name in node.input}
    return [
        node
        for node in proto.graph.node
        if node.op_type == "Conv" and _kind(readers.get(node.output[0])) in kinds
    ]


def _kind(node: NodeProto | None) -> str:
    return "" if node is None else str(node.op_type)


def before_hard_swish(proto: ModelProto) -> list[str]:
    """Convolutions in front of a hard-swish, whose negative side is a narrow dip."""
    return [node.name for node in _makers_of(proto, ("HardSwish",))]


def squeeze_excite(proto: ModelProto) -> list[str]:
    """The two layers that scale channels by the mean of the picture."""
    fully = ("fc1.weight", "fc2.weight")
    nodes = [n for n in proto.graph.node if n.op_type == "Conv" and n.input[1].endswith(fully)]
    outputs = {node.output[0] for node in nodes}
    relus = [n for n in proto.graph.node if n.op_type == "Relu" and n.input[0] in outputs]
    return [node.name for node in (*nodes, *relus)]


def depthwise(proto: ModelProto) -> list[str]:
    """Convolutions of each channel by itself: one range for channels of very different size."""
    return [node.name for node in proto.graph.node if _groups(node) > 1]


def _groups(node: NodeProto) -> int:
    return next((int(item.i) for item in node.attribute if item.name == "group"), 1)


def all_but_pointwise(proto: ModelProto) -> list[str]:
    """All but the 1x1 convolutions that do most of the work."""
    return several(depthwise, squeeze_excite, stem(1), additions)(proto)


def additions(proto: ModelProto) -> list[str]:
    """The sums of residual blocks, and of the parts of the embedding."""
    return [node.name for node in proto.graph.node if node.op_type == "Add"]


def sum_of_projections(proto: ModelProto) -> list[str]:
    """The sum of the projections alone."""
    return [n.name for n in proto.graph.node if n.op_type == "Add" and _is_head(n, proto)]


def projections(proto: ModelProto) -> list[str]:
    """The projection of each tap, and the sum of the projections."""
    convolutions = [node.name for node in proto.graph.node if _is_projection(node)]
    return [*convolutions, *sum_of_projections(proto)]


def _is_projection(node: NodeProto) -> bool:
    return node.op_type == "Conv" and node.input[1].startswith("embedding.kernel_")


def _is_head(node: NodeProto, proto: ModelProto) -> bool:
    """Whether what is added comes from a projection."""
    return any(_is_projection(each) for name in node.input for each in ancestors(proto, name))


def residual_sums(proto: ModelProto) -> list[str]:
    """The sums of residual blocks alone."""
    return [n.name for n in proto.graph.node if n.op_type == "Add" and not _is_head(n, proto)]


def stem(count: int) -> Callable[[ModelProto], list[str]]:
    """The first convolutions, and what is between them."""
    return lambda proto: first_layers(proto, count)


def several(*parts: Callable[[ModelProto], list[str]]) -> Callable[[ModelProto], list[str]]:
    """All of these together."""
    return lambda proto: [name for part in parts for name in part(proto)]


VARIANTS: dict[str, Rounding | None] = {
    "fp32": None,
    "as shipped": AS_SHIPPED,
    "ranges: percentile 99.99": Rounding(ranges=CalibrationMethod.Percentile),
    "ranges: percentile 99.9": Rounding(ranges=CalibrationMethod.Percentile, percentile=99.9),
    "ranges: entropy": Rounding(ranges=CalibrationMethod.Entropy),
    "weights: eight bits": Rounding(seven_bits=False),
    "weights: one scale a layer": Rounding(per_channel=False),
    "fp32: squeeze-excite": Rounding(spared=squeeze_excite),
    "fp32: before hard-swish": Rounding(spared=before_hard_swish),
    "fp32: depthwise": Rounding(spared=depthwise),
    "fp32: first layer": Rounding(spared=stem(1)),
    "fp32: first two layers": Rounding(spared=stem(2)),
    "fp32: first block": Rounding(spared=stem(5)),
    "fp32: first two blocks": Rounding(spared=stem(8)),
    "fp32: squeeze-excite, depthwise": Rounding(spared=several(squeeze_excite, depthwise)),
    "fp32: residual sums": Rounding(spared=residual_sums),
    "fp32: sum of the projections": Rounding(spared=sum_of_projections),
    "fp32: projections and their sum": Rounding(spared=projections),
    "fp32: all sums": Rounding(spared=additions),
    "fp32: all but 1x1": Rounding(spared=all_but_pointwise),
}


@dataclass(frozen=True, kw_only=True)
class Row:
    """One way of rounding on one category."""

    category: str = field(metadata=column("category"))
    variant: str = field(metadata=column("rounding"))
    noise: float = field(metadata=column("noise / variation", digits=4, better="low"))
    pro: float | None = field(metadata=column("PRO", better="high"))
    image_auroc: float | None = field(metadata=column("image AUROC", better="high"))
    recall: float | None = field(metadata=column("recall"))
    times: dict[str, float] = field(
        metadata=column("{}", digits=2, better="low"), default_factory=dict
    )


def timed(files: dict[str, Path], *, rounds: int, threads: int) -> dict[str, dict[str, float]]:
    """Milliseconds of the whole graphs, by way of rounding: all in the same rounds."""
    candidates = [
        Candidate(name=name, path=path, backend=backend)
        for name, path in files.items()
        for backend in runnable(("auto",))
    ]
    options = SessionOptions(threads=threads)
    timings = measure_latency(candidates, schedule=Schedule(rounds=rounds), options=options)
    found: dict[str, dict[str, float]] = {name: {} for name in files}
    for candidate, timing in zip(candidates, timings, strict=True):
        cells = found[candidate.name]
        cells[f"p50 ms {candidate.backend}"] = float(np.median(timing.host_ms))
        cells[f"processor ms {candidate.backend}"] = float(np.median(timing.processor_ms))
    return found


def embedding_of(proto: ModelProto, metadata: ModelMetadata, folder: Path) -> Embedder:
    """The rounded graph up to its embedding, in ONNX Runtime as a stream opens it."""
    probe = cut(proto)
    set_metadata(probe, metadata)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "probe.onnx"
    path.write_bytes(probe.SerializeToString())
    runs = installed_runs(
        path, precision="int8", target="cpu", batch=(1, 1, 1), outputs=(EMBEDDING,)
    )
    return embedder(runs["ONNX Runtime"]())


def noise(model: ReferenceModel, embed: Embedder, images: NDArray[np.uint8]) -> float:
    """What rounding changes of embeddings, as a share of how they vary."""
    changed = spread = 0.0
    for image in images:
        exact = model.embeddings(image[None])  # (1, k, P)
        changed += float(np.square(embed(image[None]) - exact).sum())
        spread += float(np.square(exact[0].T - model.mean.numpy()).sum())
    return changed / spread


def variant_rows(
    artefact: Artefact, dataset: Dataset, variants: Sequence[str], *, folder: Path, accuracy: bool
) -> Iterator[Row]:
    """Every way of rounding on one category."""
    config, model = artefact.config, artefact.model()
    graph = build_graph(model, GraphOptions(), size_hw=config.size_hw)
    images = calibration_frames(dataset, config)
    metadata = describe_model(
        artefact,
        artefact_sha256="",
        precision="int8",
        target="cpu",
        batch=(1, 1, 1),
        outputs=["map", "score", "grid"],
    )
    for name in variants:
        rounding = VARIANTS[name]
        frames = images[:: -(-len(images) // _FRAMES)]
        proto = graph
        if rounding is not None:
            proto = Quantiser(graph, frames, target="cpu", rounding=rounding).quantise()
        whole = ModelProto()
        whole.CopyFrom(proto)
        whole = quantise_form(whole, largest=_REACH)
        set_metadata(whole, metadata)
        graph_file(folder, name).write_bytes(whole.SerializeToString())
        embed = embedding_of(proto, metadata, folder)
        row = Row(
            category=dataset.name,
            variant=name,
            noise=noise(model, embed, images[:_LOOKED_AT]),
            pro=None,
            image_auroc=None,
            recall=None,
        )
        yield _judged(row, artefact, dataset, embed) if accuracy else row


def graph_file(folder: Path, variant: str) -> Path:
    """Where the whole graph of a way of rounding is, for timing: its map means nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{re.sub('[^a-z0-9]+', '-', variant)}.onnx"


def _judged(row: Row, artefact: Artefact, dataset: Dataset, embed: Embedder) -> Row:
    """The model fitted again through the rounded graph, on the test images."""
    fitted = refitted(artefact, embed, dataset, note=ignore, progress=silent)
    head, calibration = fitted.head(), fitted.calibration

    def predict(frames: NDArray[np.uint8]) -> Arrays:
        embedded = np.concatenate([embed(frame[None]) for frame in frames])
        return head.judge(embedded.reshape(len(frames), -1, *head.windows.grid_hw))

    evaluation = evaluate(
        predict,
        dataset,
        size_hw=artefact.config.size_hw,
        threshold=calibration.score_threshold,
        pixel_threshold=calibration.pixel_threshold,
        threshold_method=calibration.method,
    )
    return replace(
        row,
        pro=evaluation.pro,
        image_auroc=evaluation.image_auroc,
        recall=evaluation.recall,
    )


@click.command()
@click.argument("data", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--backbone", default="mobilenet_v3_small", show_default=True)
@click.option("--variant", "variants", multiple=True, type=click.Choice(tuple(VARIANTS)))
@click.option("--noise-only", is_flag=True, help="Do not fit again and test: seconds a variant.")
@click.option("--rounds", type=click.IntRange(0), default=0, help="Of timing; 0: none.")
@click.option("--weights", type=click.Choice(("random",)), help="Without real ones: a rehearsal.")
@click.option("--limit", type=click.IntRange(2), help="Images of each kind, for a rehearsal.")
@click.option("--size", type=int, default=FitConfig.size_hw[0], show_default=True)
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True)
@click.option("--models", type=FOLDER, default="int8-models", show_default=True, help="Fits.")
@click.option("--out", type=FILE, help="JSON with all rows.")
def main(
    data: tuple[Path, ...],
    backbone: str,
    variants: tuple[str, ...],
    noise_only: bool,
    rounds: int,
    weights: str | None,
    limit: int | None,
    size: int,
    threads: int,
    models: Path,
    out: Path | None,
) -> None:
    """Round a backbone in every way of VARIANTS on the categories in DATA."""
    torch.set_num_threads(threads)
    config = with_context(FitConfig(backbone=backbone, size_hw=(size, size)))
    measured: list[Row] = []
    for path in data:
        dataset = open_limited(path, limit=limit)
        file = models / f"{dataset.name}-{backbone}.edgeseg"
        if not file.is_file() or load_artefact(file).config != config:
            options = FitOptions(weights=weights, keep_moments=False)
            save_artefact(fit(dataset, config, options), file)
        wanted = variants or tuple(VARIANTS)
        artefact = load_artefact(file)
        for row in variant_rows(artefact, dataset, wanted, folder=models, accuracy=not noise_only):
            measured.append(row)
            note(f"{row.category}, {row.variant}: noise {row.noise:.4f}")
    if rounds:  # of the last category's graphs: time depends on the category not at all
        files = {name: graph_file(models, name) for name in variants or VARIANTS}
        times = timed(files, rounds=rounds, threads=threads)
        measured = [replace(row, times=times[row.variant]) for row in measured]
    click.echo(table_of(f"{backbone} in int8", measured).markdown())
    if out is not None:
        write_json(out, [asdict(row) for row in measured])
        note(f"wrote {out}")


if __name__ == "__main__":
    main()
