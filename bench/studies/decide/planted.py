"""How far planted defects can be trusted: held against real ones, in the results of `choices`.

python -m edgeseg.bench.studies.decide.choices mvtec_ad more --setting edge: ... --out settings
python -m edgeseg.bench.studies.decide.planted settings --out planted

Nothing is fitted: every fit of `choices` kept its scores of planted defects and of test images.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import click
import numpy as np
import torch

from edgeseg.bench.harness.figures import Mark, scattered
from edgeseg.bench.harness.machine import describe
from edgeseg.bench.harness.report import Figure, Report, read_report, write_report
from edgeseg.bench.harness.tabular import Table, column, table_of
from edgeseg.bench.harness.units import FAILED
from edgeseg.bench.studies.decide.choice_tables import RATES
from edgeseg.bench.studies.decide.trial import Tried, at_rate
from edgeseg.contract.operating_point import percent
from edgeseg.contract.prediction import above
from edgeseg.errors import EdgesegError, UsageError
from edgeseg.evaluation.metrics import auroc
from edgeseg.export.verify import rank_correlation
from edgeseg.options import FOLDER

BINS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
MISLEADS = 0.25  # planted and real recall this far apart are named


@dataclass(frozen=True, kw_only=True)
class Fit:
    """One fit of `choices`."""

    setting: str
    category: str
    seed: int
    tried: Tried


# What planted defects say of a fit, and what real ones say.
Pair = tuple[float, float]
FIGURES: dict[str, Callable[[Tried], Pair]] = {
    f"recall {percent(rate)}": lambda tried, rate=rate: _recalls(tried, rate) for rate in RATES
} | {"image AUROC": lambda tried: _aurocs(tried)}


def _recalls(tried: Tried, rate: float) -> Pair:
    point = at_rate(tried, rate)
    if point.planted is None:
        raise UsageError("planted: a fit without planted defects; run choices with --planted 48")
    return point.planted, point.recall


def _aurocs(tried: Tried) -> Pair:
    labels = np.repeat([0, 1], [len(tried.good), len(tried.planted)])
    planted = auroc([*tried.good, *tried.planted], labels)
    real = auroc(tried.scores, tried.labels)
    if planted is None or real is None:
        raise UsageError("planted: a fit without planted or real defects; expected both")
    return planted, real


def fits_in(folder: Path) -> Iterator[Fit]:
    """The fits that a run of `choices` left in its report."""
    report = read_report(folder)
    if report.name != "choices":
        raise UsageError(f"{folder}: a report of {report.name}, expected one of choices")
    for name, result in report.raw.items():
        if FAILED not in result:
            setting, category, _, seed = name.rsplit(" ", 3)
            tried = Tried.from_dict(result)
            yield Fit(setting=setting, category=category, seed=int(seed), tried=tried)


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """How well planted defects tell one figure."""

    figure: str = field(metadata=column("figure"))
    planted: float = field(metadata=column("planted"))
    real: float = field(metadata=column("real"))
    fits: float = field(metadata=column("Spearman, all fits", digits=2))
    categories: float = field(metadata=column("of categories", digits=2))
    settings: float = field(metadata=column("of settings", digits=2))
    within: float = field(metadata=column("of settings, within a category", digits=2))


@dataclass(frozen=True, kw_only=True)
class Bin:
    """Fits with about the same planted recall."""

    rate: str = field(metadata=column("rate"))
    planted: str = field(metadata=column("planted recall"))
    fits: int = field(metadata=column("fits"))
    real: float | None = field(metadata=column("real recall"))
    lowest: float | None = field(metadata=column("lowest"))
    highest: float | None = field(metadata=column("highest"))


@dataclass(frozen=True, kw_only=True)
class OfCategory:
    """What a choice by planted defects would bring on one category."""

    category: str = field(metadata=column("category"))
    planted: float = field(metadata=column("planted"))
    real: float = field(metadata=column("real"))
    apart: float = field(metadata=column("planted - real", signed=True))
    spearman: float = field(metadata=column("Spearman of settings", digits=2))
    chosen: str = field(metadata=column("chosen by planted"))
    reached: float = field(metadata=column("reaches"))
    best: float = field(metadata=column("the best reaches"))
    mean: float = field(metadata=column("mean of all"))


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of planted defect."""

    kind: str = field(metadata=column("kind"))
    copies: int = field(metadata=column("copies"))
    found: float = field(metadata=column("found 5 %"))
    spearman: float = field(metadata=column("Spearman with real recall 5 %", digits=2))


class Study:
    """All fits, and what planted and real defects say of each."""

    def __init__(self, fits: Sequence[Fit]) -> None:
        if not fits:
            raise UsageError("planted: no fits in these folders; expected results of choices")
        self.fits = fits
        self.settings = list(dict.fromkeys(fit.setting for fit in fits))
        self.categories = list(dict.fromkeys(fit.category for fit in fits))
        self.pairs = {
            title: np.array([figure(fit.tried) for fit in fits])  # (n, 2)
            for title, figure in FIGURES.items()
        }

    def means(
        self, title: str, *, setting: str | None = None, category: str | None = None
    ) -> tuple[float, float]:
        """Of planted and of real defects, over the fits of a setting, a category or both."""
        rows = [
            pair
            for fit, pair in zip(self.fits, self.pairs[title], strict=True)
            if setting in (None, fit.setting) and category in (None, fit.category)
        ]
        planted, real = np.mean(rows, axis=0)
        return float(planted), float(real)

    def tables(self) -> Iterator[Table]:
        """Agreement, calibration, categories and kinds."""
        yield table_of(
            "Planted against real",
            [self._agreement(title) for title in self.pairs],
            note="Spearman's rank correlation of what planted and what real defects say: of all "
            "fits; of categories and of settings by their means; of settings within a category, "
            "averaged over categories.",
        )
        yield table_of("Calibration", list(self._bins()))
        for title in self.pairs:
            yield table_of(f"{title} by category", list(self.of_categories(title)))
        yield table_of("Kinds of planted defects", list(self._kinds()))

    def _agreement(self, title: str) -> Agreement:
        planted, real = self.pairs[title].T
        by_category = [self.means(title, category=each) for each in self.categories]
        by_setting = [self.means(title, setting=each) for each in self.settings]
        within = [row.spearman for row in self.of_categories(title)]
        return Agreement(
            figure=title,
            planted=float(planted.mean()),
            real=float(real.mean()),
            fits=rank_correlation(planted, real),
            categories=_spearman(by_category),
            settings=_spearman(by_setting),
            within=float(np.mean(within)),
        )

    def _bins(self) -> Iterator[Bin]:
        for rate in RATES:
            planted, real = self.pairs[f"recall {percent(rate)}"].T
            for low, high in pairwise(BINS):
                last = high == BINS[-1]
                inside = (planted >= low) & (planted <= high if last else planted < high)
                values = real[inside]
                yield Bin(
                    rate=percent(rate),
                    planted=f"{low:.1f} to {high:.1f}",
                    fits=int(values.size),
                    real=float(values.mean()) if values.size else None,
                    lowest=float(values.min()) if values.size else None,
                    highest=float(values.max()) if values.size else None,
                )

    def of_categories(self, title: str) -> Iterator[OfCategory]:
        """Each with the setting that its planted defects would choose."""
        for category in self.categories:
            by_setting = {
                setting: self.means(title, setting=setting, category=category)
                for setting in self.settings
                if any((fit.setting, fit.category) == (setting, category) for fit in self.fits)
            }
            planted, real = np.mean(list(by_setting.values()), axis=0)
            chosen = max(by_setting, key=lambda setting: by_setting[setting][0])
            yield OfCategory(
                category=category,
                planted=float(planted),
                real=float(real),
                apart=float(planted - real),
                spearman=_spearman(list(by_setting.values())),
                chosen=chosen,
                reached=by_setting[chosen][1],
                best=max(value for _, value in by_setting.values()),
                mean=float(real),
            )

    def _kinds(self) -> Iterator[Kind]:
        kinds = sorted({kind for fit in self.fits for kind in fit.tried.planted_kinds})
        for kind in kinds:
            found: list[float] = []
            real: list[float] = []
            copies = 0
            for fit in self.fits:
                scores = [
                    score
                    for score, each in zip(fit.tried.planted, fit.tried.planted_kinds, strict=True)
                    if each == kind
                ]
                if scores:
                    point = at_rate(fit.tried, RATES[-1])
                    found.append(float(np.mean(above(np.array(scores), point.threshold))))
                    real.append(point.recall)
                    copies += len(scores)
            yield Kind(
                kind=kind,
                copies=copies,
                found=float(np.mean(found)),
                spearman=rank_correlation(np.array(found), np.array(real)),
            )

    def findings(self) -> Iterator[str]:
        """What to believe, and where not to."""
        for title in self.pairs:
            row = self._agreement(title)
            yield (
                f"{title}: planted {row.planted:.2f}, real {row.real:.2f}; Spearman {row.fits:.2f} "
                f"over {len(self.fits)} fits, {row.settings:.2f} over {len(self.settings)} "
                f"settings, {row.within:.2f} within a category"
            )
        for title in self.pairs:
            for row_of in self.of_categories(title):
                if abs(row_of.apart) >= MISLEADS:
                    way = "more" if row_of.apart > 0 else "less"
                    yield (
                        f"misleads on {row_of.category}: {title} of planted defects is "
                        f"{abs(row_of.apart):.2f} {way} than that of real ones"
                    )

    def draw(self, out: Path) -> Figure:
        """Real over planted recall, a mark for every fit."""
        title = f"recall {percent(RATES[-1])}"
        marks = [
            Mark(x=float(planted), y=float(real), group=fit.category)
            for fit, (planted, real) in zip(self.fits, self.pairs[title], strict=True)
        ]
        scattered(
            marks,
            out / "calibration.png",
            x_name=f"{title} of planted defects",
            y_name=f"{title} of real defects",
        )
        return Figure(title=f"Real over planted {title}", file="calibration.png")


def _spearman(pairs: Sequence[Pair]) -> float:
    planted, real = np.array(pairs).T
    return rank_correlation(planted, real)


@click.command()
@click.argument("folders", type=FOLDER, nargs=-1, required=True)
@click.option("--out", type=FOLDER, required=True, help="Folder of the report.")
def main(folders: tuple[Path, ...], out: Path) -> None:
    """Hold planted defects against real ones, in the results of FOLDERS."""
    try:
        study = Study([fit for folder in folders for fit in fits_in(folder)])
        out.mkdir(parents=True, exist_ok=True)
        report = Report(
            name="planted",
            title="Planted defects against real ones",
            findings=tuple(study.findings()),
            tables=tuple(study.tables()),
            figures=(study.draw(out),),
            facts=describe(
                threads=torch.get_num_threads(),
                seeds=tuple(sorted({fit.seed for fit in study.fits})),
            ),
        )
        write_report(report, out)
    except EdgesegError as error:
        raise click.ClickException(str(error)) from None
    click.echo("\n".join(report.findings))
    click.echo(f"wrote {out / 'report.md'}", err=True)


if __name__ == "__main__":
    main()
