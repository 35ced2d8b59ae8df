"""Our own fit in a fresh process, for its seconds and its memory.

Run as `python -m edgeseg.bench.harness.fit_worker REQUEST.json`; the request names the dataset, the
settings, where the artefact goes and where the figures go.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from edgeseg.base.errors import EdgesegError
from edgeseg.base.files import write_json
from edgeseg.bench.harness.machine import peak_mb
from edgeseg.bench.harness.processes import last_line


def fit_in_process(request: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Start the process and return its figures."""
    asked, answer = folder / "fit_worker-request.json", folder / "fit_worker-result.json"
    write_json(asked, request | {"result": str(answer)})
    words = [sys.executable, "-m", "edgeseg.bench.harness.fit_worker", str(asked)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = last_line(done.stderr)
        raise EdgesegError(f"fit_worker of {request['data']} failed in its process: {reason}")
    figures: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
    return figures


def run(request: dict[str, Any]) -> dict[str, Any]:
    """Fit, save, and say how long it took and how much it needed."""
    from edgeseg.config import FitConfig
    from edgeseg.data.datasets import open_dataset

    dataset = open_dataset(Path(request["data"]))
    import torch  # after a look at the data: it takes seconds

    from edgeseg.fitting.fitting import FitOptions, fit
    from edgeseg.model.artefact import save_artefact
    from edgeseg.model.parallel import THREADS_VARIABLE

    torch.set_num_threads(int(request["threads"]))
    os.environ[THREADS_VARIABLE] = str(request["threads"])
    before = peak_mb()
    started = time.perf_counter()
    config = FitConfig.from_dict(request["config"])
    options = FitOptions(weights=request["weights"], keep_moments=False)
    artefact = fit(dataset, config, options)
    save_artefact(artefact, Path(request["artefact"]))
    return {
        "fit_s": time.perf_counter() - started,
        "base_mb": before,
        "peak_mb": peak_mb(),
        "images": len(dataset.train),
    }


if __name__ == "__main__":
    wanted = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    try:
        write_json(Path(wanted["result"]), run(wanted))
    except EdgesegError as error:
        sys.exit(str(error))
