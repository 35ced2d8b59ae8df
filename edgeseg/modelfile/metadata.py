"""What a model file says of itself: all that the runtime needs beside the graph.

A damaged or foreign file is refused here, once: every part checks itself, and the error names the
part. The text is stored in the ONNX file's metadata_props and in the sidecar beside the model.
"""

from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import RuntimeFailure, UsageError
from edgeseg.base.messages import Setting
from edgeseg.base.plain import Malformed, parse_json, record
from edgeseg.decision.kinds import KnownKinds
from edgeseg.decision.score_statistics import ScoreStatistics
from edgeseg.decision.threshold_bounds import check_threshold, finds_nothing
from edgeseg.decision.thresholds import Thresholds
from edgeseg.decision.why import Reasons
from edgeseg.modelfile.known_kinds import KnownKind
from edgeseg.modelfile.seal import KEY as SEAL
from edgeseg.modelfile.seal import check_text, seal_json
from edgeseg.vision.geometry import PLAIN, Geometry, Polygon
from edgeseg.vision.tiles import Tiling

SCHEMA = 2
KEY = "edgeseg"  # the key in an ONNX file's metadata_props
UNKNOWN_LICENCE = "unknown"
PLAN_SUFFIXES = (".plan", ".engine")
MODEL_SUFFIXES = (".onnx", *PLAN_SUFFIXES)
AccuracyRow = dict[str, str | int | float | None]  # `dataset`, and figures by the names of METRICS
NUMERICS = "numerics"  # in a row: the precision that its figures were measured in
Grid = tuple[tuple[float, ...], ...]
OUTPUTS = frozenset({"map", "score", "grid", "map_grid", "variant", "apart"})


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
    """The normalisation of pixels before the first convolution; in the graph, for information."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    inside_graph: bool


@dataclass(frozen=True, kw_only=True)
class Decision:
    """One change of the operating point after the export."""

    when: str  # UTC
    action: Literal["threshold", "calibrate", "ignore"]
    rule: str  # in words
    images: int  # good images behind it
    before: float  # threshold of the score
    after: float
    backend: str | None = None  # that gave the scores, of `calibrate`
    precision: str | None = None
    rate: float | None = None  # that was asked for, of `threshold`; None: a value was given


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
        """Summarise d^2 of every cell over good images, and its mean over each of their frames."""

        def to_grid(values_hw: NDArray[np.float32]) -> Grid:
            # Four digits keep the file small and are far below what a camera repeats.
            return tuple(tuple(float(f"{value:.4g}") for value in row) for row in values_hw)

        return cls(
            d2_mean=to_grid(mean_hw),
            d2_std=to_grid(std_hw),
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
    """The network and its weights."""

    name: str
    weights_sha256: str
    random_weights: bool
    licence: str  # of the weights


@dataclass(frozen=True, kw_only=True)
class PlanFacts:
    """The machine that a TensorRT plan runs on, and how the plan was built."""

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
class ScoreRule:
    """The graph's rule from cells to map and score, for frames of which not all cells count."""

    top: int  # mean of so many highest cells; 1: highest pixel of the map
    sigma: float  # of the map's blur, in pixels


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
    rule: ScoreRule
    backbone: BackboneFacts
    artefact_sha256: str
    precision: str
    target: str
    accuracy: tuple[AccuracyRow, ...] = ()
    versions: dict[str, str] = field(default_factory=dict)
    graph_sha256: str | None = None  # of the .onnx file without this text, and without its .data
    data_sha256: str | None = None  # of the .onnx.data of a graph over 2 GB
    onnx_sha256: str | None = None  # sidecar only: a file cannot hold its own hash
    plan: PlanFacts | None = None  # sidecar of a plan only
    tiles: TileLayout | None = None
    geometry: Geometry | None = None  # where it looks; None: at whole pictures of any size
    camera_hw: tuple[int, int] | None = None  # of the images it was fitted on, if known
    ignored_here: tuple[Polygon, ...] = ()  # sidecar only: what is ignored since the export
    planted_scores: tuple[float, ...] = ()  # of defects planted on good images: what is found
    # Whose numbers threshold, scores and drift baseline are: a backend's. None: the reference's.
    calibrated_in: str | None = None
    history: tuple[Decision, ...] = ()  # sidecar only: what was decided where it runs
    variants: tuple[str, ...] = ()  # of the product: the graph gives the number of one of them
    reasons: Reasons | None = None  # to say why a region is odd
    kinds: KnownKinds | None = None  # of known defects: what a region is like
    known: tuple[KnownKind, ...] = ()  # defects that the model has learned from
    needs_sidecar: bool = False  # what decides stands in the sidecar: the graph alone is refused
    schema: int = SCHEMA

    def __post_init__(self) -> None:
        missing = sorted({"map", "score"} - set(self.outputs))
        if missing:
            raise ValueError(f"outputs: {list(self.outputs)}, expected also {missing}")
        if not set(self.outputs) <= OUTPUTS:
            raise ValueError(f"outputs: {str(self.outputs)[:80]}, expected of {sorted(OUTPUTS)}")
        if bool(self.variants) != ("variant" in self.outputs):
            raise ValueError(
                f"variants: {list(self.variants)}, expected names where the output variant is"
            )
        why = finds_nothing(self.threshold.score, self.good_scores.max)
        if why is not None:
            raise ValueError(f"threshold.score: {self.threshold.score}, {why}")
        if self.ignored_here and self.camera_hw is None:
            raise ValueError("camera_hw: none, expected the size that ignored regions are named in")
        try:
            _ = self.tiling
        except UsageError as error:
            raise ValueError(str(error)) from None

    @property
    def plan_facts(self) -> PlanFacts:
        """The facts of a plan; only its sidecar has them."""
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

    @property
    def looks(self) -> Geometry:
        """The geometry of the model, including regions ignored since its export."""
        geometry = self.geometry or PLAIN
        if not self.ignored_here:
            return geometry
        seen = geometry.for_camera(geometry.camera_hw or self.camera_hw)
        return replace(seen, uncounted=(*geometry.uncounted, *self.ignored_here))

    def thresholds(self, asked: float | None = None) -> Thresholds:
        """Return the thresholds in use; a requested threshold scales them all."""
        if asked is None:
            return self.threshold
        check_threshold(asked)
        why = finds_nothing(asked, self.good_scores.max)
        if why is not None:
            raise UsageError(Setting("threshold", asked), f": {why}; expected a lower one")
        return self.threshold.with_score(asked)

    def with_decisions(self, other: "ModelMetadata") -> "ModelMetadata":
        """Return a copy with what the sidecar says was decided on the device after the export."""
        return replace(
            self,
            threshold=other.threshold,
            good_scores=other.good_scores,
            drift=other.drift,
            planted_scores=other.planted_scores,
            calibrated_in=other.calibrated_in,
            camera_hw=other.camera_hw,
            ignored_here=other.ignored_here,
            history=other.history,
        )

    def to_json(self, *, indent: int | None = None) -> str:
        """Write stable text with a hash of itself: the same metadata give the same bytes."""
        values = {key: value for key, value in asdict(self).items() if value is not None}
        for name in ("ignored_here", "variants", "known"):
            if not values[name]:
                del values[name]
        return seal_json(values, indent=indent)

    @classmethod
    def from_json(cls, text: str | bytes, *, source: str) -> "ModelMetadata":
        """Read what to_json wrote; `source` names the file in errors."""
        try:
            sealed = check_text(text)
            values: Any = parse_json(text)
            schema = values.get("schema") if isinstance(values, dict) else None
            if schema != SCHEMA:
                raise Malformed(f"schema {schema!r}, expected {SCHEMA}")
            if not sealed:
                raise Malformed("the hash of itself is missing")
            values.pop(SEAL, None)
            return record(cls, values)
        except Malformed as error:
            raise RuntimeFailure(
                f"{source}: its edgeseg metadata cannot be used: {error}; "
                "export the model again with this version of edgeseg"
            ) from None
