"""What d^2 is on good images: the measure of drift."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgeseg.contract.metadata import ModelMetadata
from edgeseg.errors import RuntimeFailure


@dataclass(frozen=True, kw_only=True)
class DriftBaseline:
    """Statistics of d^2 on good images that were not used for their own fit."""

    mean_hw: NDArray[np.float32]
    std_hw: NDArray[np.float32]
    frame_mean: float  # of the mean of d^2 over a frame
    frame_std: float
    source: str  # the model's name, for errors

    def __post_init__(self) -> None:
        for name, value_hw in (("d2_mean", self.mean_hw), ("d2_std", self.std_hw)):
            usable = value_hw.ndim == 2 and np.isfinite(value_hw).all() and (value_hw >= 0).all()
            if not usable or value_hw.shape != self.mean_hw.shape:
                raise RuntimeFailure(
                    f"{self.source}: drift baseline {name} of shape {value_hw.shape}, expected a "
                    "grid of finite values from 0; export the model again"
                )
        if not (self.frame_mean > 0 and self.frame_std > 0):
            raise RuntimeFailure(
                f"{self.source}: drift baseline with frame_mean {self.frame_mean} and frame_std "
                f"{self.frame_std}, expected both above 0; fit on more good images"
            )

    @classmethod
    def of(cls, metadata: ModelMetadata) -> "DriftBaseline":
        """What an exported model carries."""
        drift = metadata.drift
        missing = {"d2_mean", "d2_std", "frame_mean", "frame_std"} - set(drift)
        if missing:
            raise RuntimeFailure(
                f"{metadata.name}: drift baseline without {sorted(missing)}; export the model again"
            )
        return cls(
            mean_hw=np.asarray(drift["d2_mean"], np.float32),
            std_hw=np.asarray(drift["d2_std"], np.float32),
            frame_mean=float(drift["frame_mean"]),
            frame_std=float(drift["frame_std"]),
            source=f"model {metadata.name}",
        )
