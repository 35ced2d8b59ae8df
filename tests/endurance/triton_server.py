"""Serve a model repository of `edgeseg export --triton` by NVIDIA's own server, and compare scores.

    python -m venv /tmp/served && /tmp/served/bin/pip install nvidia-pytriton onnxruntime
    python -m tests.endurance.triton_server --packages /tmp/served/lib/python3.11/site-packages

That package holds the server (schema, scheduler, warm-up, batches, HTTP) for any processor, but no
backend for ONNX: `onnxruntime` is here a few lines for its Python backend. So the repository is
read and served as it is, and what computes is ONNX Runtime of another package.
"""

import json
import os
import shutil
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import numpy as np
import onnxruntime
from numpy.typing import NDArray

from edgeseg.export.triton_repository import write_triton
from tests.endurance.report import markdown, write_rows
from tests.endurance.scratch import scratch
from tests.support import HANGS_S
from tests.support.small_graphs import write_graph

_BATCHES = {"single": (1, 1, 1), "pair": (2, 2, 2), "batched": (1, 2, 4)}
_AT_ONCE = 48
_STUB = "triton_python_backend_stub"
_BACKEND = """
import json, os
import numpy as np, onnxruntime, triton_python_backend_utils as triton

class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        return config

    def initialize(self, args):
        self.config = json.loads(args["model_config"])
        folder = os.path.join("MODELS", args["model_name"], args["model_version"])
        self.session = onnxruntime.InferenceSession(
            os.path.join(folder, self.config["default_model_filename"]))

    def execute(self, requests):
        frames = [triton.get_input_tensor_by_name(one, "frames").as_numpy() for one in requests]
        batched = self.config["max_batch_size"] > 0
        return [answer for group in ([frames] if batched else [[one] for one in frames])
                for answer in self.answers(group)]

    def answers(self, group):
        print("BATCH", sum(map(len, group)), len(group), flush=True)
        names = [one["name"] for one in self.config["output"]]
        values = self.session.run(names, {"frames": np.concatenate(group)})
        ends = np.cumsum([len(one) for one in group])[:-1]
        parts = zip(*(np.split(value, ends) for value in values)) if len(group) > 1 else [values]
        for part in parts:
            yield triton.InferenceResponse(
                [triton.Tensor(name, value) for name, value in zip(names, part)])
"""


def _free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


def _lay_backends(server: Path, folder: Path, version: str) -> None:
    """The server's Python backend, its stub for this Python, and the stand-in."""
    shutil.copytree(server / "backends" / "python", folder / "python")  # it refuses links
    shutil.copy(server / "python_backend_stubs" / version / _STUB, folder / "python")
    (folder / "onnxruntime").mkdir()
    models = str(folder.parent / "models")
    (folder / "onnxruntime" / "model.py").write_text(_BACKEND.replace("MODELS", models))


@contextmanager
def serving(packages: Path, folder: Path) -> Iterator[str]:
    """The server over `folder/models`, ready; its address."""
    server, port = packages / "pytriton" / "tritonserver", _free_port()
    version = packages.parent.name.removeprefix("python")
    _lay_backends(server, folder / "backends", version)
    libraries = [packages / "nvidia_pytriton.libs", *_python_libraries(packages)]
    places = {"model-repository": folder / "models", "backend-directory": folder / "backends"}
    options = [f"--{name}={value}" for name, value in places.items()]
    options += ["--http-address=127.0.0.1", f"--http-port={port}"]
    options += ["--allow-grpc=false", "--allow-metrics=false"]
    environment = {
        "PATH": f"{packages.parents[2] / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(packages),
        "LD_LIBRARY_PATH": os.pathsep.join(map(str, libraries)),
    }
    with (folder / "said").open("w") as said:
        program = subprocess.Popen(
            [server / "bin" / "tritonserver", *options],
            env=os.environ | environment,
            stdout=said,
            stderr=subprocess.STDOUT,
        )
    try:
        address = f"http://127.0.0.1:{port}/v2"
        _wait_ready(program, address, folder / "said")
        yield address
    finally:
        program.terminate()
        program.wait(HANGS_S)


def _python_libraries(packages: Path) -> list[Path]:
    """Where the shared library of the Python of that environment is, by its own word."""
    code = "import sysconfig; print(sysconfig.get_config_var('LIBDIR'))"
    python = packages.parents[2] / "bin" / "python"
    return [Path(subprocess.check_output([python, "-c", code], text=True).strip())]


def _wait_ready(program: "subprocess.Popen[bytes]", address: str, said: Path) -> None:
    deadline_s = time.monotonic() + HANGS_S
    while program.poll() is None and time.monotonic() < deadline_s:
        try:
            urllib.request.urlopen(f"{address}/health/ready").close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    failed = [line for line in said.read_text().splitlines() if "failed" in line]
    raise SystemExit(f"the server does not serve: {failed}")


def ask(address: str, model: str, frames: NDArray[np.uint8]) -> dict[str, NDArray[Any]]:
    """The answer to one request, by the name of the output."""
    told = {"name": "frames", "datatype": "UINT8", "shape": frames.shape}
    body = json.dumps({"inputs": [told | {"data": frames.ravel().tolist()}]}).encode()
    request = urllib.request.Request(f"{address}/models/{model}/infer", body)
    with urllib.request.urlopen(request) as answer:
        outputs = json.load(answer)["outputs"]
    return {one["name"]: np.array(one["data"]).reshape(one["shape"]) for one in outputs}


def apart(graph: Path, frames: NDArray[np.uint8], found: dict[str, NDArray[Any]]) -> float:
    """How far any output is from the graph's own, as a share of its largest value."""
    session = onnxruntime.InferenceSession(graph)
    names = [output.name for output in session.get_outputs()]
    expected = dict(zip(names, session.run(names, {"frames": frames}), strict=True))
    if found.keys() != expected.keys():
        raise SystemExit(f"{graph.stem}: served {sorted(found)}, expected {sorted(expected)}")
    pairs = ((found[name], expected[name]) for name in names)
    return max(
        float(np.abs(one.reshape(other.shape) - other).max() / np.abs(other).max())
        for one, other in pairs
    )


def at_once(address: str, graph: Path, frames: NDArray[np.uint8]) -> float:
    """Single frames of many callers, which the server may put together."""
    found: dict[int, dict[str, NDArray[Any]]] = {}

    def call(index: int) -> None:
        found[index] = ask(address, graph.stem, frames[index][None])

    threads = [threading.Thread(target=call, args=(index,)) for index in range(len(frames))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(found) != len(frames):
        raise SystemExit(f"{graph.stem}: {len(found)} of {len(frames)} were answered")
    return max(apart(graph, frames[index][None], one) for index, one in found.items())


def rows_of(packages: Path, folder: Path) -> tuple[str, list[dict[str, Any]]]:
    """The server's version; every kind of batch, and callers at once."""
    random, graphs, sizes = np.random.default_rng(0), {}, {}
    for name, batch in _BATCHES.items():
        graphs[name] = folder / f"{name}.onnx"
        metadata = write_graph(graphs[name], batch=batch)
        sizes[name] = (batch[2], *metadata.size_hw, 3)
        write_triton(graphs[name], folder / "models", metadata=metadata, name=name)
    rows: list[dict[str, Any]] = []
    with serving(packages, folder) as address:
        version = json.load(urllib.request.urlopen(address))["version"]
        for name, size in sizes.items():
            frames = random.integers(0, 256, size, np.uint8)
            found = apart(graphs[name], frames, ask(address, name, frames))
            rows.append({"model": name, "frames": len(frames), "requests": 1, "apart": found})
        frames = random.integers(0, 256, (_AT_ONCE, *sizes["batched"][1:]), np.uint8)
        found = at_once(address, graphs["batched"], frames)
        told = {"model": "batched", "frames": _AT_ONCE, "requests": _AT_ONCE, "apart": found}
        rows.append(told)
    runs = [line.split() for line in (folder / "said").read_text().splitlines() if "BATCH" in line]
    most = max(int(words[-1]) for words in runs)
    return version, [row | {"put_together": min(most, row["requests"])} for row in rows]


@click.command(context_settings={"show_default": True})
@click.option("--packages", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--out", type=click.Path(path_type=Path), default=Path("bench/results/triton"))
def main(packages: Path, out: Path) -> None:
    """Serve small graphs by Triton, and fail if an output differs."""
    with scratch("triton") as folder:
        version, rows = rows_of(packages, folder)
    write_rows(out, "served", title=f"Served by Triton {version}", rows=rows)
    click.echo(markdown(rows))
    if max(row["apart"] for row in rows) > 1e-6:  # of float32
        raise SystemExit("FAILED: an output differs")


if __name__ == "__main__":
    main()
