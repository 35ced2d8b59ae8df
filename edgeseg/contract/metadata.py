"""What a model file says of itself: all that the runtime needs beside the graph."""

import json
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from edgeseg.contract.tiles import Tiling
from edgeseg.errors import RuntimeFailure

SCHEMA = 1
KEY = "edgeseg"  # the key in an ONNX file's metadata_props


@dataclass(frozen=True, kw_only=True)
class ModelMetadata:
    """Input, threshold, statistics of good images and provenance of an exported model."""

    name: str
    input: dict[str, Any]  # name, layout, channels, size_hw, batch [min, opt, max]
    outputs: list[str]
    preprocess: dict[str, Any]
    threshold: dict[str, Any]  # score, pixel, false_alarm_rate, method
    good_scores: dict[str, Any]
    drift: dict[str, Any]
    grid_hw: list[int]
    k: int
    rank: int
    backbone: dict[str, Any]
    artefact_sha256: str
    precision: str
    target: str
    accuracy: list[dict[str, Any]] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    onnx_sha256: str | None = None  # sidecar only: a file cannot hold its own hash
    plan: dict[str, Any] | None = None  # sidecar of a plan only
    tiles: dict[str, Any] | None = None  # frame_hw, overlap: the graph's input is one tile of it
    schema: int = SCHEMA

    @property
    def size_hw(self) -> tuple[int, int]:
        """Height and width of the frames the graph takes."""
        height, width = self.input["size_hw"]
        return int(height), int(width)

    @property
    def tiling(self) -> Tiling | None:
        """How frames are cut for this model, if it was fitted on tiles."""
        if self.tiles is None:
            return None
        (height, width), overlap = self.tiles["frame_hw"], int(self.tiles["overlap"])
        return Tiling(
            frame_hw=(int(height), int(width)),
            tile_hw=self.size_hw,
            overlap_hw=(overlap, overlap),
        )

    def to_json(self, *, indent: int | None = None) -> str:
        """Stable text: same metadata, same bytes."""
        values = {key: value for key, value in asdict(self).items() if value is not None}
        return json.dumps(values, sort_keys=True, indent=indent, allow_nan=False)

    @classmethod
    def from_json(cls, text: str, *, source: str) -> "ModelMetadata":
        """Read what to_json wrote; `source` names the file in errors."""
        try:
            values = json.loads(text)
        except json.JSONDecodeError as error:
            raise RuntimeFailure(
                f"{source}: its edgeseg metadata is not JSON ({error}); export the model again"
            ) from None
        found = values.get("schema") if isinstance(values, dict) else None
        if found != SCHEMA:
            raise RuntimeFailure(
                f"{source}: metadata schema {found!r}, expected {SCHEMA}; "
                "export the model again with this version of edgeseg"
            )
        known = {item.name for item in fields(cls)}
        unknown, missing = set(values) - known, _required() - set(values)
        if unknown or missing:
            raise RuntimeFailure(
                f"{source}: metadata with unknown keys {sorted(unknown)} and missing keys "
                f"{sorted(missing)}; export the model again with this version of edgeseg"
            )
        return cls(**values)


def _required() -> set[str]:
    optional = {"accuracy", "versions", "onnx_sha256", "plan", "tiles"}
    return {item.name for item in fields(ModelMetadata)} - optional
