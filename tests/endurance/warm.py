"""Load what commands load, before the forks: each of them would take seconds to do it."""

import importlib
import os
from contextlib import suppress

from edgeseg.cli.group import COMMANDS

_HEAVY = (
    "torch", "torchvision", "onnx", "onnxscript", "onnxruntime", "torch.onnx", "safetensors.torch",
    "edgeseg.fitting.fitting", "edgeseg.export.onnx_export", "edgeseg.runtime.run.run",
    "edgeseg.runtime.scoring.detector", "edgeseg.export.accuracy", "edgeseg.model.artefact",
)  # fmt: skip


def warm() -> None:
    """Import, and compute nothing: threads would not survive a fork."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for name in _HEAVY:
        importlib.import_module(name)
    with suppress(ImportError):  # an extra, which the stream needs
        importlib.import_module("paho.mqtt.client")
    for place in COMMANDS.values():
        importlib.import_module(place)
    import torch

    torch.set_num_threads(1)
