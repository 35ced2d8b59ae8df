"""What a study takes that fits some categories of a data set: a folder, settings, and a JSON."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import click

from edgeseg.bench.harness.accuracy import open_limited
from edgeseg.config import PRESETS, FitConfig
from edgeseg.data.datasets import Dataset
from edgeseg.files import size_text, write_json
from edgeseg.options import PATH


@dataclass(frozen=True, kw_only=True)
class CategoryStudy:
    """What was asked for."""

    data: Path
    categories: tuple[str, ...]
    preset: str
    backbone: str
    weights: str | None
    seed: int
    limit: int | None
    out: Path | None

    @property
    def config(self) -> FitConfig:
        """Of every fit."""
        return FitConfig.preset(self.preset).with_options({"backbone": self.backbone})

    def datasets(self) -> Iterator[Dataset]:
        """One category after the other, cut for a rehearsal."""
        for category in self.categories:
            yield open_limited(self.data / category, limit=self.limit)

    def keep(self, rows: Sequence[Any]) -> None:
        """Write what was measured so far: the next category takes minutes."""
        if self.out is not None:
            write_json(self.out, [asdict(row) for row in rows])

    def tell(self) -> None:
        """Say what was written."""
        if self.out is not None:
            click.echo(f"wrote {self.out}, {size_text(self.out.stat().st_size)}", err=True)


def gathered(name: str, value: Callable[..., Any], *options: Any) -> Callable[[Any], Any]:
    """Options that reach a study as one argument: `name`, made by `value` of theirs."""

    def decorate(command: Callable[..., Any]) -> Any:
        @wraps(command)
        def called(**values: Any) -> Any:  # as click calls every command
            own = {each: values.pop(each) for each in names}
            return command(**values, **{name: value(**own)})

        before = len(getattr(called, "__click_params__", []))
        for option in reversed(options):
            option(called)
        names = [param.name for param in called.__click_params__[before:]]  # type: ignore[attr-defined]
        return called

    return decorate


def category_options(*, backbone: str, seed_of: str) -> Callable[[Any], Any]:
    """Options that reach a study as one CategoryStudy, `study`."""
    folder = click.Path(exists=True, file_okay=False, path_type=Path)
    weights = "Backbone weights; found as in `edgeseg fit` when absent."
    return gathered(
        "study",
        CategoryStudy,
        click.argument("data", type=folder),
        click.option(
            "--category", "categories", multiple=True, required=True, help="Folder in DATA."
        ),
        click.option(
            "--preset", type=click.Choice(tuple(PRESETS)), default="edge", show_default=True
        ),
        click.option("--backbone", default=backbone, show_default=True),
        click.option("--weights", help=weights),
        click.option("--seed", default=0, show_default=True, help=f"Of {seed_of}."),
        click.option(
            "--limit", type=click.IntRange(2), help="Images of each kind, for a rehearsal."
        ),
        click.option("--out", type=PATH, help="JSON with all rows."),
    )
