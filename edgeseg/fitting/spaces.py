"""The first steps of a fit: settle the geometry, and open what embeds the images.

    settings, good images --settle_geometry--> camera and locator
    settings --by torch, or through a backbone's graph--> FeatureSpace

The graph is the one that is named or, where torch is not installed, one found on this computer.
"""

from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from edgeseg.base.errors import DatasetError, UsageError
from edgeseg.base.messages import Setting
from edgeseg.base.progress import Note, ignore
from edgeseg.config import FitConfig
from edgeseg.data.datasets import Dataset
from edgeseg.data.samples import Sample, named_with_others, sample_size
from edgeseg.fitting.feature_space import FeatureSpace
from edgeseg.fitting.locator.learn_locator import learn_locator
from edgeseg.fitting.locator.learn_parts import learn_parts
from edgeseg.fitting.options import FitOptions
from edgeseg.model.artefact import Artefact
from edgeseg.vision.blobs import asks_for_several
from edgeseg.vision.geometry import PLAIN
from edgeseg.vision.ignored import hidden_of
from edgeseg.vision.picture_size import MAX_PIXELS


def open_space(
    dataset: Dataset, config: FitConfig, options: FitOptions, *, reference: Path | None = None
) -> FeatureSpace:
    """Take the first steps of every fit: learn where parts lie, and open what embeds them."""
    for line in dataset.notes:
        options.note(line)
    most = options.max_pixels
    try:
        config = settle_geometry(
            config, dataset, reference=reference, note=options.note, max_pixels=most
        )
    except DatasetError as error:
        raise named_with_others(error, dataset.train, max_pixels=most) from None
    return load_space(config, options)


def load_space(config: FitConfig, options: FitOptions) -> FeatureSpace:
    """Open what embeds images: a backbone, or a graph of one."""
    if config.variants and not _by_torch(options):
        raise UsageError(
            "variants: the graph of a backbone has room for one product; fit with torch, and "
            "without a graph"
        )
    if _by_torch(options):
        return FeatureSpace.load(config, weights=options.weights, note=options.note)
    from edgeseg.fitting.graph.backbone_graph import BackboneGraph
    from edgeseg.fitting.graph.known_graphs import graph_for, no_graph

    path = options.graph or graph_for(config)
    if path is None:
        raise no_graph(config)
    return BackboneGraph(path).space(config)


def space_of(artefact: Artefact, options: FitOptions) -> FeatureSpace:
    """Open the space of a model that is changed: its own backbone, or a graph of the same."""
    if _by_torch(options):
        return FeatureSpace.of(artefact)
    from edgeseg.fitting.graph.find_graph import graph_of_model

    return FeatureSpace.of(artefact, through=graph_of_model(artefact, options.graph).embed)


def _by_torch(options: FitOptions) -> bool:
    return options.graph is None and find_spec("torch") is not None


def settle_geometry(
    config: FitConfig,
    dataset: Dataset,
    *,
    reference: Path | None = None,
    note: Note = ignore,
    max_pixels: int = MAX_PIXELS,
) -> FitConfig:
    """Return the settings with the camera that places are named in, and how its parts are found.

    Places are named at the part of `reference`, by default of the first good picture.
    """
    geometry = config.geometry
    if geometry == PLAIN or geometry.camera_hw is not None:
        return config
    named_on = dataset.train[0] if reference is None else Sample(image=reference)
    geometry = geometry.for_camera(sample_size(named_on, max_pixels=max_pixels))
    hidden = hidden_of(geometry, config.image_hw)
    if hidden is None and geometry.regions:
        raise UsageError(
            "ignore: none of its regions lies in what the model looks at; expected places in "
            "pixels of the images"
        )
    if geometry.locate:
        if config.frame_hw is not None:
            raise UsageError(
                Setting("locate", geometry.locate),
                ": parts are followed as a whole, and tiles are not; fit without tiles, with "
                "a larger size",
            )
        if asks_for_several(geometry.locate):
            if config.variants:
                raise UsageError(
                    Setting("locate", geometry.locate),
                    ": a model of several variants judges one part in a picture; fit each variant "
                    "alone",
                )
            learn = learn_parts
        else:
            learn = partial(learn_locator, reference=None if reference is None else named_on)
        geometry = learn(
            geometry,
            dataset.train,
            grid_hw=config.grid_hw,
            rate=config.false_alarm_rate,
            note=note,
            max_pixels=max_pixels,
        )
    return replace(config, geometry=geometry)
