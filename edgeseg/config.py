"""The settings of a fit: one frozen record that is stored in the artefact."""

import math
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, get_args

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Setting
from edgeseg.base.plain import JsonObject, Malformed, record
from edgeseg.decision.score_origin import Promise
from edgeseg.vision.geometry import PLAIN, Geometry
from edgeseg.vision.tiles import Tiling

EMBEDDINGS = ("semi_orthogonal", "sampled", "gaussian", "identity")
CHOICES: dict[str, tuple[str, ...]] = {
    "embedding": EMBEDDINGS,
    "interpolation": ("bilinear", "nearest"),
    "covariance": ("local", "global"),
    "directions": ("lower", "higher"),
    "calibration": ("cross", "holdout"),
    "moments": ("cells", "blocks"),
    "ridge_unit": ("mean_square", "absolute"),
    "promise": get_args(Promise),
}
FRACTIONS = ("rank", "ridge", "map_ridge", "sigma", "holdout", "false_alarm_rate")
LEAST = {
    "k": 1,
    "stride": 1,
    "context": 0,
    "pool": 0,
    "share": 1,
    "top": 1,
    "seed": 0,
    "folds": 2,
    "overlap": 0,
}
ODD = ("context", "pool")  # to have a centre
AUTO = 0  # a pool chosen from the good images, the context that the backbone is best with


@dataclass(frozen=True, kw_only=True)
class FitConfig:
    """Everything that decides the result of a fit, apart from images and weights.

    The defaults are the preset `edge`; `FitConfig.preset("paper")` is the paper's method.
    """

    backbone: str = "efficientnet_lite1"
    layers: tuple[int, ...] = (1, 2, 3)  # which taps of the backbone, counted from 1
    size_hw: tuple[int, int] = (256, 256)  # of the model's input: the image, or one tile of it
    frame_hw: tuple[int, int] | None = None  # size the tiles are cut from; None: no tiles
    overlap: int = 0  # pixels that a tile shares with the next one, at least
    geometry: Geometry = PLAIN  # where it looks in the camera's picture
    stride: int = 8  # pixels per grid cell, each way
    interpolation: str = "bilinear"  # how coarser layers reach the grid
    context: int = AUTO  # beside every feature its mean over context x context cells; 1: none
    embedding: str = "semi_orthogonal"
    k: int = 150
    covariance: str = "local"
    # Moments of a pool x pool neighbourhood are merged; 1 leaves them alone, AUTO chooses.
    pool: int = 3
    share: int = 2  # share x share cells use one Gaussian: a quarter of the bytes, equal accuracy
    rank: float = 0.64  # directions kept after the embedding: a share of k, a number, or 0 for all
    directions: str = "lower"  # of smallest variance (Theorem 1), or of largest
    # Added to every variance, in units of the embedded features' mean square: one number for every
    # backbone. ResNet-18's is near 0.1, which makes the paper's 0.01; MobileNetV3-Small's is ten
    # times as large, EfficientNet-Lite0's three hundred times.
    ridge: float = 0.1
    ridge_unit: str = "mean_square"  # or "absolute", as in the paper
    # Layers whose own Gaussians sharpen the map; the score does not use them. Without any, the map
    # is made of the score's distances. None: those that the backbone is best with (map_layers.py).
    map_layers: tuple[int, ...] | None = None
    map_ridge: float = 1.0  # of both Gaussians of such a map: always in mean squares
    sigma: float = 3.0  # Gaussian blur of the map, in pixels
    top: int = 10  # an image's score: mean of its `top` highest grid cells; 1: maximum of the map
    moments: str = "cells"  # kept of every cell, or of whole windows: large grids (memory.py)
    # Of the product, by the names of their folders; each has a mean of its own. (): there is one.
    variants: tuple[str, ...] = ()
    seed: int = 0
    calibration: str = "cross"
    holdout: float = 0.1  # share of good images kept for calibration when calibration="holdout"
    folds: int = 10  # of the cross-conformal calibration
    false_alarm_rate: float = 0.02
    promise: Promise = "tail"  # how the rate becomes a threshold; or "conformal", by ranks alone

    def __post_init__(self) -> None:
        for name, allowed in CHOICES.items():
            _require(name, getattr(self, name), getattr(self, name) in allowed, f"one of {allowed}")
        for name, least in LEAST.items():
            value = getattr(self, name)
            whole = isinstance(value, int) and value >= least
            _require(name, value, whole, f"a whole number from {least}")
        _require("rank", self.rank, _is_rank(self.rank), "a share below 1, a whole number or 0")
        for name in ODD:
            value = getattr(self, name)
            odd = value == AUTO or value % 2 == 1
            _require(name, value, odd, "an odd number, to have a centre")
        for name in ("ridge", "map_ridge"):
            value = getattr(self, name)
            positive = 0 < value < math.inf
            _require(name, value, positive, "above 0, or a constant pixel has no inverse")
        _require("holdout", self.holdout, 0 < self.holdout < 1, "between 0 and 1")
        rate = self.false_alarm_rate
        _require("false_alarm_rate", rate, 0 < rate < 1, "between 0 and 1")
        layers = tuple(self.layers)
        valid = bool(layers) and list(layers) == sorted(set(layers)) and layers[0] >= 1
        _require("layers", layers, valid, "increasing layer numbers from 1, such as 1,2,3")
        if self.map_layers is not None:
            object.__setattr__(self, "map_layers", tuple(self.map_layers))
            _check_map_layers(tuple(self.map_layers), layers, top=self.top)
        height, width = self.size_hw
        _require("size_hw", self.size_hw, height >= 32 and width >= 32, "at least 32x32")
        inside = 0 <= self.sigma <= max(height, width)
        _require("sigma", self.sigma, inside, "0 (no blur) up to the size of the image")
        for name in FRACTIONS:  # 10 and 10.0 are one setting, and should be one artefact
            object.__setattr__(self, name, float(getattr(self, name)))
        object.__setattr__(self, "layers", layers)
        object.__setattr__(self, "variants", tuple(self.variants))
        object.__setattr__(self, "size_hw", (int(height), int(width)))
        if self.frame_hw is not None:
            object.__setattr__(self, "frame_hw", (int(self.frame_hw[0]), int(self.frame_hw[1])))
        if self.frame_hw is not None and self.geometry.regions:
            raise UsageError(
                "ignore: regions of whole images, and tiles share one model for all their places; "
                "fit without tiles"
            )
        _require(
            "overlap", self.overlap, self.tiling is not None or not self.overlap, "0 without tiles"
        )
        self._check_variants()

    def _check_variants(self) -> None:
        names = self.variants
        if not names:
            return
        several = len(set(names)) == len(names) >= 2 and all(names)
        _require("variants", names, several, "two names or more, each another one")
        if self.frame_hw is not None:
            raise UsageError(
                "variants: a tile may show what all of them have, so it cannot tell which one it "
                "is of; fit without tiles, with a larger size"
            )
        if self.pool == AUTO:
            raise UsageError(
                Setting("pool", "auto"),
                ": compares pictures of one product, and there are variants; choose 1, 3 or 5",
            )

    @classmethod
    def preset(cls, name: str) -> "FitConfig":
        """Return the settings known by a name."""
        if name not in PRESETS:
            raise UsageError(f"preset {name!r} is unknown; expected one of {tuple(PRESETS)}")
        return PRESETS[name]

    @property
    def grid_hw(self) -> tuple[int, int]:
        """Rows and columns of the grid of locations."""
        return self.size_hw[0] // self.stride, self.size_hw[1] // self.stride

    @property
    def image_hw(self) -> tuple[int, int]:
        """The size that images are resized to: that of the frame, where there are tiles."""
        return self.frame_hw or self.size_hw

    @property
    def tiling(self) -> Tiling | None:
        """How a frame is cut into tiles, if it is."""
        if self.frame_hw is None:
            return None
        return Tiling(
            frame_hw=self.frame_hw,
            tile_hw=self.size_hw,
            overlap_hw=(self.overlap, self.overlap),
        )

    def with_options(self, options: dict[str, Any]) -> "FitConfig":
        """Return a copy with some values replaced; an unknown name is refused."""
        unknown = sorted(set(options) - {item.name for item in fields(self)})
        if unknown:
            raise UsageError(f"unknown settings {unknown}; expected names of FitConfig")
        return replace(self, **options)

    def to_dict(self) -> JsonObject:
        """Return plain JSON values."""
        values = asdict(self)
        if self.geometry == PLAIN:
            del values["geometry"]
        if not self.variants:
            del values["variants"]
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in values.items()
        }

    @classmethod
    def from_dict(cls, values: JsonObject) -> "FitConfig":
        """Read what to_dict wrote; unknown keys are refused."""
        settings = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in dict(values).items()
        }
        if "geometry" in settings:
            try:
                settings["geometry"] = record(Geometry, settings["geometry"], place="geometry")
            except Malformed as error:
                raise UsageError(str(error)) from None
        return cls().with_options(settings)


def _is_rank(rank: float) -> bool:
    return 0 <= rank < 1 or (rank >= 1 and float(rank).is_integer())


def _check_map_layers(shown: tuple[int, ...], layers: tuple[int, ...], *, top: int) -> None:
    among = shown == tuple(number for number in layers if number in shown)
    words = ",".join(map(str, layers))
    _require("map_layers", shown, among, f"some of the layers {words} in their order, or none")
    if shown and top == 1:
        raise UsageError(
            Setting("map_layers", shown),
            ": the score never uses them, and with ",
            Setting("top", top),
            " it is the map's maximum; leave one of them out",
        )


def _require(name: str, got: object, valid: bool, expected: str) -> None:
    if not valid:
        shown = repr(got) if isinstance(got, str) else got
        raise UsageError(Setting(name, shown), f": expected {expected}")


DEFAULT_PRESET = "edge"
PRESETS = {
    DEFAULT_PRESET: FitConfig(),
    "paper": FitConfig(
        backbone="resnet18",
        stride=4,
        interpolation="nearest",
        context=1,
        k=100,
        pool=1,
        share=1,
        rank=0,
        ridge=0.01,
        ridge_unit="absolute",
        map_layers=(),
        sigma=4.0,
        top=1,
        calibration="holdout",
        promise="conformal",
        false_alarm_rate=0.01,
    ),
}
