"""Where a fit looks, made sure of on its own images before the first of them is embedded."""

from dataclasses import replace

from edgeseg.config import FitConfig
from edgeseg.contract.geometry import PLAIN
from edgeseg.contract.ignored import hidden_of
from edgeseg.data.datasets import Dataset
from edgeseg.data.samples import sample_size
from edgeseg.errors import UsageError


def looked_at(config: FitConfig, dataset: Dataset) -> FitConfig:
    """The settings with the size of the camera that their places are named in."""
    geometry = config.geometry
    if geometry == PLAIN or geometry.camera_hw is not None:
        return config
    geometry = geometry.seen_by(sample_size(dataset.train[0]))
    hidden = hidden_of(geometry, config.image_hw)
    if hidden is None and geometry.ignore:
        raise UsageError(
            "ignore: none of its regions lies in what the model looks at; expected places in "
            "pixels of the images"
        )
    return replace(config, geometry=geometry)
