"""The settings of a fit as options, for every command that begins one."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from edgeseg.config import AUTO, CHOICES, DEFAULT_PRESET, PRESETS, FitConfig
from edgeseg.contract.anchor import check_locate
from edgeseg.contract.geometry import Geometry, Roi
from edgeseg.contract.ignored import read_regions
from edgeseg.data.datasets import Dataset, open_dataset
from edgeseg.data.samples import sample_size
from edgeseg.errors import UsageError
from edgeseg.files import check_writable
from edgeseg.model.backbones import BACKBONES
from edgeseg.options import FILE, SIZE, Entry, Numbers, gathered

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
    """What was said of a fit, by the names of the options below; None: not said."""

    said: dict[str, Any]

    @property
    def weights(self) -> str | None:
        """A file of the backbone, or `random`."""
        weights: str | None = self.said["weights"]
        return weights

    def config(self, base: FitConfig | None = None) -> FitConfig:
        """The preset with what was said beside it; tiles wait for the images, see `plan`.

        `base` has the settings of a backbone's graph, which take the place of a preset.
        """
        given = {name: value for name, value in self.said.items() if value is not None}
        tile, overlap, tiles = (given.pop(name, None) for name in ("tile", "overlap", "tiles"))
        given.pop("weights", None)
        geometry = _geometry(*(given.pop(name, None) for name in ("roi", "ignore", "locate")))
        given["geometry"] = geometry
        preset = given.pop("preset")
        if base is not None and preset != DEFAULT_PRESET:
            raise UsageError(f"preset={preset}: a graph brings its settings; leave one of them out")
        config = (base or FitConfig.preset(preset)).with_options(given)
        if tile is None and (overlap is not None or tiles == "shared"):
            raise UsageError("--overlap and --tiles are settings of tiles; add --tile, such as 512")
        if tile is not None and tiles == "own":
            size = "x".join(str(side) for side in self.said["size_hw"] or ("HEIGHT", "WIDTH"))
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
        tile, overlap = self.said["tile"], self.said["overlap"]
        if tile is None:
            return config
        return config.with_options(
            {
                "size_hw": tile,
                "frame_hw": self.said["size_hw"] or sample_size(dataset.train[0]),
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


settings_options = gathered(
    "settings",
    lambda **said: FitSettings(said=said),  # two dozen, none of which a command looks at itself
    click.option(
        "--preset",
        type=Entry(PRESETS),
        default=DEFAULT_PRESET,
        show_default=True,
        help="edge: fast and accurate. paper: the published method. Options below override.",
    ),
    click.option(
        "--backbone",
        type=Entry(BACKBONES),
        help=f"{', '.join(_NO_DOWNLOAD)}: no download.  [default: {FitConfig.backbone}]",
    ),
    click.option("--weights", help="A .pth file of the backbone, or `random` for experiments."),
    click.option("--size", "size_hw", type=SIZE, help="Size the images are brought to."),
    click.option(
        "--roi", metavar="X,Y,W,H", help="Look only at this part of the images, here and later."
    ),
    click.option(
        "--ignore",
        type=FILE,
        help="Regions that do not matter: JSON of polygons, or a picture that is white there.",
    ),
    click.option(
        "--locate",
        metavar="HOW",
        help="Parts lie anywhere: blob finds them by their outline and leaves out what they lie on "
        "(blob,background=yes: looks there too), anchor:X,Y,W,H[,angles=10] finds a rectangle of "
        "the first image that all have.",
    ),
    click.option(
        "--tile",
        type=SIZE,
        help="Fit one model on tiles of the images, cut at --size or at their own size.",
    ),
    click.option(
        "--overlap", type=int, help="Pixels that tiles share.  [default: an eighth of the tile]"
    ),
    click.option(
        "--tiles",
        type=click.Choice(("shared", "own")),
        help="shared: one model for all tiles. own: a Gaussian for every place of the image, "
        "which is what a fit without --tile does.  [default: shared]",
    ),
    click.option("--layers", type=LAYERS, help="Layers of the backbone to use, such as 1,2,3."),
    click.option("--stride", type=int, help="Pixels per grid cell: 4 is finer, 8 is faster."),
    click.option(
        "--interpolation",
        type=click.Choice(CHOICES["interpolation"]),
        help="How layers reach the grid.",
    ),
    click.option(
        "--context",
        type=NumberOrAuto(),
        help="Beside every feature its mean over N x N cells of its layer; 1: none, auto: what the "
        "backbone is best with.",
    ),
    click.option(
        "--embedding",
        type=click.Choice(CHOICES["embedding"]),
        help="How F features become k; identity "
        "with --rank and --directions keeps the eigenvectors of every location.",
    ),
    click.option("-k", "--k", type=int, help="Size of the embedding."),
    click.option(
        "--rank",
        type=float,
        help="Directions kept per location: a share of k, a number, or 0 for all.",
    ),
    click.option(
        "--directions",
        type=click.Choice(CHOICES["directions"]),
        help="Of smallest variance or largest.",
    ),
    click.option(
        "--covariance",
        type=click.Choice(CHOICES["covariance"]),
        help="Per location, or one for all.",
    ),
    click.option(
        "--pool",
        type=NumberOrAuto(),
        help="Pool statistics with N x N neighbours; auto: as the good images ask for.",
    ),
    click.option("--share", type=int, help="N x N cells use one Gaussian: smaller and faster."),
    click.option("--ridge", type=float, help="Added to every variance before inversion."),
    click.option(
        "--ridge-unit",
        type=click.Choice(CHOICES["ridge_unit"]),
        help="Of --ridge: the mean square of the embedded features, or 1.",
    ),
    click.option("--sigma", type=float, help="Blur of the map in pixels."),
    click.option(
        "--top", type=int, help="Score: mean of the N highest cells; 1: maximum of the map."
    ),
    click.option("--seed", type=int, help="Of the embedding and the choice of calibration images."),
    click.option(
        "--calibration",
        type=click.Choice(CHOICES["calibration"]),
        help="cross: every image is fitted and calibrated on. holdout: some are set aside.",
    ),
    click.option(
        "--holdout", type=float, help="Share of images set aside with --calibration holdout."
    ),
    click.option("--folds", type=int, help="Folds of --calibration cross."),
    click.option("--false-alarm-rate", type=float, help="Good images that may be flagged."),
)
