"""The settings of a fit as options, for every command that begins one."""

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
from edgeseg.config import AUTO, CHOICES, DEFAULT_PRESET, PRESETS, FitConfig
from edgeseg.data.datasets import Dataset, open_dataset
from edgeseg.data.samples import sample_size
from edgeseg.model.backbones import BACKBONES
from edgeseg.vision.anchor import check_locate
from edgeseg.vision.geometry import Geometry, Roi
from edgeseg.vision.ignored import read_regions

LAYERS = Numbers("N,N", sign=",", counts=range(1, 100), expected="layer numbers such as 1,2,3")
_NO_DOWNLOAD = [spec.name for spec in BACKBONES.values() if spec.package is not None]


class NumberOrAuto(click.ParamType):  # type: ignore[type-arg]  # generic in later versions alone
    """A whole number, or auto."""

    name = "N|auto"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """A text to the number of FitConfig."""
        if str(value) == "auto":
            return AUTO
        if not str(value).isdecimal():
            self.fail(f"{value!r}: expected an odd number such as 3, or auto", param, ctx)
        return int(value)


@dataclass(frozen=True, kw_only=True)
class FitPlan:
    """A fit that can begin: what it may be wrong about was looked at."""

    config: FitConfig
    dataset: Dataset
    out: Path


@dataclass(frozen=True, kw_only=True)
class FitSettings:
    """What was said of a fit; None: not said, and the preset's or the graph's own."""

    preset: str = typed(
        DEFAULT_PRESET,
        "edge: fast and accurate. paper: the published method. Options below override.",
        kind=RegistryName(PRESETS),
        group=METHOD,
    )
    backbone: str | None = typed(
        None,
        f"{', '.join(_NO_DOWNLOAD)}: no download.  [default: {FitConfig.backbone}]",
        kind=RegistryName(BACKBONES),
        group=METHOD,
    )
    weights: str | None = typed(
        None, "A .pth file of the backbone, or `random` for experiments.", group=METHOD
    )
    size_hw: tuple[int, int] | None = typed(
        None, "Size the images are brought to.", kind=SIZE, flags=("--size",), group=LOOK
    )
    roi: str | None = typed(
        None, "Look only at this part of the images, here and later.", metavar="X,Y,W,H", group=LOOK
    )
    ignore: Path | None = typed(
        None,
        "Regions that do not matter: JSON of polygons, or a picture that is white there.",
        kind=FILE,
        group=LOOK,
    )
    locate: str | None = typed(
        None,
        "Parts lie anywhere: blob finds them by their outline and leaves out what they lie on "
        "(blob,background=yes: looks there too), anchor:X,Y,W,H[,angles=10] finds a rectangle of "
        "the first image that all have.",
        metavar="HOW",
        group=LOOK,
    )
    tile: tuple[int, int] | None = typed(
        None,
        "Fit one model on tiles of the images, cut at --size or at their own size.",
        kind=SIZE,
        group=LOOK,
    )
    overlap: int | None = typed(
        None, "Pixels that tiles share.  [default: an eighth of the tile]", group=LOOK
    )
    tiles: Literal["shared", "own"] | None = typed(
        None,
        "shared: one model for all tiles. own: a Gaussian for every place of the image, "
        "which is what a fit without --tile does.  [default: shared]",
        group=LOOK,
    )
    false_alarm_rate: float | None = typed(
        None, "Good images that may be flagged.", group=THRESHOLD
    )
    calibration: str | None = typed(
        None,
        "cross: every image is fitted and calibrated on. holdout: some are set aside.",
        kind=click.Choice(CHOICES["calibration"]),
        group=THRESHOLD,
    )
    holdout: float | None = typed(
        None, "Share of images set aside with --calibration holdout.", group=THRESHOLD
    )
    folds: int | None = typed(None, "Folds of --calibration cross.", group=THRESHOLD)
    layers: tuple[int, ...] | None = typed(
        None, "Layers of the backbone to use, such as 1,2,3.", kind=LAYERS
    )
    stride: int | None = typed(None, "Pixels per grid cell: 4 is finer, 8 is faster.")
    interpolation: str | None = typed(
        None, "How layers reach the grid.", kind=click.Choice(CHOICES["interpolation"])
    )
    context: int | None = typed(
        None,
        "Beside every feature its mean over N x N cells of its layer; 1: none, auto: what the "
        "backbone is best with.",
        kind=NumberOrAuto(),
    )
    embedding: str | None = typed(
        None,
        "How F features become k; identity "
        "with --rank and --directions keeps the eigenvectors of every location.",
        kind=click.Choice(CHOICES["embedding"]),
    )
    k: int | None = typed(None, "Size of the embedding.", flags=("-k", "--k"))
    rank: float | None = typed(
        None, "Directions kept per location: a share of k, a number, or 0 for all."
    )
    directions: str | None = typed(
        None, "Of smallest variance or largest.", kind=click.Choice(CHOICES["directions"])
    )
    covariance: str | None = typed(
        None, "Per location, or one for all.", kind=click.Choice(CHOICES["covariance"])
    )
    pool: int | None = typed(
        None,
        "Pool statistics with N x N neighbours; auto: as the good images ask for.",
        kind=NumberOrAuto(),
    )
    share: int | None = typed(None, "N x N cells use one Gaussian: smaller and faster.")
    ridge: float | None = typed(None, "Added to every variance before inversion.")
    ridge_unit: str | None = typed(
        None,
        "Of --ridge: the mean square of the embedded features, or 1.",
        kind=click.Choice(CHOICES["ridge_unit"]),
    )
    sigma: float | None = typed(None, "Blur of the map in pixels.")
    top: int | None = typed(None, "Score: mean of the N highest cells; 1: maximum of the map.")
    seed: int | None = typed(None, "Of the embedding and the choice of calibration images.")

    def config(self, base: FitConfig | None = None) -> FitConfig:
        """The preset with what was said beside it; tiles wait for the images, see `plan`.

        `base` has the settings of a backbone's graph, which take the place of a preset.
        """
        said = {item.name: getattr(self, item.name) for item in fields(self)}
        given = {name: value for name, value in said.items() if value is not None}
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
    ) -> FitPlan:
        """Look at settings, files and the place of the result before torch is loaded.

        What a fit learns of where parts lie it says itself: see `settle_geometry`.
        """
        config = self.config(base)
        dataset = open_dataset(data, layout=layout, fold=fold, seed=config.seed)
        check_writable(out)
        return FitPlan(config=self._cut_into_tiles(config, dataset), dataset=dataset, out=out)

    def _cut_into_tiles(self, config: FitConfig, dataset: Dataset) -> FitConfig:
        """For tiles, if --tile was given: of frames of --size, or of the first image's."""
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
    check_locate(locate or "")
    return Geometry(
        locate=locate or "",
        roi=None if roi is None else Roi.parse(roi),
        ignore=() if ignore is None else read_regions(ignore),
    )


settings_options = takes("settings", FitSettings, group=STUDIES)
