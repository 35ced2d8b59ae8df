"""Where a fit looks, made sure of on its own images before the first of them is embedded."""

from dataclasses import replace
from pathlib import Path

from edgeseg.config import FitConfig
from edgeseg.contract.geometry import PLAIN
from edgeseg.contract.ignored import hidden_of
from edgeseg.contract.picture_size import MAX_PIXELS
from edgeseg.data.datasets import Dataset
from edgeseg.data.locating import learned
from edgeseg.data.samples import Sample, sample_size
from edgeseg.errors import UsageError
from edgeseg.progress import Note, ignore


def looked_at(
    config: FitConfig,
    dataset: Dataset,
    *,
    reference: Path | None = None,
    note: Note = ignore,
    max_pixels: int = MAX_PIXELS,
) -> FitConfig:
    """The settings with the camera that their places are named in, and how its parts are found.

    Places go with the part from where it lies in `reference`; None: in the first good picture.
    """
    geometry = config.geometry
    if geometry == PLAIN or geometry.camera_hw is not None:
        return config
    named_on = dataset.train[0] if reference is None else Sample(image=reference)
    geometry = geometry.seen_by(sample_size(named_on, max_pixels=max_pixels))
    hidden = hidden_of(geometry, config.image_hw)
    if hidden is None and geometry.regions:
        raise UsageError(
            "ignore: none of its regions lies in what the model looks at; expected places in "
            "pixels of the images"
        )
    if geometry.locate:
        if config.frame_hw is not None:
            raise UsageError(
                f"locate={geometry.locate}: parts are followed as a whole, and tiles are not; fit "
                "without tiles, with a larger size"
            )
        geometry = learned(
            geometry,
            dataset.train,
            grid_hw=config.grid_hw,
            rate=config.false_alarm_rate,
            note=note,
            max_pixels=max_pixels,
            reference=None if reference is None else named_on,
        )
    return replace(config, geometry=geometry)
