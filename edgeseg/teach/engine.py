"""The long work of a project, in its child process: fit, update, and the graph that runs."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgeseg.config import FitConfig
from edgeseg.errors import EdgesegError
from edgeseg.fitting.options import Changes, FitOptions

if TYPE_CHECKING:
    from edgeseg.artefact.artefact import Artefact


def fit_model(
    images: Path, *, graph: Path | None, config: FitConfig, options: FitOptions, out: Path
) -> "Artefact":
    """Fit on a folder of good pictures, and write the artefact."""
    from edgeseg.artefact.artefact import save_artefact
    from edgeseg.data.camera import looked_at
    from edgeseg.data.datasets import open_dataset
    from edgeseg.fitting.fitting import fit

    # Of line3/good, people know line3.
    dataset = replace(open_dataset(images), name=images.resolve().parent.name)
    artefact = fit(dataset, looked_at(config, dataset, note=options.note), options)
    save_artefact(artefact, out)
    return artefact


def update_model(
    artefact: Path,
    *,
    graph: Path | None,
    more: Path,
    forget: Path | None,
    options: FitOptions,
    out: Path,
) -> "Artefact":
    """Add a folder of good pictures to a model, take others out, and write the artefact."""
    from edgeseg.artefact.artefact import load_artefact, save_artefact
    from edgeseg.data.datasets import open_dataset
    from edgeseg.fitting.update import update

    changes = Changes(
        more=open_dataset(more), forget=None if forget is None else open_dataset(forget)
    )
    changed = update(load_artefact(artefact, note=options.note), changes, options)
    save_artefact(changed, out)
    return changed


def write_graph(artefact: Path, *, graph: Path | None, out: Path) -> None:
    """Write the graph that runs an artefact, with its sidecar."""
    command = [sys.executable, "-m", "edgeseg", "export", str(artefact), "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
        raise EdgesegError(said[-1].removeprefix("Error: ") if said else "the export has failed")
