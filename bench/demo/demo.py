"""Every step of a first afternoon, on data that needs no camera and no download."""

import json
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from edgeseg.base.errors import EdgesegError

# The embedded backbone: its weights come with the package index.
BACKBONE = "efficientnet_lite0"
STREAM_FRAMES = 300


class Demo:
    """Runs the commands that a user would type, and prints each of them."""

    def __init__(self, out: Path, data: Path | None):
        self.out = out
        out.mkdir(parents=True, exist_ok=True)
        self.synthetic = data is None
        self.data = data or out / "data"
        self.artefact = out / "part.edgeseg"
        self.fp32, self.int8 = out / "part.onnx", out / "part-int8.onnx"
        self.models = {"edge, fp32": self.fp32, "edge, int8": self.int8}
        self.latency = out / "latency.json"
        self.evaluated = False
        self.plan: dict[str, Any] | None = None
        if self.synthetic and not self.data.exists():
            self._edgeseg("synthesize", self.data, "--train", 60, "--test-good", 20)

    def fit_and_evaluate(self, backbone: str) -> None:
        self._edgeseg("fit", self.data, "--out", self.artefact, "--backbone", backbone)
        if (self.data / "test").is_dir():
            pictures = self.out / "pictures"
            arguments = ("--json", self.out / "eval.json", "--pictures", pictures, "--store")
            self._edgeseg("eval", self.artefact, self.data, *arguments)
            self.evaluated = True

    def export(self) -> None:
        labelled = ("--data", self.data) if self.evaluated else ()
        good = ("--calibrate", self.data)
        self._edgeseg("export", self.artefact, "--out", self.fp32, *good, *labelled)
        int8 = ("--out", self.int8, "--precision", "int8")
        self._edgeseg("export", self.artefact, *int8, *good, *labelled)
        if find_spec("tensorrt_rtx") is None:
            click.echo("TensorRT-RTX is not installed: no plan (pip install 'edgeseg[trt-rtx]')")
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
        if not self.evaluated:
            return
        artefact, graph = self.out / "paper.edgeseg", self.out / "paper.onnx"
        settings = ("--backbone", backbone, "--preset", "paper", "--no-moments")
        self._edgeseg("fit", self.data, "--out", artefact, *settings)
        self._edgeseg("export", artefact, "--out", graph, "--data", self.data)
        self.models["paper, fp32"] = graph

    def stream(self) -> None:
        # A data set without a camera: its own test images, in order, stand in for the line.
        source = f"synthetic:frames={STREAM_FRAMES},defects=0.1" if self.synthetic else self.data
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
