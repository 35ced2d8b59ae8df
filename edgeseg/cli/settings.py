"""The settings of a fit as options, for every command that begins one."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from edgeseg.config import CHOICES, EMBEDDINGS, PRESETS, FitConfig
from edgeseg.errors import UsageError

if TYPE_CHECKING:
    from edgeseg.data.datasets import Dataset


def parse_size(value: str | tuple[int, int]) -> tuple[int, int]:
    """HEIGHTxWIDTH, or one number for a square: 704x256, 256."""
    if isinstance(value, tuple):
        return value
    parts = value.lower().split("x")
    if len(parts) > 2 or not all(part.isdecimal() for part in parts):
        raise click.BadParameter(f"{value!r}: expected HEIGHTxWIDTH such as 704x256, or one number")
    return int(parts[0]), int(parts[-1])


def parse_layers(value: str | tuple[int, ...]) -> tuple[int, ...]:
    """Layer numbers with commas: 1,2,3."""
    if isinstance(value, tuple):
        return value
    parts = [part.strip() for part in value.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise click.BadParameter(f"{value!r}: expected layer numbers such as 1,2,3")
    return tuple(int(part) for part in parts)


_KEY = "edgeseg.settings"


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    ctx.meta.setdefault(_KEY, {})[param.name] = value


# Two dozen settings that no command looks at one by one: it asks for `said_settings()`.
_setting = partial(click.option, expose_value=False, callback=_keep)

_OPTIONS = (
    click.option(
        "--preset",
        type=click.Choice(tuple(PRESETS)),
        default="edge",
        show_default=True,
        help="edge: fast and accurate. paper: the published method. Options below override.",
    ),
    _setting(
        "--backbone",
        help="resnet18 (default), mobilenet_v3_small, mobilenet_v3_large, "
        "wide_resnet50_2 or efficientnet_lite0 (needs no download).",
    ),
    click.option("--weights", help="A .pth file of the backbone, or `random` for experiments."),
    _setting(
        "--size", "size_hw", type=parse_size, metavar="HxW", help="Size the images are brought to."
    ),
    _setting(
        "--tile",
        type=parse_size,
        metavar="HxW",
        help="Fit one model on tiles of the images, cut at --size or at their own size.",
    ),
    _setting(
        "--overlap", type=int, help="Pixels that tiles share.  [default: an eighth of the tile]"
    ),
    _setting(
        "--tiles",
        type=click.Choice(("shared", "own")),
        help="shared: one model for all tiles. own: a Gaussian for every place of the image, "
        "which is what a fit without --tile does.  [default: shared]",
    ),
    _setting(
        "--layers",
        type=parse_layers,
        metavar="N,N",
        help="Layers of the backbone to use, such as 1,2,3.",
    ),
    _setting("--stride", type=int, help="Pixels per grid cell: 4 is finer, 8 is faster."),
    _setting(
        "--interpolation",
        type=click.Choice(CHOICES["interpolation"]),
        help="How layers reach the grid.",
    ),
    _setting(
        "--embedding",
        type=click.Choice(EMBEDDINGS),
        help="How F features become k; identity "
        "with --rank and --directions keeps the eigenvectors of every location.",
    ),
    _setting("-k", "--k", type=int, help="Size of the embedding."),
    _setting(
        "--rank",
        type=float,
        help="Directions kept per location: a share of k, a number, or 0 for all.",
    ),
    _setting(
        "--directions",
        type=click.Choice(CHOICES["directions"]),
        help="Of smallest variance or largest.",
    ),
    _setting(
        "--covariance",
        type=click.Choice(CHOICES["covariance"]),
        help="Per location, or one for all.",
    ),
    _setting("--pool", type=int, help="Pool statistics with N x N neighbours."),
    _setting("--share", type=int, help="N x N cells use one Gaussian: smaller and faster."),
    _setting("--ridge", type=float, help="Added to every variance before inversion."),
    _setting("--sigma", type=float, help="Blur of the map in pixels."),
    _setting("--top", type=int, help="Score: mean of the N highest cells; 1: maximum of the map."),
    _setting("--seed", type=int, help="Of the embedding and the choice of calibration images."),
    _setting(
        "--calibration",
        type=click.Choice(CHOICES["calibration"]),
        help="cross: every image is fitted and calibrated on. holdout: some are set aside.",
    ),
    _setting("--holdout", type=float, help="Share of images set aside with --calibration holdout."),
    _setting("--folds", type=int, help="Folds of --calibration cross."),
    _setting("--false-alarm-rate", type=float, help="Good images that may be flagged."),
)


def settings_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add all settings, in this order."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def said_settings() -> dict[str, Any]:
    """The settings of the command that is running, for `read_settings`; None: not said."""
    settings: dict[str, Any] = click.get_current_context().meta[_KEY]
    return settings


def read_settings(preset: str, settings: dict[str, Any]) -> FitConfig:
    """A preset, with what was said beside it; tiles wait for the images, see `cut_into_tiles`."""
    given = {name: value for name, value in settings.items() if value is not None}
    tile, overlap, tiles = (given.pop(name, None) for name in ("tile", "overlap", "tiles"))
    config = FitConfig.preset(preset).with_options(given)
    if tile is None and (overlap is not None or tiles == "shared"):
        raise UsageError("--overlap and --tiles are settings of tiles; add --tile, such as 512")
    if tile is not None and tiles == "own":
        size = "x".join(str(side) for side in settings["size_hw"] or ("HEIGHT", "WIDTH"))
        raise UsageError(
            "--tiles own: a Gaussian for every place of the image is what a fit without --tile "
            f"has, without seams and overlaps; leave --tile out and give --size {size} with a "
            "--share that fits into memory"
        )
    return config


def cut_into_tiles(config: FitConfig, settings: dict[str, Any], dataset: "Dataset") -> FitConfig:
    """The settings for tiles, if --tile was given: of frames of --size, or of the first image's."""
    tile = settings["tile"]
    if tile is None:
        return config
    from edgeseg.data.samples import sample_size

    overlap = settings["overlap"]
    return config.with_options(
        {
            "size_hw": tile,
            "frame_hw": settings["size_hw"] or sample_size(dataset.train[0]),
            "overlap": min(tile) // 8 if overlap is None else overlap,
        }
    )
