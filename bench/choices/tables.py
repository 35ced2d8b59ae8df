"""Figures of settings on categories and seeds, and the tables in which one is chosen."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from edgeseg.bench.choices.trial import TrialResult, at_rate
from edgeseg.bench.harness.accuracy import fewer_categories
from edgeseg.bench.harness.tabular import Table, column, table_of

RATES = (0.01, 0.05)
# What a choice may go by, and its title; every one is a mean over categories and seeds.
CRITERIA = {
    "pro": "PRO",
    "image_auroc": "image AUROC",
    "recall": "recall",
    "recall_1": "recall 1 %",
    "recall_5": "recall 5 %",
}
OF_PIXELS = {"pro": "PRO", "pro_05": "PRO 0.05"}  # what a category without masks has not


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The figures of one setting on one category or, as means, on several."""

    pro: float  # nan without masks
    pro_05: float  # nan where an older run did not measure it, like f1
    image_auroc: float
    recall: float  # at the threshold that the setting ships with, like f1
    f1: float
    recall_1: float  # at the threshold for 1 %
    recall_5: float
    flagged: tuple[float, float, float]  # good test images: shipped, for 1 %, for 5 %
    good: float
    planted: tuple[float, float]  # share found at 1 % and 5 %; nan without planted defects
    reads: float

    @classmethod
    def of(cls, tried: TrialResult) -> "Figures":
        """Compute the figures of one fit."""
        points = [at_rate(tried, rate) for rate in (None, *RATES)]
        found = [math.nan if point.planted is None else point.planted for point in points[1:]]
        return cls(
            pro=_figure(tried, "pro"),
            pro_05=_figure(tried, "pro_05"),
            image_auroc=_figure(tried, "image_auroc"),
            recall=points[0].recall,
            f1=_figure(tried, "f1"),
            recall_1=points[1].recall,
            recall_5=points[2].recall,
            flagged=(points[0].flagged, points[1].flagged, points[2].flagged),
            good=points[0].good,
            planted=(found[0], found[1]),
            reads=tried.reads,
        )

    @classmethod
    def mean(cls, parts: Sequence["Figures"]) -> "Figures":
        """Average over categories and seeds; flagged images stay counts beside their number."""
        means: dict[str, Any] = {}
        for item in fields(cls):
            values = np.mean([getattr(part, item.name) for part in parts], axis=0)
            means[item.name] = tuple(values.tolist()) if values.ndim else float(values)
        return cls(**means)

    @property
    def false_alarms(self) -> tuple[float, ...]:
        """Shares of all good test images, whatever category they are of."""
        return tuple(count / self.good for count in self.flagged)


def _figure(tried: TrialResult, key: str) -> float:
    value = tried.figures.get(key)
    return math.nan if value is None else value


@dataclass(frozen=True, kw_only=True)
class SettingRow:
    """Figures of one setting, as a row of a table."""

    setting: str = field(metadata=column("setting"))
    pro: float = field(metadata=column("PRO", better="high"))
    pro_05: float = field(metadata=column("PRO 0.05", better="high"))
    image_auroc: float = field(metadata=column("image AUROC", better="high"))
    recall: float = field(metadata=column("recall", better="high"))
    alarms: float = field(metadata=column("false alarms", better="low"))
    f1: float = field(metadata=column("F1", better="high"))
    recall_1: float = field(metadata=column("recall 1 %", better="high"))
    alarms_1: float = field(metadata=column("false alarms 1 %", better="low"))
    recall_5: float = field(metadata=column("recall 5 %", better="high"))
    alarms_5: float = field(metadata=column("false alarms 5 %", better="low"))
    planted_1: float = field(metadata=column("planted 1 %"))
    planted_5: float = field(metadata=column("planted 5 %"))
    reads: float = field(metadata=column("M read", digits=2, better="low"))

    @classmethod
    def of(cls, name: str, figures: Figures) -> "SettingRow":
        """Make the row of a setting or a category."""
        alarms = figures.false_alarms
        return cls(
            setting=name,
            pro=figures.pro,
            pro_05=figures.pro_05,
            image_auroc=figures.image_auroc,
            recall=figures.recall,
            alarms=alarms[0],
            f1=figures.f1,
            recall_1=figures.recall_1,
            alarms_1=alarms[1],
            recall_5=figures.recall_5,
            alarms_5=alarms[2],
            planted_1=figures.planted[0],
            planted_5=figures.planted[1],
            reads=figures.reads / 1e6,
        )


@dataclass(frozen=True, kw_only=True)
class DifferenceRow:
    """Difference of a setting to the first one, with single categories left out."""

    setting: str = field(metadata=column("setting"))
    by: str = field(metadata=column("figure"))
    mean: float = field(metadata=column("difference", signed=True))
    lowest: float = field(metadata=column("lowest", signed=True))
    without: str = field(metadata=column("without"))
    highest: float = field(metadata=column("highest", signed=True))
    seeds: float = field(metadata=column("std over seeds"))


@dataclass(frozen=True, kw_only=True)
class ChoiceRow:
    """The setting chosen on all other categories, and what it reaches on this one."""

    category: str = field(metadata=column("category"))
    by: str = field(metadata=column("chosen by"))
    setting: str = field(metadata=column("setting"))
    reached: float = field(metadata=column("reached"))
    first: float = field(metadata=column("the first reaches"))
    best: float = field(metadata=column("the best reaches"))


class Comparison:
    """Figures of every setting, category and seed.

    What no setting has on a category, such as PRO where masks are missing, is a mean over the other
    categories.
    """

    def __init__(self, figures: dict[tuple[str, str, int], Figures]) -> None:
        self.figures = figures
        self.settings = list(dict.fromkeys(setting for setting, _, _ in figures))
        self.categories = list(dict.fromkeys(category for _, category, _ in figures))
        self.seeds = sorted({seed for _, _, seed in figures})
        self.measured = {key: self._categories_with(key) for key in CRITERIA | OF_PIXELS}

    def _categories_with(self, key: str) -> list[str]:
        known = {
            category
            for (_, category, _), each in self.figures.items()
            if key not in OF_PIXELS or not math.isnan(getattr(each, key))
        }
        return [category for category in self.categories if category in known]

    def mean(
        self, setting: str, *, without: str | None = None, seed: int | None = None
    ) -> Figures | None:
        """Average a setting over categories and seeds; None where one of them was not measured."""
        seeds = self.seeds if seed is None else [seed]
        wanted = [
            (setting, category, each)
            for category in self.categories
            for each in seeds
            if category != without
        ]
        if not wanted or any(key not in self.figures for key in wanted):
            return None
        pro, pro_05 = (
            [self.figures[place] for place in wanted if place[1] in self.measured[key]]
            for key in ("pro", "pro_05")
        )
        return replace(
            Figures.mean([self.figures[place] for place in wanted]),
            pro=Figures.mean(pro).pro if pro else math.nan,
            pro_05=Figures.mean(pro_05).pro_05 if pro_05 else math.nan,
        )

    def of_category(self, setting: str, category: str) -> Figures | None:
        """Average a setting over the seeds of one category."""
        parts = [
            found
            for seed in self.seeds
            if (found := self.figures.get((setting, category, seed))) is not None
        ]
        return Figures.mean(parts) if len(parts) == len(self.seeds) else None

    @property
    def complete(self) -> list[str]:
        """Settings that were measured everywhere."""
        return [setting for setting in self.settings if self.mean(setting) is not None]

    def tables(self) -> Iterator[Table]:
        """Make the tables: all settings, differences, choices, and every category."""
        means = [(name, self.mean(name)) for name in self.complete]
        yield table_of(
            "Settings",
            [SettingRow.of(name, figures) for name, figures in means if figures is not None],
            note="Means over categories and seeds; recall, false alarms and F1 at the threshold "
            "that the setting ships with, the first two also at those for 1 and 5 %. False alarms "
            "are shares of all good test images. M read: millions of factor entries that a frame "
            f"is compared with.{self._missing()}",
        )
        if len(self.categories) > 1 and len(self.complete) > 1:
            yield table_of(
                f"Difference to {self.complete[0]}, each category left out in turn",
                list(self.differences()),
            )
            yield table_of("Chosen without the category", list(self.choices()))
        for category in self.categories:
            of_each = [(name, self.of_category(name, category)) for name in self.settings]
            rows = [
                SettingRow.of(name, figures) for name, figures in of_each if figures is not None
            ]
            yield table_of(category, rows)

    def _missing(self) -> str:
        """Say which figures are means over fewer categories than there are."""
        return "".join(
            fewer_categories(title, self.measured[key], self.categories)
            for key, title in OF_PIXELS.items()
        )

    def _criteria(self) -> Iterator[tuple[str, str, list[str]]]:
        """List what can be compared without a category: key, title and the categories with it."""
        for key, title in CRITERIA.items():
            if len(self.measured[key]) > 1:
                yield key, title, self.measured[key]

    def differences(self) -> Iterator[DifferenceRow]:
        """Compare every setting with the first one."""
        first = self.complete[0]
        for setting in self.complete[1:]:
            for key, title, categories in self._criteria():
                apart = {
                    category: self._difference(setting, first, key, without=category)
                    for category in categories
                }
                by_seed = [self._difference(setting, first, key, seed=seed) for seed in self.seeds]
                yield DifferenceRow(
                    setting=setting,
                    by=title,
                    mean=self._difference(setting, first, key),
                    lowest=min(apart.values()),
                    without=min(apart, key=lambda category: apart[category]),
                    highest=max(apart.values()),
                    seeds=float(np.std(by_seed)),
                )

    def _difference(
        self,
        setting: str,
        first: str,
        key: str,
        *,
        without: str | None = None,
        seed: int | None = None,
    ) -> float:
        one, other = (
            float(getattr(self.mean(each, without=without, seed=seed), key))
            for each in (setting, first)
        )
        return one - other

    def choices(self) -> Iterator[ChoiceRow]:
        """Choose a setting by every criterion, without each category in turn."""
        for key, title, categories in self._criteria():
            for category in categories:
                others = {
                    name: float(getattr(self.mean(name, without=category), key))
                    for name in self.complete
                }
                here = {
                    name: float(getattr(self.of_category(name, category), key))
                    for name in self.complete
                }
                best = max(others, key=lambda name: others[name])
                yield ChoiceRow(
                    category=category,
                    by=title,
                    setting=best,
                    reached=here[best],
                    first=here[self.complete[0]],
                    best=max(here.values()),
                )
