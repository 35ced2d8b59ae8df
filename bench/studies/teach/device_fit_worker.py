"""One fit in a fresh process, through a graph without torch or by torch: seconds and memory.

Run as `python -m edgeseg.bench.studies.teach.device_fit_worker REQUEST.json`.
"""

import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgeseg.bench.harness.machine import peak_mb
from edgeseg.errors import EdgesegError
from edgeseg.files import write_json

BLOCKED = ("torch", "torchvision", "onnx")


def run(request: dict[str, Any]) -> dict[str, Any]:
    """Fit on the first images of a dataset, save, and say what it cost."""
    graph = request["graph"]
    if graph is not None:
        for name in BLOCKED:  # as where they are not installed
            sys.modules[name] = None  # type: ignore[assignment]
    from edgeseg.artefact.artefact import save_artefact
    from edgeseg.config import FitConfig
    from edgeseg.data.datasets import open_dataset
    from edgeseg.fitting.fitting import fit_in
    from edgeseg.fitting.options import FitOptions

    dataset = open_dataset(Path(request["data"]))
    dataset = replace(dataset, train=dataset.train[: request["count"]])
    config, out = FitConfig(backbone=request["backbone"]), Path(request["artefact"])
    started, used = time.perf_counter(), time.process_time()
    space = _through(Path(graph), config) if graph is not None else _by_torch(config)
    save_artefact(fit_in(space, dataset, FitOptions()), out)
    figures = {
        "seconds": time.perf_counter() - started,
        "processor_s": time.process_time() - used,
        "images": len(dataset.train),
    }
    if graph is not None:
        figures["write_s"] = _written(Path(graph), out)
    return figures | {"peak_mb": peak_mb()}


def _through(graph: Path, config: Any) -> Any:
    from edgeseg.fitting.graph.backbone_graph import BackboneGraph

    return BackboneGraph(graph).space(config)


def _by_torch(config: Any) -> Any:
    from edgeseg.fitting.feature_space import FeatureSpace
    from edgeseg.progress import ignore

    return FeatureSpace.load(config, weights=None, note=ignore)


def _written(graph: Path, artefact: Path) -> float:
    """Seconds to write and verify the model that runs."""
    from edgeseg.teach.engine import write_graph

    started = time.perf_counter()
    write_graph(artefact, graph=graph, out=artefact.with_suffix(".onnx"))
    return time.perf_counter() - started


if __name__ == "__main__":
    wanted = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    try:
        write_json(Path(wanted["result"]), run(wanted))
    except EdgesegError as error:
        sys.exit(str(error))
