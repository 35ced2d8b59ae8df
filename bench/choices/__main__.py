"""Candidate settings side by side, one row each: the frame in which a default is chosen.

python -m edgeseg.bench.choices mvtec_ad more --setting edge: \
    --setting 'top1:top=1' --setting 'lite:backbone=efficientnet_lite0,ridge=0.3' \
    --seed 0 --seed 1 --out choices

Settings are fields of FitConfig, on top of `preset=NAME` (edge). The first one is what others are
compared with. A run that was killed goes on where it was.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import click
import torch

from edgeseg.base.errors import EdgesegError, UsageError
from edgeseg.base.options import FOLDER, SIZE, note
from edgeseg.bench.choices.tables import Comparison, Figures
from edgeseg.bench.choices.trial import FeatureMemory, TrialResult, try_setting
from edgeseg.bench.harness.accuracy import categories_in, fingerprint, open_limited
from edgeseg.bench.harness.machine import describe
from edgeseg.bench.harness.report import Report, write_report
from edgeseg.bench.harness.units import FAILED, Result, Store, Unit, run_units
from edgeseg.config import DEFAULT_PRESET, FitConfig
from edgeseg.data.datasets import Dataset
from edgeseg.fitting.fitting import FitOptions

# What no row of the report has.
NOTE = (
    "milliseconds are of exported files, in one interleaved run of `edgeseg bench latency`: "
    "bench/results/decide/map_and_tail/latency/report.md"
)


@dataclass(frozen=True, kw_only=True)
class CandidateSetting:
    """A candidate: settings of a fit, and a name."""

    name: str
    config: FitConfig

    @classmethod
    def parse(cls, text: str) -> "CandidateSetting":
        """Read `name:key=value,key=value`; layers as 1+2+3, sizes as 320x320."""
        name, colon, rest = text.partition(":")
        if not name or not colon:
            raise UsageError(
                f"setting {text!r}: expected NAME:KEY=VALUE,KEY=VALUE, for example top1:top=1"
            )
        pairs = [part.partition("=") for part in rest.split(",") if part]
        given = {key.strip(): value.strip() for key, _, value in pairs}
        config = FitConfig.preset(given.pop("preset", DEFAULT_PRESET))
        options = {key: _value(config, key, value) for key, value in given.items()}
        return cls(name=name, config=config.with_options(options))

    def config_for(self, seed: int) -> FitConfig:
        """Return the settings with another seed: another W, other folds and planted defects."""
        return replace(self.config, seed=seed)


def _value(config: FitConfig, key: str, text: str) -> Any:
    """Convert a text to the type that the setting has; `map_layers=` is none."""
    known = {item.name: getattr(config, item.name) for item in fields(config)}
    if key not in known:
        raise UsageError(f"unknown settings {[key]}; expected names of FitConfig")
    try:
        if key in ("size_hw", "frame_hw"):
            return SIZE.convert(text, None, None)
        if key in ("layers", "map_layers"):
            return tuple(int(part) for part in text.split("+") if text)
        return type(known[key])(text)
    except (ValueError, click.BadParameter):
        like = "1+2" if key.endswith("layers") else repr(known[key])
        raise UsageError(f"{key}={text!r}: expected a value like {like}") from None


class Trials:
    """Units of work: categories, then backbones, so that one memory serves many of them."""

    def __init__(self, datasets: Sequence[Dataset], options: FitOptions) -> None:
        self.datasets, self.options = datasets, options
        self._shared: tuple[object, ...] = ()
        self._memory = FeatureMemory()

    def units(self, settings: Sequence[CandidateSetting], seeds: Sequence[int]) -> Iterator[Unit]:
        """List one unit for each setting, category and seed."""
        alike = sorted(settings, key=lambda each: str(_map_settings(each.config)))
        for dataset in self.datasets:
            data = fingerprint(dataset)
            for setting in alike:
                for seed in seeds:
                    config = setting.config_for(seed)
                    yield Unit(
                        name=unit_name(setting.name, dataset.name, seed),
                        settings={
                            "config": config.to_dict(),
                            "data": data,
                            "planted": self.options.planted,
                            "weights": self.options.weights,
                        },
                        run=partial(self._run, dataset, config),
                        weight=len(dataset.train) * config.k**2,
                    )

    def _run(self, dataset: Dataset, config: FitConfig) -> Result:
        shared = (dataset.name, *_map_settings(config))
        if shared != self._shared:
            self._shared, self._memory = shared, FeatureMemory()
        try:
            tried = try_setting(dataset, config, memory=self._memory, options=self.options)
        except EdgesegError as error:
            return {FAILED: str(error)}
        return tried.to_dict()


def _map_settings(config: FitConfig) -> tuple[object, ...]:
    """Settings that feature maps depend on."""
    return config.backbone, config.layers, config.image_hw, config.size_hw


def unit_name(setting: str, category: str, seed: int) -> str:
    """Name of the unit of one fit."""
    return f"{setting} {category} seed {seed}"


def comparison(
    results: dict[str, Result],
    settings: Sequence[str],
    categories: Sequence[str],
    seeds: Sequence[int],
) -> Comparison:
    """Read the results of units; those that failed are left out."""
    figures = {}
    for setting in settings:
        for category in categories:
            for seed in seeds:
                result = results.get(unit_name(setting, category, seed), {FAILED: ""})
                if FAILED not in result:
                    figures[setting, category, seed] = Figures.of(TrialResult.from_dict(result))
    return Comparison(figures)


@click.command()
@click.argument("data", type=FOLDER, nargs=-1, required=True)
@click.option("--setting", "texts", multiple=True, required=True, help="NAME:KEY=VALUE,KEY=VALUE.")
@click.option("--seed", "seeds", type=int, multiple=True, default=(0,), show_default=True)
@click.option("--weights", help="Backbone weights; found as in `edgeseg fit` when absent.")
@click.option("--planted", default=FitOptions.planted, show_default=True, help="0: none.")
@click.option("--category", "only", multiple=True, help="These alone; all by default.")
@click.option("--limit", type=click.IntRange(2), help="Images of each kind, for a rehearsal.")
@click.option("--out", type=FOLDER, required=True, help="Folder of the report and its units.")
@click.option("--fresh", is_flag=True, help="Forget earlier results.")
def main(
    data: tuple[Path, ...],
    texts: tuple[str, ...],
    seeds: tuple[int, ...],
    weights: str | None,
    planted: int,
    only: tuple[str, ...],
    limit: int | None,
    out: Path,
    fresh: bool,
) -> None:
    """Try settings on every category of folders laid out as MVTec AD."""
    try:
        settings = [CandidateSetting.parse(text) for text in texts]
        folders = [path for root in data for path in categories_in(root)]
        chosen = [path for path in folders if not only or path.name in only]
        datasets = [open_limited(path, limit=limit) for path in chosen]
        options = FitOptions(weights=weights, keep_moments=False, planted=planted)
        units = list(Trials(datasets, options).units(settings, seeds))
        done = run_units(units, Store(out, fresh=fresh), note=note)
    except EdgesegError as error:
        raise click.ClickException(str(error)) from None
    names = [setting.name for setting in settings]
    compared = comparison(done.results, names, [each.name for each in datasets], seeds)
    failed = {name: each[FAILED] for name, each in done.results.items() if FAILED in each}
    report = Report(
        name="choices",
        title="Settings side by side",
        findings=tuple(f"{setting.name}: {_changes(setting.config)}" for setting in settings),
        tables=tuple(compared.tables()),
        figures=(),
        facts=describe(threads=torch.get_num_threads(), seeds=tuple(seeds))
        | {"commits": list(done.commits), "work_seconds": done.seconds},
        notes=(
            *(f"{each.name}: {line}" for each in datasets for line in each.notes),
            *(f"{name} failed: {reason}" for name, reason in failed.items()),
            NOTE,
        ),
        raw=done.results,
    )
    write_report(report, out)
    click.echo(next(compared.tables()).markdown())
    click.echo(f"wrote {out / 'report.md'}", err=True)


def _changes(config: FitConfig) -> str:
    """List the settings that differ from the default."""
    default = FitConfig().to_dict()
    other = {key: value for key, value in config.to_dict().items() if value != default[key]}
    return ", ".join(f"{key}={value}" for key, value in other.items()) or "the default"


if __name__ == "__main__":
    main()
