"""The settings of a fit as options, for every command that begins one."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

import click

from edgeseg.base.errors import UsageError
from edgeseg.base.files import check_writable
from edgeseg.base.messages import Setting
from edgeseg.base.options import FILE, SIZE, Numbers, RegistryName
from edgeseg.base.typed_options import takes, typed
from edgeseg.cli.data_options import LOOK, METHOD, STUDIES, THRESHOLD
from edgeseg.config import AUTO, CHOICES, DEFAULT_PRESET, ODD, PRESETS, FitConfig
from edgeseg.data.datasets import Dataset, open_dataset
from edgeseg.data.samples import sample_size
from edgeseg.fitting.locator.wish import check_wish
from edgeseg.fitting.variants import check_opened, settle_variants
from edgeseg.model.backbones import BACKBONES
from edgeseg.modelfile.header import check_artefact_name
from edgeseg.vision.geometry import Geometry, Roi
from edgeseg.vision.ignored import read_regions


class LayersOrNone(Numbers):
    """Numbers of layers with commas between them, or none."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """Convert a text to numbers; there are none of them in none."""
        return () if value == "none" else super().convert(value, param, ctx)

    def text(self, numbers: Iterable[object]) -> str:
        """Write the numbers as a user types them."""
        return super().text(numbers) or "none"


_COUNTS = range(1, 100)
LAYERS = Numbers("N,N", sign=",", counts=_COUNTS, expected="layer numbers such as 1,2,3")
MAP_LAYERS = LayersOrNone(
    "N,N|none", sign=",", counts=_COUNTS, expected="layer numbers such as 1,2, or none"
)
_LISTS = {"size_hw": SIZE, "layers": LAYERS, "map_layers": MAP_LAYERS}
_NO_DOWNLOAD = [spec.name for spec in BACKBONES.values() if spec.package is not None]


def _default(name: str) -> str:
    """Write the default of a setting as the help shows it, with that of presets that differ."""
    texts = {preset: _text(name, getattr(config, name)) for preset, config in PRESETS.items()}
    usual = texts.pop(DEFAULT_PRESET)
    others = [f"; {preset}: {text}" for preset, text in texts.items() if text != usual]
    return f"  [default: {usual}{''.join(others)}]"


def _text(name: str, value: Any) -> str:
    """Write the value of a setting as it is typed."""
    if name in ODD and value == AUTO:
        return "auto"
    if value is None:
        return "those that suit the backbone"
    if isinstance(value, tuple):
        return _LISTS[name].text(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


class NumberOrAuto(click.ParamType):  # type: ignore[type-arg]  # generic in later versions alone
    """A whole number, or auto."""

    name = "N|auto"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Convert a text to the number that FitConfig has."""
        if str(value) == "auto":
            return AUTO
        if not str(value).isdecimal():
            self.fail(f"{value!r}: expected an odd number such as 3, or auto", param, ctx)
        return int(value)


@dataclass(frozen=True, kw_only=True)
class FitPlan:
    """A fit that can begin: settings, dataset and output path are checked."""

    config: FitConfig
    dataset: Dataset
    out: Path


@dataclass(frozen=True, kw_only=True)
class FitSettings:
    """Settings of a fit as they were typed; None is the value of the preset or of the graph."""

    preset: str = typed(
        DEFAULT_PRESET,
        "edge: fast and accurate. paper: the published method. Other options override its values.",
        kind=RegistryName(PRESETS),
        group=METHOD,
    )
    backbone: str | None = typed(
        None,
        f"Network to use. Without a download: {', '.join(_NO_DOWNLOAD)}.{_default('backbone')}",
        kind=RegistryName(BACKBONES),
        group=METHOD,
    )
    weights: str | None = typed(
        None,
        "A .pth file for the backbone, or `random` for experiments.  [default: published ones]",
        group=METHOD,
    )
    size_hw: tuple[int, int] | None = typed(
        None,
        f"Size that images are resized to, such as 704x256 or 256.{_default('size_hw')}",
        kind=SIZE,
        flags=("--size",),
        group=LOOK,
    )
    roi: str | None = typed(
        None,
        "Look only at this rectangle of the images, in the fit and later, such as 200,80,900,700.",
        metavar="X,Y,W,H",
        group=LOOK,
    )
    ignore: Path | None = typed(
        None,
        "Regions to ignore: a JSON file of polygons, or a picture that is white there.",
        kind=FILE,
        group=LOOK,
    )
    locate: str | None = typed(
        None,
        "Find the part first, where parts lie anywhere. blob: by its outline; the background is "
        "left out (blob,background=yes: it counts too). anchor:X,Y,W,H[,angles=10]: by this "
        "rectangle of the first image, which all images must show. blobs[,count=8]: several parts "
        "in every image, each found by its outline, cut out and judged; a defect in one is a "
        "defect of the image, and one that touches another makes it invalid. "
        "auto[,anchor:X,Y,W,H]: what finds most planted defects, not at all included.",
        metavar="HOW",
        group=LOOK,
    )
    tile: tuple[int, int] | None = typed(
        None,
        "Cut images, of --size or of their own size, into tiles, and fit one model on all tiles; "
        "for large images. Example: 512.",
        kind=SIZE,
        group=LOOK,
    )
    overlap: int | None = typed(
        None, "Pixels that neighbouring tiles share.  [default: an eighth of the tile]", group=LOOK
    )
    tiles: Literal["shared", "own"] | None = typed(
        None,
        "shared: one model for all tiles. own: a Gaussian for every place of the image, "
        "which is what a fit without --tile does.  [default: shared]",
        group=LOOK,
    )
    false_alarm_rate: float | None = typed(
        None,
        "Share of good parts that may be called defective; it chooses the threshold."
        f"{_default('false_alarm_rate')}",
        group=THRESHOLD,
    )
    promise: str | None = typed(
        None,
        "How the rate becomes a threshold. tail: by how the highest good scores fall off, so that "
        "one odd picture does not decide it. conformal: by ranks alone, which with --calibration "
        f"holdout is exact for any distribution.{_default('promise')}",
        kind=click.Choice(CHOICES["promise"]),
        group=THRESHOLD,
    )
    calibration: str | None = typed(
        None,
        "cross: every image serves the fit and the threshold, by cross-validation. holdout: some "
        f"images are set aside for the threshold.{_default('calibration')}",
        kind=click.Choice(CHOICES["calibration"]),
        group=THRESHOLD,
    )
    holdout: float | None = typed(
        None,
        f"Share of images set aside with --calibration holdout.{_default('holdout')}",
        group=THRESHOLD,
    )
    folds: int | None = typed(
        None, f"Folds of --calibration cross.{_default('folds')}", group=THRESHOLD
    )
    layers: tuple[int, ...] | None = typed(
        None, f"Layers of the backbone to use.{_default('layers')}", kind=LAYERS
    )
    stride: int | None = typed(
        None, f"Pixels per grid cell: 4 is finer, 8 is faster.{_default('stride')}"
    )
    interpolation: str | None = typed(
        None,
        f"How coarser layers are brought to the grid.{_default('interpolation')}",
        kind=click.Choice(CHOICES["interpolation"]),
    )
    context: int | None = typed(
        None,
        "Add to every feature its mean over N x N cells of its layer. 1: none. auto: the N that "
        f"suits the backbone.{_default('context')}",
        kind=NumberOrAuto(),
    )
    embedding: str | None = typed(
        None,
        "How the features are reduced to k; identity keeps all, for --rank and --directions to "
        f"choose among the eigenvectors of every location.{_default('embedding')}",
        kind=click.Choice(CHOICES["embedding"]),
    )
    k: int | None = typed(
        None, f"Features after the embedding.{_default('k')}", flags=("-k", "--k")
    )
    rank: float | None = typed(
        None,
        "Directions kept at every location: a share of k, a number, or 0 for all."
        f"{_default('rank')}",
    )
    directions: str | None = typed(
        None,
        "Which directions --rank keeps. lower: of smallest variance. higher: of largest."
        f"{_default('directions')}",
        kind=click.Choice(CHOICES["directions"]),
    )
    covariance: str | None = typed(
        None,
        f"local: one covariance at every location. global: one for all.{_default('covariance')}",
        kind=click.Choice(CHOICES["covariance"]),
    )
    pool: int | None = typed(
        None,
        "Pool the statistics of N x N neighbours. auto: the N that suits the good images."
        f"{_default('pool')}",
        kind=NumberOrAuto(),
    )
    share: int | None = typed(
        None, f"N x N cells use one Gaussian: smaller and faster.{_default('share')}"
    )
    ridge: float | None = typed(
        None, f"Number added to every variance before inversion.{_default('ridge')}"
    )
    ridge_unit: str | None = typed(
        None,
        "Unit of --ridge. mean_square: that of the embedded features. absolute: 1."
        f"{_default('ridge_unit')}",
        kind=click.Choice(CHOICES["ridge_unit"]),
    )
    map_layers: tuple[int, ...] | None = typed(
        None,
        "Layers with Gaussians of their own for the map, or none. The map shows where a part is "
        "odd, and shallow layers say that more sharply; the score, which decides, does not use "
        f"them.{_default('map_layers')}",
        kind=MAP_LAYERS,
    )
    map_ridge: float | None = typed(
        None,
        "Added to every variance for a map with layers of its own, in mean squares of the "
        "features. A larger one lets all directions count alike, which is worse for a verdict and "
        f"better for a place.{_default('map_ridge')}",
    )
    sigma: float | None = typed(None, f"Gaussian blur of the map, in pixels.{_default('sigma')}")
    top: int | None = typed(
        None,
        f"The score is the mean of the N highest cells; 1: the map's maximum.{_default('top')}",
    )
    seed: int | None = typed(
        None, f"Seed of the embedding and of the choice of calibration images.{_default('seed')}"
    )

    def config(self, base: FitConfig | None = None) -> FitConfig:
        """Return the settings: the preset's, and those that were typed. `plan` adds the tiles.

        `base` has the settings of a backbone's graph, which take the place of a preset.
        """
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        given = {name: value for name, value in values.items() if value is not None}
        tile, overlap, tiles = (given.pop(name, None) for name in ("tile", "overlap", "tiles"))
        given.pop("weights", None)
        geometry = _geometry(*(given.pop(name, None) for name in ("roi", "ignore", "locate")))
        given["geometry"] = geometry
        preset = given.pop("preset")
        if base is not None and preset != DEFAULT_PRESET:
            raise UsageError(
                Setting("preset", preset), ": a graph brings its settings; leave one of them out"
            )
        config = (base or FitConfig.preset(preset)).with_options(given)
        if tile is None and (overlap is not None or tiles == "shared"):
            raise UsageError("--overlap and --tiles are settings of tiles; add --tile, such as 512")
        if tile is not None and tiles == "own":
            size = "x".join(str(side) for side in self.size_hw or ("HEIGHT", "WIDTH"))
            raise UsageError(
                "--tiles own: a Gaussian for every place of the image is what a fit without --tile "
                f"has, without seams and overlaps; leave --tile out and give --size {size} with a "
                "--share that fits into memory"
            )
        return config

    def plan(
        self,
        data: Path,
        out: Path,
        *,
        layout: str | None,
        fold: int | None,
        base: FitConfig | None = None,
        variants: bool = False,
    ) -> FitPlan:
        """Check settings, files and output path before torch is loaded.

        Where parts lie is learned later, by the fit itself: see `settle_geometry`.
        """
        check_artefact_name(out)
        config, dataset = self.open(data, layout=layout, fold=fold, base=base, variants=variants)
        check_writable(out)
        return FitPlan(config=config, dataset=dataset, out=out)

    def open(
        self,
        data: Path,
        *,
        layout: str | None,
        fold: int | None,
        base: FitConfig | None = None,
        variants: bool = False,
    ) -> tuple[FitConfig, Dataset]:
        """Open the images, and return the settings for them."""
        config = self.config(base)
        dataset = open_dataset(data, layout=layout, fold=fold, seed=config.seed, variants=variants)
        config = self._cut_into_tiles(config, dataset)
        if variants:
            check_opened(dataset)
            config = settle_variants(config, dataset)
        return config, dataset

    def _cut_into_tiles(self, config: FitConfig, dataset: Dataset) -> FitConfig:
        """Add the tiles of --tile, cut from frames of --size or of the first image's size."""
        tile, overlap = self.tile, self.overlap
        if tile is None:
            return config
        return config.with_options(
            {
                "size_hw": tile,
                "frame_hw": self.size_hw or sample_size(dataset.train[0]),
                "overlap": min(tile) // 8 if overlap is None else overlap,
            }
        )


def _geometry(roi: str | None, ignore: Path | None, locate: str | None) -> Geometry:
    check_wish(locate or "")
    return Geometry(
        locate=locate or "",
        roi=None if roi is None else Roi.parse(roi),
        ignore=() if ignore is None else read_regions(ignore),
    )


settings_options = takes("settings", FitSettings, group=STUDIES)
