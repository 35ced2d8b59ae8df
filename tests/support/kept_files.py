"""Make the files of this version that every later one must read: tests/kept/VERSION.

    python -m tests.support.kept_files FOLDER

A model of 64x64 pixels and 4x4 cells fitted on the four pictures of good/ (mobilenet_v3_small up to
its first tap, random weights), two shards and a checkpoint of the same fit, its graph in every
precision, and what each of them says of three frames. backbone.onnx, with other weights that nobody
has trained, is what tests/teach/test_engine.py fits through.
"""

import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray

from edgeseg.config import FitConfig
from edgeseg.data.datasets import open_dataset
from edgeseg.export.backbone_export import export_backbone
from edgeseg.export.onnx_export import export_onnx
from edgeseg.export.options import ExportOptions
from edgeseg.export.precision.exact_session import exact_session
from edgeseg.fitting.fitting import fit
from edgeseg.fitting.options import Checkpoints, FitOptions, Shard
from edgeseg.fitting.parallel.shards import write_shard
from edgeseg.model.artefact import load_artefact, save_artefact
from edgeseg.model.weights import load_backbone, weight_tensors
from edgeseg.runtime.backends.choose import open_session
from edgeseg.runtime.backends.session_options import SessionOptions
from edgeseg.vision.images import write_image
from tests.support.small_models import frames

SIZE_HW = (64, 64)
CONFIG = FitConfig(
    backbone="mobilenet_v3_small",
    layers=(1,),
    size_hw=SIZE_HW,
    stride=16,
    context=1,
    k=8,
    rank=5,
    pool=3,
    share=2,
    ridge=0.01,
    ridge_unit="absolute",
    map_layers=(),
    promise="conformal",
    sigma=4.0,
    top=3,
    folds=2,
    false_alarm_rate=0.2,
)
BACKBONE = replace(
    CONFIG,
    stride=8,
    k=16,
    rank=10,
    top=10,
    folds=3,
    ridge=0.1,
    ridge_unit="mean_square",
    false_alarm_rate=0.1,
)
OPTIONS = FitOptions(weights="random", batch_size=2, planted=4)
GRAPHS = {
    "part-fp32": ExportOptions(),
    "part-fp16": ExportOptions(precision="fp16"),
    "part-int8": ExportOptions(precision="int8"),
    "part-int8-trt": ExportOptions(precision="int8", target="trt"),
}
EVERY = 8  # pixel of the maps is kept


class _Stopped(Exception):
    """As if the power had failed."""


def make_kept_files(folder: Path) -> None:
    """Write all of them into an empty folder."""
    for index, picture in enumerate(frames(4, size_hw=SIZE_HW)):
        path = folder / "good" / f"{index:03d}.png"
        write_image(path, picture)
        os.utime(path, (0, 0))  # histories name the newest change
    data = open_dataset(folder / "good")
    save_artefact(fit(data, CONFIG, OPTIONS), folder / "part.edgeseg")
    for index in range(2):
        path = folder / f"part-{index}-of-2.shard"
        write_shard(data, CONFIG, OPTIONS, shard=Shard(index=index, count=2), path=path)
    _write_checkpoint(folder)
    for name, options in GRAPHS.items():
        export_onnx(
            load_artefact(folder / "part.edgeseg"),
            folder / f"{name}.onnx",
            options=replace(options, verify=False, allow_random_weights=True),
            artefact_path=folder / "part.edgeseg",
            good=data if options.precision == "int8" else None,
        )
    _write_backbone(folder / "backbone.onnx")
    np.savez_compressed(folder / "numbers.npz", **_numbers(folder))


def _write_checkpoint(folder: Path) -> None:
    """Stop a fit after the first of its two batches."""

    def fragile(items: Iterable[Any], *, length: int, label: str) -> Iterator[Any]:
        for done, item in enumerate(items):
            if label == "Fitting" and done == 1:
                raise _Stopped
            yield item

    checkpoints = Checkpoints(folder=folder / "part.parts", seconds=0)
    options = replace(OPTIONS, checkpoints=checkpoints, progress=fragile)
    try:
        fit(open_dataset(folder / "good"), CONFIG, options)
    except _Stopped:
        return
    raise RuntimeError("the fit was to stop after its first batch")


def _write_backbone(out: Path) -> None:
    network, _ = load_backbone(BACKBONE.backbone, layers=(1, 2, 3), weights="random", seed=5)
    with tempfile.TemporaryDirectory() as place:
        weights = Path(place) / f"{BACKBONE.backbone}.pth"
        torch.save(dict(weight_tensors(network)), weights)
        export_backbone(BACKBONE, out, weights=str(weights))


def _numbers(folder: Path) -> dict[str, NDArray[Any]]:
    """What the artefact and its graphs say of three frames."""
    seen = frames(3, size_hw=SIZE_HW, first=20)
    with torch.no_grad():
        maps, scores, grids = load_artefact(folder / "part.edgeseg").model()(torch.from_numpy(seen))
    numbers = {
        "frames": seen,
        "reference.map": maps[:, ::EVERY, ::EVERY].numpy(),
        "reference.score": scores.numpy(),
        "reference.grid": grids.numpy(),
    }
    for name in GRAPHS:
        found, values = graph_numbers(folder / f"{name}.onnx", seen)
        numbers[f"{name}.map"] = found[:, ::EVERY, ::EVERY]
        numbers[f"{name}.score"] = values
    return numbers


def graph_numbers(
    path: Path, seen: NDArray[np.uint8]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Maps and scores of a graph; one for TensorRT is computed as TensorRT does."""
    options = SessionOptions(backend="cpu", allow_random_weights=True)
    with open_session(path, options) as session:
        if session.metadata.target == "trt":  # on processors without VNNI its sums overflow
            exact = exact_session(onnx.load(path))
            runs = [exact.run(["map", "score"], {"frames": frame[None]}) for frame in seen]
            maps, scores = (np.concatenate(values) for values in zip(*runs, strict=True))
            return maps, scores
        predictions = session.infer(seen)
    return (
        np.stack([prediction.map_hw for prediction in predictions]),
        np.array([prediction.score for prediction in predictions], np.float32),
    )


if __name__ == "__main__":
    make_kept_files(Path(sys.argv[1]))
