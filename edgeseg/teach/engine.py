"""The long work of a project, in its child process: fit, update, ignore, and the graph that runs.

All of it goes through a backbone's graph in the session of this computer, without torch and onnx.
Where no graph is named and none is at hand, one is made, if torch is installed.
"""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgeseg.config import FitConfig
from edgeseg.errors import EdgesegError
from edgeseg.files import temporary_folder
from edgeseg.fitting.options import Changes, FitOptions

if TYPE_CHECKING:
    from edgeseg.artefact.artefact import Artefact
    from edgeseg.contract.geometry import Polygon
    from edgeseg.device.backbone_graph import BackboneGraph


def fit_model(
    images: Path,
    *,
    graph: Path | None,
    config: FitConfig,
    options: FitOptions,
    out: Path,
    reference: Path | None = None,
) -> "Artefact":
    """Fit on a folder of good pictures, and write the artefact.

    A graph that is named brings its own settings, as far as it is made of them. Where parts are
    followed, places are named at the part of `reference`; None: of the first picture.
    """
    from edgeseg.artefact.artefact import save_artefact
    from edgeseg.data.camera import looked_at
    from edgeseg.data.datasets import open_dataset
    from edgeseg.device.backbone_graph import BackboneGraph
    from edgeseg.fitting.fitting import fit_in

    # Of line3/good, people know line3.
    dataset = replace(open_dataset(images), name=images.resolve().parent.name)
    backbone = BackboneGraph(graph or _at_hand(config, options))
    config = looked_at(
        backbone.adapted(config),
        dataset,
        reference=reference,
        note=options.note,
        max_pixels=options.max_pixels,
    )
    artefact = fit_in(backbone.space(config), dataset, options)
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
    model = load_artefact(artefact, note=options.note)
    through = _graph_of(model, graph, options).embed
    changed = update(model, changes, replace(options, through=through))
    save_artefact(changed, out)
    return changed


def ignore_regions(
    artefact: Path, *, regions: Sequence["Polygon"], options: FitOptions, out: Path
) -> "Artefact":
    """Leave regions out of a model, take its threshold from the rest, and write the artefact."""
    from edgeseg.artefact.artefact import load_artefact, save_artefact
    from edgeseg.fitting.ignoring import ignoring

    model = load_artefact(artefact, note=options.note)
    all_of_them = dict.fromkeys((*model.config.geometry.uncounted, *regions))
    changed = ignoring(model, list(all_of_them), options=options)
    save_artefact(changed, out)
    return changed


def write_graph(artefact: Path, *, graph: Path | None, out: Path) -> None:
    """Write the graph that runs an artefact, with its sidecar."""
    from edgeseg.artefact.artefact import load_artefact
    from edgeseg.device.model_writing import write_model
    from edgeseg.files import file_sha256

    model = replace(load_artefact(artefact), moments=None)
    backbone = _graph_of(model, graph, FitOptions())
    write_model(model, backbone, out, artefact_sha256=file_sha256(artefact))


def _graph_of(model: "Artefact", graph: Path | None, options: FitOptions) -> "BackboneGraph":
    """The graph that a model was fitted through, or one that equals it."""
    from edgeseg.device.at_hand import graph_of, graph_of_model

    path = graph or graph_of(model) or _at_hand(model.config, options)
    return graph_of_model(model, path)


def _at_hand(config: FitConfig, options: FitOptions) -> Path:
    """A graph of these settings: there already, or made now."""
    from edgeseg.device.at_hand import cache_path, graph_for, missing

    found = graph_for(config)
    if found is not None:
        return found
    if importlib.util.find_spec("torch") is None:
        raise missing(config)
    path = cache_path(config)
    options.note(f"making the graph of {config.backbone} for these settings, once")
    with temporary_folder(path.parent, name=path.stem) as folder:
        settings = folder / "settings.json"
        settings.write_text(json.dumps(_plain(config).to_dict()), encoding="utf-8")
        command = [sys.executable, "-m", "edgeseg", "export-backbone", str(path)]
        done = subprocess.run(
            [*command, "--settings", str(settings)], capture_output=True, text=True
        )
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
        failed = f"making the graph of {config.backbone} has failed"
        raise EdgesegError(said[-1].removeprefix("Error: ") if said else failed)
    return path


def _plain(config: FitConfig) -> FitConfig:
    """The settings without where the model looks, of which a graph is not made."""
    return replace(config, geometry=FitConfig().geometry, frame_hw=None, overlap=0)
