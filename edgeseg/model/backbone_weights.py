"""The weights of a backbone: arrays of a file, a network that computes with them, or a hash alone.

A model that was fitted through a graph has no weights of its own: the graph has them. Where its
network is wanted, they are found as a fit finds them, and have to have that hash.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from edgeseg.base.errors import WeightsError
from edgeseg.config import FitConfig
from edgeseg.model.backbones import backbone_spec
from edgeseg.model.weights_origin import Arrays, WeightsOrigin

if TYPE_CHECKING:
    from edgeseg.model.feature_extractor import Backbone


class BackboneWeights:
    """The weights of a backbone; torch is loaded when the network is asked for."""

    def __init__(self, config: FitConfig, origin: WeightsOrigin, arrays: Arrays | None) -> None:
        self._config, self._origin, self._arrays = config, origin, arrays
        self._backbone: Backbone | None = None

    @classmethod
    def of(
        cls, config: FitConfig, origin: WeightsOrigin, backbone: "Backbone"
    ) -> "BackboneWeights":
        """Take the weights of a network."""
        weights = cls(config, origin, None)
        weights._backbone = backbone
        return weights

    @property
    def arrays(self) -> Arrays | None:
        """The arrays by name; None where only their hash is known."""
        if self._backbone is None:
            return self._arrays
        from edgeseg.model.feature_extractor import weight_tensors

        return {name: tensor.numpy() for name, tensor in weight_tensors(self._backbone)}

    @property
    def backbone(self) -> "Backbone":
        """The network."""
        if self._backbone is None:
            self._backbone = self._find() if self._arrays is None else self._fill(self._arrays)
            self._arrays = None  # the network has them now
        return self._backbone

    def _fill(self, arrays: Arrays) -> "Backbone":
        from edgeseg.model.feature_extractor import Backbone
        from edgeseg.model.reference import as_tensor
        from edgeseg.model.weights import load_checked

        backbone = Backbone(backbone_spec(self._config.backbone), layers=self._config.layers)
        tensors = {name: as_tensor(values) for name, values in arrays.items()}
        load_checked(backbone, tensors, source=Path(self._origin.source))
        return backbone

    def _find(self) -> "Backbone":
        from edgeseg.model.weights import RANDOM, load_backbone

        name, expected = self._config.backbone, self._origin.sha256
        backbone, found = load_backbone(
            name,
            layers=self._config.layers,
            weights=RANDOM if self._origin.random else None,
            seed=self._config.seed,
        )
        if found.sha256 != expected:
            raise WeightsError(
                f"the model was fitted through a graph with other weights of {name} (hash "
                f"{expected[:12]}...) than {found.source} has ({found.sha256[:12]}...); put those "
                "of the graph into the folder that EDGESEG_WEIGHTS names"
            )
        return backbone
