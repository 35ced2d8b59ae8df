"""A backbone's graph on this computer: it embeds images for a fit, and becomes the fitted model.

graph --session--> embeddings --fitting--> artefact
graph, artefact --other constants--> the graph that runs
"""

from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import RuntimeFailure, UsageError
from edgeseg.base.plain import Malformed
from edgeseg.config import FitConfig
from edgeseg.fitting.feature_space import FeatureSpace, check_settings
from edgeseg.fitting.graph.graph_facts import KERNELS, KEY, GraphFacts, difference
from edgeseg.model.artefact import Artefact
from edgeseg.model.backbone_weights import BackboneWeights
from edgeseg.model.backbones import embedded_features
from edgeseg.model.map_layers import embedded_width, layer_columns, with_backbone_choices
from edgeseg.model.predictor import Embedder
from edgeseg.runtime.backends.embedding_session import open_embeddings
from edgeseg.runtime.backends.onnx_message import read_constants
from edgeseg.runtime.backends.onnx_properties import graph_sha256, property_text
from edgeseg.runtime.backends.session_options import DEFAULTS

_AGAIN = "make it again with `edgeseg export-backbone`"


class BackboneGraph:
    """A file of `edgeseg export-backbone` whose hash was checked."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.facts = read_facts(path)
        self.config = self.facts.settings

    @cached_property
    def embedding(self) -> NDArray[np.float32]:
        """W (F, k), assembled from the kernels of the layers."""
        try:
            kernels = read_constants(self.path, prefix=KERNELS)
            parts = [
                kernels[f"{KERNELS}{number}"][:, :, 0, 0].T
                for number in range(len(self.config.layers))
            ]
            weight = np.zeros((sum(map(len, parts)), embedded_width(self.config)), np.float32)
            first_row = 0
            for part, (first, last) in zip(parts, layer_columns(self.config), strict=True):
                whole = part.shape[1] == weight.shape[1]  # as all layers were written before
                columns = slice(None) if whole else slice(first, last)
                weight[first_row : first_row + len(part), columns] = part
                first_row += len(part)
        except (Malformed, LookupError, ValueError) as error:
            raise RuntimeFailure(f"{self.path}: damaged ({error}); {_AGAIN}") from None
        if weight.shape[0] != embedded_features(self.config):
            raise RuntimeFailure(f"{self.path}: W of {weight.shape[0]} features; {_AGAIN}")
        return weight

    @cached_property
    def embed(self) -> Embedder:
        """The function from inputs (N, H, W, 3) to embeddings (N, k, P), by a runtime session."""
        run = open_embeddings(self.path, self.facts.embedding, DEFAULTS)

        def embed(frames: NDArray[np.uint8]) -> NDArray[np.float32]:
            rows = np.concatenate([run(frame[None]) for frame in frames])  # (N, P, k)
            return np.ascontiguousarray(rows.swapaxes(1, 2))

        return embed

    def space(self, config: FitConfig) -> FeatureSpace:
        """Return settings with this graph to embed by; refused if it is made for others."""
        config = with_backbone_choices(config)
        changed = difference(self.config, config)
        if changed is not None:
            raise UsageError(
                f"{self.path}: made for other settings (",
                changed,
                "); fit with those of the graph, or make another one with "
                "`edgeseg export-backbone`",
            )
        return FeatureSpace(
            config=check_settings(config),
            weights=BackboneWeights(config, self.facts.weights, None),
            origin=self.facts.weights,
            embedding=self.embedding,
            through=self.embed,
        )

    def check_of(self, artefact: Artefact) -> None:
        """Refuse a model that was fitted through another graph, or with another backbone."""
        changed = difference(self.config, artefact.config)
        if changed is None and artefact.origin.sha256 != self.facts.weights.sha256:
            changed = "the weights of its backbone are others"
        if changed is None and not np.array_equal(artefact.embedding, self.embedding):
            changed = "its W is another one"
        if changed is not None:
            raise UsageError(
                f"{self.path}: not the graph of this model (",
                changed,
                "); give the one that it was fitted through, or one of the same settings, weights "
                "and seed",
            )


def read_facts(path: Path) -> GraphFacts:
    """Read the facts of a graph, and check its hash."""
    if not path.is_file():
        raise UsageError(f"{path}: no such file; make one with `edgeseg export-backbone {path}`")
    text = property_text(path, key=KEY)
    if text is None:
        raise UsageError(
            f"{path}: not the graph of a backbone; expected a file of `edgeseg export-backbone`"
        )
    try:
        facts = GraphFacts.from_json(text)
        with path.open("rb") as file:
            if graph_sha256(file, key=KEY) != facts.graph_sha256:
                raise Malformed("its hash is another one")
    except Malformed as error:
        raise RuntimeFailure(f"{path}: damaged ({error}); copy it again") from None
    return facts
