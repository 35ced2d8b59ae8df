"""Our own fit in a fresh process, for its seconds and its memory.

Run as `python -m edgeseg.bench.harness.fit_worker REQUEST.json RESULT.json`.
"""

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgeseg.base.errors import EdgesegError
from edgeseg.base.files import write_json
from edgeseg.bench.harness.machine import peak_mb
from edgeseg.bench.harness.processes import last_line
from edgeseg.bench.harness.units import Result
from edgeseg.config import FitConfig


@dataclass(frozen=True, kw_only=True)
class FitWorkerRequest:
    """What is fitted, with what, and where the artefact goes."""

    data: Path
    config: FitConfig
    weights: str | None
    threads: int
    artefact: Path

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        paths = {"data": str(self.data), "artefact": str(self.artefact)}
        return {**vars(self), **paths, "config": self.config.to_dict()}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "FitWorkerRequest":
        """Read what to_dict wrote."""
        return cls(
            data=Path(values["data"]),
            config=FitConfig.from_dict(values["config"]),
            weights=values["weights"],
            threads=values["threads"],
            artefact=Path(values["artefact"]),
        )


def fit_in_process(request: FitWorkerRequest, folder: Path) -> Result:
    """Start the process and return its figures."""
    asked, answer = folder / "fit_worker-request.json", folder / "fit_worker-result.json"
    write_json(asked, request.to_dict())
    words = [sys.executable, "-m", "edgeseg.bench.harness.fit_worker", str(asked), str(answer)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = last_line(done.stderr)
        raise EdgesegError(f"fit_worker of {request.data} failed in its process: {reason}")
    figures: Result = json.loads(answer.read_text(encoding="utf-8"))
    return figures


def run(request: FitWorkerRequest) -> Result:
    """Fit, save, and say how long it took and how much it needed."""
    from edgeseg.data.datasets import open_dataset

    dataset = open_dataset(request.data)
    import torch  # after a look at the data: it takes seconds

    from edgeseg.fitting.fitting import FitOptions, fit
    from edgeseg.model.artefact import save_artefact
    from edgeseg.model.parallel import THREADS_VARIABLE

    torch.set_num_threads(request.threads)
    os.environ[THREADS_VARIABLE] = str(request.threads)
    before = peak_mb()
    started = time.perf_counter()
    options = FitOptions(weights=request.weights, keep_moments=False)
    artefact = fit(dataset, request.config, options)
    save_artefact(artefact, request.artefact)
    return {
        "fit_s": time.perf_counter() - started,
        "base_mb": before,
        "peak_mb": peak_mb(),
        "images": len(dataset.train),
    }


if __name__ == "__main__":
    asked, answer = map(Path, sys.argv[1:])
    wanted = FitWorkerRequest.from_dict(json.loads(asked.read_text(encoding="utf-8")))
    try:
        write_json(answer, run(wanted))
    except EdgesegError as error:
        sys.exit(str(error))
