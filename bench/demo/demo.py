"""Every step of a first afternoon, on data that needs no camera and no download."""

import json
import os
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from edgeseg.base.errors import EdgesegError
from edgeseg.data.datasets import open_dataset
from edgeseg.data.planted.kinds import KINDS
from edgeseg.data.samples import read_picture
from edgeseg.vision.images import write_image

STREAM_FRAMES = 300


class Demo:
    """Runs the commands that a user would type, and prints each of them."""

    def __init__(self, out: Path, data: Path | None):
        self.out = out
        self.synthetic = data is None
        self.data = data or out / "data"
        if data is not None:
            open_dataset(data)  # a wrong folder is told before anything is made
        out.mkdir(parents=True, exist_ok=True)
        self.artefact = out / "part.edgeseg"
        self.fp32, self.int8 = out / "part.onnx", out / "part-int8.onnx"
        self.models = {"edge, fp32": self.fp32, "edge, int8": self.int8}
        self.latency = out / "latency.json"
        self.planted = out / "planted"
        self.threshold: dict[str, Any] = {}  # what `edgeseg threshold` says of it
        self.plan: dict[str, Any] | None = None
        if self.synthetic and not self.data.exists():
            self._edgeseg("synthesize", self.data, "--train", 60, "--test-good", 20)
        self.dataset = open_dataset(self.data)
        self.labelled = bool(self.dataset.test)

    def fit_and_evaluate(self, backbone: str) -> None:
        """Fit, and show what is found: on labelled pictures or, without any, on planted defects."""
        self._edgeseg("fit", self.data, "--out", self.artefact, "--backbone", backbone)
        self.threshold = json.loads(self._edgeseg("threshold", self.artefact, "--json"))
        pictures = self.out / "pictures"
        if self.labelled:
            arguments = ("--json", self.out / "eval.json", "--pictures", pictures, "--store")
            self._edgeseg("eval", self.artefact, self.data, *arguments)
        elif self._plant():
            self._edgeseg("predict", self.artefact, self.planted, "--out", pictures)

    def _plant(self) -> bool:
        """Write a copy of a good picture with each kind of defect, and one as it is."""
        from edgeseg.fitting.planting import copies_of

        samples = self.dataset.train[: len(KINDS) + 1]
        frames = [read_picture(sample) for sample in samples]
        alike = [frame for frame in frames if frame.shape == frames[0].shape]
        each = -(-len(KINDS) // len(alike))
        copies = [copy for _, copy in copies_of(alike, per_image=each, seed=0)]
        for copy in {copy.kind: copy for copy in reversed(copies)}.values():
            write_image(self.planted / f"{copy.kind}.png", copy.image_hwc)
        write_image(self.planted / "good.png", alike[-1])
        return bool(copies)

    def export(self) -> None:
        labelled = ("--data", self.data) if self.labelled else ()
        good = ("--calibrate", self.data)
        self._edgeseg("export", self.artefact, "--out", self.fp32, *good, *labelled)
        int8 = ("--out", self.int8, "--precision", "int8")
        self._edgeseg("export", self.artefact, *int8, *good, *labelled)
        if find_spec("tensorrt_rtx") is None:
            return
        plan = ("--out", self.out / "part-fp16.onnx", "--precision", "fp16", *good)
        printed = self._edgeseg(
            "export",
            self.artefact,
            *plan,
            "--trt",
            "--builder",
            "rtx",
            "--target",
            "sm86",
            "--json",
        )
        self.plan = json.loads(printed)

    def compare(self, backbone: str) -> None:
        """Fit and export the published method too, if there are labels to compare on."""
        if not self.labelled:
            return
        artefact, graph = self.out / "paper.edgeseg", self.out / "paper.onnx"
        settings = ("--backbone", backbone, "--preset", "paper", "--no-moments")
        self._edgeseg("fit", self.data, "--out", artefact, *settings)
        self._edgeseg("export", artefact, "--out", graph, "--data", self.data)
        self.models["paper, fp32"] = graph

    def stream(self) -> None:
        source = f"synthetic:frames={STREAM_FRAMES},defects=0.1"
        if not self.synthetic:
            # Without a camera: its own test pictures, in order, stand in for the line.
            samples = self.dataset.test or self.dataset.train
            folder = Path(os.path.commonpath([sample.image.parent for sample in samples]))
            source = str(folder / "**" / "*")
        arguments = ("--source", source, "--report", self.latency, "--events", self.out / "e.jsonl")
        self._edgeseg("stream", "--model", self.fp32, *arguments)

    def report(self, *, seconds: float) -> Path:
        from edgeseg.bench.demo.demo_page import write_demo_report

        return write_demo_report(
            out=self.out,
            models=self.models,
            latency=self.latency,
            plan=self.plan,
            seconds=seconds,
            threshold=self.threshold,
            synthetic=self.synthetic,
        )

    def _edgeseg(self, *arguments: object) -> str:
        words = [str(word) for word in arguments]
        click.secho(f"\n$ edgeseg {shlex.join(words)}", bold=True)
        command = [sys.executable, "-m", "edgeseg", *words]
        result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if result.returncode:
            raise EdgesegError(f"the demo stopped: `edgeseg {words[0]}` failed, see above")
        if "--json" not in words[-1:]:
            click.echo(result.stdout, nl=False)
        return result.stdout
