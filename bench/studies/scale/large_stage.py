"""One stage of a large model in a process of its own, so that its peak of memory is its own.

Run as `python -m edgeseg.bench.studies.scale.large_stage REQUEST.json`; the request
names the stage.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from edgeseg.bench.harness.machine import peak_mb
from edgeseg.errors import EdgesegError
from edgeseg.files import write_json


def export(request: dict[str, Any]) -> dict[str, Any]:
    """Export and verify a graph; its size on disk, with the weights beside it if it has any."""
    import torch

    from edgeseg.artefact.artefact import load_artefact
    from edgeseg.data.datasets import open_dataset
    from edgeseg.export.onnx_export import export_onnx
    from edgeseg.export.options import ExportOptions

    torch.set_num_threads(int(request["threads"]))
    artefact, out = load_artefact(Path(request["artefact"])), Path(request["graph"])
    options = ExportOptions(precision=request["precision"], allow_random_weights=True)
    started = time.perf_counter()
    good = open_dataset(Path(request["data"]))
    exported = export_onnx(artefact, out, options=options, good=good)
    files = [path for path in (out, out.with_name(f"{out.name}.data")) if path.is_file()]
    return {
        "seconds": time.perf_counter() - started,
        "file_mb": sum(path.stat().st_size for path in files) / 1e6,
        "report": exported.report["precision"],
        "agreement": [row.to_dict() for row in exported.agreements],
    }


def stream(request: dict[str, Any]) -> dict[str, Any]:
    """Score every test board as `edgeseg stream` does."""
    from edgeseg.runtime.stream import stream as command

    report_path = Path(request["result"]).with_name("stream-report.json")
    command.main(
        [
            *("--model", request["graph"], "--source", str(Path(request["data"], "test", "good"))),
            *("--backend", "cpu", "--threads", str(request["threads"]), "--status-every", "0"),
            *("--report", str(report_path), "--allow-random-weights"),
        ],
        standalone_mode=False,
    )
    report = json.loads(report_path.read_text(encoding="utf-8"))
    stages = report["latency_ms"]
    return {
        "frames": report["frames"]["scored"],
        "ms_per_frame": sum(stages[name]["mean"] for name in ("pre", "infer", "post")),
    }


def evaluate(request: dict[str, Any]) -> dict[str, Any]:
    """The metrics of the reference on the test boards."""
    import torch

    from edgeseg.api import load

    torch.set_num_threads(int(request["threads"]))
    result = load(request["artefact"]).evaluate(request["data"])
    return {**result.figures, "seconds": result.seconds}


STAGES = {"export": export, "stream": stream, "eval": evaluate}


if __name__ == "__main__":
    wanted = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    try:
        figures = STAGES[wanted["stage"]](wanted)
        write_json(Path(wanted["result"]), figures | {"peak_mb": peak_mb()})
    except EdgesegError as error:
        sys.exit(str(error))
