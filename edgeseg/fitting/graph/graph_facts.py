"""The facts that a backbone's graph states of itself, in a property of its .onnx file.

Such a graph is a model without Gaussians. It has one output more, the embedding that a fit is made
of, and it cannot be run: its metadata stand under another key than those of a model.
"""

from dataclasses import asdict, dataclass

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Sentence, Setting
from edgeseg.base.plain import JsonObject, Malformed, parse_json, record
from edgeseg.config import FitConfig
from edgeseg.model.weights_origin import WeightsOrigin
from edgeseg.modelfile.header import stored_config
from edgeseg.modelfile.seal import KEY as SEAL
from edgeseg.modelfile.seal import check_text, seal_json

KEY = "edgeseg-backbone"  # of the property
SCHEMA = 2
KERNELS = "embedding.kernel_"  # constants that W is cut into, one for each layer
# Settings that the graph is made of; a fit through it has the same ones. The others may differ.
SHAPING = (
    *("backbone", "layers", "size_hw", "stride", "interpolation", "context", "embedding", "k"),
    *("covariance", "share", "rank", "map_layers", "sigma", "top", "seed"),
)


@dataclass(frozen=True, kw_only=True)
class GraphFacts:
    """Settings, weights, and the names of what a fit reads and writes."""

    config: JsonObject
    weights: WeightsOrigin
    embedding: str  # output (1, P, k)
    mean: str  # constants
    factor: str
    kept: str
    gain: str
    versions: dict[str, str]
    map_weight: str = "map_weight"  # constants too, of a map of its own
    map_factor: str = "map_factor"
    counted: str = "counted"
    explains: bool = False  # whether it has the output `apart`; those of 0.2.0 have not
    graph_sha256: str | None = None  # of the file without this text
    schema: int = SCHEMA

    def __post_init__(self) -> None:
        if self.schema != SCHEMA:
            raise ValueError(f"schema: {self.schema}, expected {SCHEMA}")

    @property
    def settings(self) -> FitConfig:
        """The settings that `edgeseg export-backbone` was given."""
        return stored_config(self.config)

    def adapt(self, config: FitConfig) -> FitConfig:
        """Return the settings with those that this graph is made of."""
        return config.with_options({name: getattr(self.settings, name) for name in SHAPING})

    def to_json(self) -> str:
        """Write stable text with a hash of itself."""
        return seal_json(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "GraphFacts":
        """Read what to_json wrote; Malformed says what is wrong with it."""
        if not check_text(text):
            raise Malformed("the hash of itself is missing")
        values = parse_json(text)
        if isinstance(values, dict):
            values.pop(SEAL, None)
        facts = record(cls, values)
        try:
            _ = facts.settings
        except UsageError as error:
            raise Malformed(str(error)) from None
        return facts


def difference(graph: FitConfig, wanted: FitConfig) -> str | None:
    """Describe the first setting in which a fit would need another graph, or return None."""
    for name in SHAPING:
        ours, theirs = getattr(graph, name), getattr(wanted, name)
        if ours != theirs:
            return Sentence(Setting(name, theirs), f", and the graph has {ours}")
    return None
