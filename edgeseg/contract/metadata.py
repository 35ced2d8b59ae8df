"""What a model file says of itself: all that the runtime needs beside the graph.

A damaged or foreign file is refused here, once: every part checks itself, and the error names the
part. The text is stored in the ONNX file's metadata_props and in the sidecar beside the model.
"""

import json
import math
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from edgeseg.contract.plain import Malformed, parse_json, record
from edgeseg.contract.tiles import Tiling
from edgeseg.errors import RuntimeFailure, UsageError

SCHEMA = 1
KEY = "edgeseg"  # the key in an ONNX file's metadata_props
PLAN_SUFFIXES = (".plan", ".engine")
MODEL_SUFFIXES = (".onnx", *PLAN_SUFFIXES)
AccuracyRow = dict[str, str | int | float | None]  # `dataset`, and figures by the names of METRICS
Grid = tuple[tuple[float, ...], ...]


@dataclass(frozen=True, kw_only=True)
class InputFormat:
    """The frames that the graph takes."""

    name: str
    layout: Literal["NHWC"]
    channels: Literal["RGB", "BGR"]
    size_hw: tuple[int, int]
    batch: tuple[int, int, int]  # min, opt, max

    def __post_init__(self) -> None:
        if min(self.size_hw) < 1:
            raise ValueError(f"size_hw: {list(self.size_hw)}, expected at least 1x1")
        low, likely, high = self.batch
        if not 1 <= low <= likely <= high:
            raise ValueError(f"batch: {list(self.batch)}, expected 1 <= min <= opt <= max")


@dataclass(frozen=True, kw_only=True)
class Normalisation:
    """What happens to pixels before the first convolution; inside the graph, for information."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    inside_graph: bool


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """Above which score a frame, and above which value a pixel, is anomalous."""

    score: float
    pixel: float
    false_alarm_rate: float
    method: str


@dataclass(frozen=True, kw_only=True)
class ScoreStatistics:
    """Scores of good images that the model had not seen."""

    count: int
    mean: float
    std: float
    min: float
    max: float
    quantiles: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class DriftBaseline:
    """Statistics of d^2 on good images that were not used for their own fit."""

    d2_mean: Grid  # (h, w)
    d2_std: Grid
    frame_mean: float  # of the mean of d^2 over a frame
    frame_std: float

    def __post_init__(self) -> None:
        shapes = [{len(row) for row in grid} for grid in (self.d2_mean, self.d2_std)]
        if len(self.d2_mean) != len(self.d2_std) or shapes[0] != shapes[1] or len(shapes[0]) != 1:
            raise ValueError("d2_mean: expected two grids of the same size")
        for name in ("d2_mean", "d2_std"):
            if min(min(row) for row in getattr(self, name)) < 0:
                raise ValueError(f"{name}: expected values from 0")

    @classmethod
    def of(
        cls,
        *,
        mean_hw: NDArray[np.float32],
        std_hw: NDArray[np.float32],
        frame_d2: NDArray[np.float32],
    ) -> "DriftBaseline":
        """From d^2 of every cell over good images, and its mean over each of their frames."""

        def rounded(values_hw: NDArray[np.float32]) -> Grid:
            # Four digits keep the file small and are far below what a camera repeats.
            return tuple(tuple(float(f"{value:.4g}") for value in row) for row in values_hw)

        return cls(
            d2_mean=rounded(mean_hw),
            d2_std=rounded(std_hw),
            frame_mean=float(frame_d2.mean()),
            frame_std=float(frame_d2.std()),
        )

    @cached_property
    def mean_hw(self) -> NDArray[np.float32]:
        """Mean of d^2 of every cell."""
        return np.asarray(self.d2_mean, np.float32)

    @cached_property
    def std_hw(self) -> NDArray[np.float32]:
        """Standard deviation of d^2 of every cell."""
        return np.asarray(self.d2_std, np.float32)


@dataclass(frozen=True, kw_only=True)
class BackboneFacts:
    """Which network, and which weights."""

    name: str
    weights_sha256: str
    random_weights: bool


@dataclass(frozen=True, kw_only=True)
class PlanFacts:
    """Where a TensorRT plan runs, and how it was built."""

    builder: str
    builder_version: str
    targets: tuple[str, ...]
    version_compatible: bool
    hardware_compatible: bool
    precision: str
    plan_sha256: str
    build_seconds: float
    gpu: str | None = None
    workspace_mb: int | None = None
    optimisation_level: int | None = None
    dla_core: int | None = None
    tf32: bool | None = None


@dataclass(frozen=True, kw_only=True)
class TileLayout:
    """How frames are cut for a model that was fitted on tiles; its input is one of them."""

    frame_hw: tuple[int, int]
    overlap: int


@dataclass(frozen=True, kw_only=True)
class ModelMetadata:
    """Input, threshold, statistics of good images and provenance of an exported model."""

    name: str
    input: InputFormat
    outputs: tuple[str, ...]
    preprocess: Normalisation
    threshold: Thresholds
    good_scores: ScoreStatistics
    drift: DriftBaseline
    grid_hw: tuple[int, int]
    k: int
    rank: int
    backbone: BackboneFacts
    artefact_sha256: str
    precision: str
    target: str
    accuracy: tuple[AccuracyRow, ...] = ()
    versions: dict[str, str] = field(default_factory=dict)
    onnx_sha256: str | None = None  # sidecar only: a file cannot hold its own hash
    plan: PlanFacts | None = None  # sidecar of a plan only
    tiles: TileLayout | None = None
    schema: int = SCHEMA

    def __post_init__(self) -> None:
        missing = sorted({"map", "score"} - set(self.outputs))
        if missing:
            raise ValueError(f"outputs: {list(self.outputs)}, expected also {missing}")
        try:
            _ = self.tiling
        except UsageError as error:
            raise ValueError(str(error)) from None

    @property
    def plan_facts(self) -> PlanFacts:
        """Those of a plan; only its sidecar has them."""
        if self.plan is None:
            raise RuntimeFailure(f"model {self.name}: its metadata does not describe a plan")
        return self.plan

    @property
    def size_hw(self) -> tuple[int, int]:
        """Height and width of the frames the graph takes."""
        return self.input.size_hw

    @property
    def tiling(self) -> Tiling | None:
        """How frames are cut for this model, if it was fitted on tiles."""
        if self.tiles is None:
            return None
        overlap = self.tiles.overlap
        return Tiling(
            frame_hw=self.tiles.frame_hw, tile_hw=self.size_hw, overlap_hw=(overlap, overlap)
        )

    def thresholds(self, asked: float | None = None) -> tuple[float, float]:
        """Thresholds of the score and of the map; one that was asked for moves both alike."""
        if asked is None:
            return self.threshold.score, self.threshold.pixel
        if not math.isfinite(asked):
            raise UsageError(f"threshold={asked}: expected a finite number")
        if not self.threshold.score:
            return asked, asked
        return asked, self.threshold.pixel * (asked / self.threshold.score)

    def to_json(self, *, indent: int | None = None) -> str:
        """Stable text: same metadata, same bytes."""
        values = {key: value for key, value in asdict(self).items() if value is not None}
        return json.dumps(values, sort_keys=True, indent=indent, allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes, *, source: str) -> "ModelMetadata":
        """Read what to_json wrote; `source` names the file in errors."""
        try:
            values: Any = parse_json(text)
            schema = values.get("schema") if isinstance(values, dict) else None
            if schema != SCHEMA:
                raise Malformed(f"schema {schema!r}, expected {SCHEMA}")
            return record(cls, values)
        except Malformed as error:
            raise RuntimeFailure(
                f"{source}: its edgeseg metadata cannot be used: {error}; "
                "export the model again with this version of edgeseg"
            ) from None
