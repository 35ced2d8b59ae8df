"""Known defects as a fit has them: embedded, with the cells in which each defect lies."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import DatasetError, UsageError
from edgeseg.base.messages import Setting
from edgeseg.data.samples import Batch, load_batches
from edgeseg.fitting.feature_space import FeatureSpace
from edgeseg.fitting.odd_inputs import print_of
from edgeseg.fitting.options import FitOptions
from edgeseg.model.gaussian_head import Maps

_COVERED = 0.25  # share of a cell from which on it belongs to a marked defect


@dataclass(frozen=True, kw_only=True)
class KnownPictures:
    """Embeddings of known defects."""

    rows: Maps  # (n, k, P)
    kinds: tuple[str, ...]
    marked: tuple[NDArray[np.bool_] | None, ...]  # cells (P,) of the defect; None: not marked

    def __len__(self) -> int:
        return len(self.kinds)


def check_known(space: FeatureSpace, options: FitOptions) -> None:
    """Refuse fits that cannot learn from known defects."""
    config = space.config
    why = None
    if config.calibration != "cross":
        why = "they are learned by the folds of cross calibration; leave holdout out"
    elif config.tiling is not None:
        why = "they are learned in whole pictures; leave tiles out"
    elif config.variants:
        why = "a model of several variants has no room for them; fit one model for each variant"
    elif config.geometry.several is not None:
        why = "which of several parts in a picture is defective is not known"
    elif options.group.size > 1:
        why = "they are learned in one process; fit without torchrun"
    if why is not None:
        raise UsageError(Setting("known", len(options.known)), f": {why}")


def embed_known(space: FeatureSpace, options: FitOptions, prints: set[int]) -> KnownPictures:
    """Embed the known defects of a fit whose good pictures have these prints."""
    config, embed = space.config, space.input_embedder(options.device)
    rows, kinds, marked = [], [], []
    for batch in load_batches(
        options.known,
        size_hw=config.image_hw,
        geometry=config.geometry,
        batch_size=1,
        lenient=False,
        max_bad=options.max_bad,
        max_pixels=options.max_pixels,
    ):
        (sample,), (mask_hw,) = batch.samples, batch.masks
        _refuse_good(batch, prints)
        rows.append(embed(batch.frames)[0])
        kinds.append(sample.kind)
        marked.append(None if mask_hw is None else marked_cells(mask_hw, config.grid_hw))
    space.to_cpu()
    return KnownPictures(rows=np.stack(rows), kinds=tuple(kinds), marked=tuple(marked))


def _refuse_good(batch: Batch, prints: set[int]) -> None:
    if print_of(batch.frames[0], batch.sizes_hw[0]) in prints:
        raise DatasetError(
            f"{batch.samples[0].name}: a known defect, and among the good pictures as well; take "
            "it out of one of them"
        )


def marked_cells(mask_hw: NDArray[np.bool_], grid_hw: tuple[int, int]) -> NDArray[np.bool_] | None:
    """Return the cells (P,) of a marked defect; None where it lies outside of what is looked at."""
    (height, width), (rows, columns) = mask_hw.shape, grid_hw
    cells = mask_hw.reshape(rows, height // rows, columns, width // columns).mean(axis=(1, 3))
    if not cells.any():
        return None
    return np.asarray(cells >= min(_COVERED, float(cells.max())), np.bool_).ravel()
