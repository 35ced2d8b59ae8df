"""The long work of a project, in its child process: fit, update, ignore, and the graph that runs.

All of it goes through a backbone's graph in the session of this computer, without torch and onnx.
Where no graph is named and none is at hand, one is made, if torch is installed. Only the child
loads what a fit needs.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgeseg.config import FitConfig
    from edgeseg.fitting.options import FitOptions
    from edgeseg.model.artefact import Artefact
    from edgeseg.vision.geometry import Polygon


def fit_model(
    images: Path,
    *,
    graph: Path | None,
    config: "FitConfig",
    options: "FitOptions",
    out: Path,
    reference: Path | None = None,
) -> "Artefact":
    """Fit on a folder of good pictures, and write the artefact.

    A graph that is named brings its own settings, as far as it is made of them. Where parts are
    followed, places are named at the part of `reference`; None: of the first picture.
    """
    from edgeseg.data.datasets import open_dataset
    from edgeseg.fitting.fitting import fit
    from edgeseg.fitting.graph.backbone_graph import read_facts
    from edgeseg.fitting.graph.find_graph import find_or_make
    from edgeseg.model.artefact import save_artefact

    # Of line3/good, people know line3.
    dataset = replace(open_dataset(images), name=images.resolve().parent.name)
    path = graph or find_or_make(config, tell=options.tell)
    config = read_facts(path).adapt(config)
    artefact = fit(dataset, config, replace(options, graph=path), reference=reference)
    save_artefact(artefact, out)
    return artefact


def update_model(
    artefact: Path, *, graph: Path | None, more: Path, options: "FitOptions", out: Path
) -> "Artefact":
    """Add a folder of good pictures to a model, and write the artefact."""
    from edgeseg.data.datasets import open_dataset
    from edgeseg.fitting.graph.find_graph import graph_of_model
    from edgeseg.fitting.options import Changes
    from edgeseg.fitting.update import update
    from edgeseg.model.artefact import load_artefact, save_artefact

    model = load_artefact(artefact)
    path = graph_of_model(model, graph, tell=options.tell).path
    changed = update(model, Changes(more=open_dataset(more)), replace(options, graph=path))
    save_artefact(changed, out)
    return changed


def ignore_regions(
    artefact: Path, *, regions: Sequence["Polygon"], options: "FitOptions", out: Path
) -> "Artefact":
    """Leave regions out of a model, take its threshold from the rest, and write the artefact."""
    from edgeseg.fitting.ignoring import ignore_in_model
    from edgeseg.model.artefact import load_artefact, save_artefact

    model = load_artefact(artefact)
    all_of_them = dict.fromkeys((*model.config.geometry.uncounted, *regions))
    changed = ignore_in_model(model, list(all_of_them), options=options)
    save_artefact(changed, out)
    return changed


def write_graph(artefact: Path, *, graph: Path | None, out: Path) -> None:
    """Write the graph that runs an artefact, with its sidecar."""
    from edgeseg.fitting.graph.model_writing import write_model_of_file

    write_model_of_file(artefact, out, graph=graph)
