"""Fitted models and their traced graphs, made once for all tests of the export.

Tracing takes seconds, so `traced` remembers; every caller gets a copy that it may change.
"""

import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from numpy.typing import NDArray
from onnx import ModelProto
from torch import nn

from edgeseg.config import FitConfig
from edgeseg.data.datasets import open_dataset
from edgeseg.data.synthetic.scene import KINDS, SceneGenerator
from edgeseg.export import onnx_export as api
from edgeseg.export.graph import GraphOptions, build_graph
from edgeseg.export.precision.tolerances import Tolerance
from edgeseg.fitting.fitting import FitOptions, fit
from edgeseg.model.artefact import Artefact, save_artefact
from edgeseg.model.backbones import backbone_spec
from edgeseg.model.feature_extractor import Backbone
from edgeseg.model.reference import ReferenceModel
from tests.support.small_models import write_plate

SIZE_HW = (64, 64)
EDGE = FitConfig(backbone="resnet18", size_hw=SIZE_HW, k=16, rank=10, folds=3, false_alarm_rate=0.1)
# Two layers and eight convolutions: the shortest way to a graph with all that a graph can have.
SHORT = EDGE.with_options({"layers": (1, 2), "stride": 4})
SHOWN = SHORT.with_options({"map_layers": (1,)})  # with a map of its own
OPTIONS = GraphOptions()
# What int8 may cost here: twelve layers that no one trained are coarser in it than real ones.
COARSE = Tolerance(
    max_error=0.8,
    mean_error=0.2,
    min_rank_correlation=0.0,
    max_flips=0.5,
    head_error=0.05,
    max_loss=0.5,
)
IMPOSSIBLE = Tolerance(max_error=0.0, mean_error=0.0, min_rank_correlation=1.1, max_flips=0.0)
_FOLDER = tempfile.TemporaryDirectory(prefix="edgeseg-tests-")


@cache
def data(size_hw: tuple[int, int] = SIZE_HW) -> Path:
    """A synthetic data set in the layout of MVTec AD."""
    folder = Path(_FOLDER.name) / f"plate{size_hw[0]}x{size_hw[1]}"
    return write_plate(folder, size_hw=size_hw, train=8)


@cache
def weights(name: str) -> Path:
    """A checkpoint that no one trained, but whose BatchNorm does something."""
    path = Path(_FOLDER.name) / f"{name}.pth"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        backbone = Backbone(backbone_spec(name), layers=(1, 2, 3))
        for module in backbone.modules():
            if isinstance(module, nn.Conv2d):  # features as large behind it as in front of it
                nn.init.kaiming_normal_(module.weight, mode="fan_in", nonlinearity="relu")
            elif isinstance(module, nn.BatchNorm2d):
                nn.init.normal_(module.running_mean, 0.0, 0.2)
                nn.init.uniform_(module.running_var, 0.6, 1.4)
                nn.init.uniform_(module.weight, 0.7, 1.3)
                nn.init.normal_(module.bias, 0.0, 0.2)
    torch.save(backbone.state_dict(), path)
    return path


@cache
def artefact(config: FitConfig = EDGE) -> Artefact:
    """A model fitted on `data`."""
    options = FitOptions(weights=str(weights(config.backbone)), batch_size=4)
    return fit(open_dataset(data(config.size_hw)), config, options)


def saved(folder: Path) -> Path:
    """The small model as bottle.edgeseg in a folder."""
    path = folder / "bottle.edgeseg"
    save_artefact(artefact(SHORT), path)
    return path


def names(folder: Path) -> list[str]:
    """What is in a folder."""
    return sorted(item.name for item in folder.iterdir())


@cache
def _traced(config: FitConfig, options: GraphOptions) -> ModelProto:
    return build_graph(artefact(config).model(), options, size_hw=config.size_hw)


def traced(config: FitConfig = EDGE, options: GraphOptions = OPTIONS) -> ModelProto:
    """The fp32 graph of a model."""
    proto = ModelProto()
    proto.CopyFrom(_traced(config, options))
    return proto


def remember_traces(monkeypatch: pytest.MonkeyPatch, config: FitConfig) -> None:
    """Let `export_onnx` take the graphs of this model from `traced`."""

    def build(_: ReferenceModel, options: GraphOptions, *, size_hw: tuple[int, int]) -> ModelProto:
        assert size_hw == config.size_hw
        return traced(config, options)

    monkeypatch.setattr(api, "build_graph", build)


def frames(count: int = 6, *, size_hw: tuple[int, int] = SIZE_HW) -> NDArray[np.uint8]:
    """Good parts, broken ones, and what no camera shows (N, H, W, 3): noise, black and white."""
    scene = SceneGenerator(size_hw=size_hw, seed=3)
    noise = np.random.default_rng(0).integers(0, 256, (*size_hw, 3), dtype=np.uint8)
    good = [scene.good(index) for index in range(4)]
    bad = [scene.defective(index, kind)[0] for index, kind in enumerate(KINDS)]
    odd = [noise, np.zeros_like(noise), np.full_like(noise, 255)]
    mixed = [good[0], bad[0], noise, good[1], bad[1], *odd[1:], *good[2:], *bad[2:]]
    return np.stack(mixed[:count])


def good_frames(count: int = 8, *, size_hw: tuple[int, int] = SIZE_HW) -> NDArray[np.uint8]:
    """The good parts that a model is calibrated on (N, H, W, 3)."""
    scene = SceneGenerator(size_hw=size_hw)
    return np.stack([scene.good(index) for index in range(count)])


def run(graph: ModelProto | Path, images: NDArray[np.uint8]) -> dict[str, NDArray[np.float32]]:
    """All outputs of ONNX Runtime by name, for one batch."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    source = str(graph) if isinstance(graph, Path) else graph.SerializeToString()
    session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {"frames": images}), strict=True))


def reference(config: FitConfig, images: NDArray[np.uint8]) -> dict[str, NDArray[np.float32]]:
    """The same outputs of the reference forward, one frame at a time."""
    model = artefact(config).model()
    with torch.no_grad():
        rows = [model(torch.from_numpy(image[None])) for image in images]
    values = [torch.cat(parts).numpy() for parts in zip(*rows, strict=True)]
    return dict(zip(model.outputs, values, strict=True))
