"""`edgeseg fit DATA --smallest 12`, without a model to write: can a defect of that size be seen?"""

from pathlib import Path

import click

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Message, Setting
from edgeseg.cli.data_options import PassOptions
from edgeseg.cli.fit_settings import FitSettings
from edgeseg.config import FitConfig
from edgeseg.data.samples import sample_size
from edgeseg.fitting.locator.wish import asks_to_choose
from edgeseg.fitting.smallest import what_is_seen


def answer_smallest(
    data: Path,
    smallest: int,
    settings: FitSettings,
    images: PassOptions,
    *,
    base: FitConfig | None,
    variants: bool,
) -> None:
    """Print whether a fit with these settings could see it; nothing is fitted."""
    from edgeseg.fitting.spaces import settle_geometry

    options = images.fit_options()
    config, dataset = settings.open(
        data, layout=images.layout, fold=images.fold, base=base, variants=variants
    )
    if asks_to_choose(config.geometry.locate):
        raise UsageError(
            Setting("locate", config.geometry.locate),
            ": the fit finds out how parts are found, and only then what the model looks at; name "
            "one way, or add ",
            Setting("out", "part.edgeseg"),
        )
    most = options.max_pixels
    config = settle_geometry(config, dataset, note=options.note, max_pixels=most)
    hint = "nothing was fitted; to fit, add --out part.edgeseg"
    try:
        answer = what_is_seen(config, sample_size(dataset.train[0], max_pixels=most), smallest)
    except UsageError as refusal:
        answer = next(part for part in refusal.args if isinstance(part, Message))
        hint = "nothing was fitted, and a fit with these settings is refused"
    click.echo(str(answer))
    options.note(hint)
