"""Plots as PNG: plain, legible in print, the same colours everywhere."""

from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgeseg.base.files import atomic_path

if TYPE_CHECKING:
    from collections.abc import Iterator

COLOURS = ("#0b6bcb", "#d1495b", "#2a9d66", "#e08e0b", "#7b4fb5", "#5d6778")
DOTS_PER_INCH = 130
LEAST_RANGE = 0.04  # of accuracy on an axis
LEAST_GAIN = 0.0005  # of accuracy, by which a slower model must be better: less is no difference


@dataclass(frozen=True, kw_only=True)
class Dot:
    """One model of a Pareto plot."""

    name: str
    ms: float
    value: float
    size_mb: float
    group: str  # one colour each


def dot_of(
    *, name: str, group: str, ms: float | None, value: float | None, size_mb: float | None
) -> Dot | None:
    """Make the dot of a model; None if something of it was not measured."""
    if ms is None or value is None or size_mb is None:
        return None
    return Dot(name=name, group=group, ms=ms, value=value, size_mb=size_mb)


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One curve of a plot, with an interval of its points where they have one."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    dashed: bool = False


@contextmanager
def _axes(target: Path, *, size: tuple[float, float] = (8.2, 4.8)) -> "Iterator[Any]":
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=size, layout="constrained")
    axes.grid(True, color="#e3e7ee", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    try:
        yield axes
        with atomic_path(target) as temporary:
            # No date inside: equal results give equal bytes.
            figure.savefig(temporary, dpi=DOTS_PER_INCH, metadata={"Software": None})
    finally:
        plt.close(figure)


def pareto(
    dots: Sequence[Dot],
    target: Path,
    *,
    value_name: str,
    time_name: str = "p50",
    budget_ms: float | None = None,
) -> None:
    """Plot accuracy against milliseconds; a dot's area is its megabytes, a line the front.

    Dots carry numbers and the names stand beside the plot, where they cannot overlap.
    """
    ordered = sorted(dots, key=lambda dot: (dot.ms, -dot.value))
    groups = list(dict.fromkeys(dot.group for dot in dots))
    colours = {group: COLOURS[i % len(COLOURS)] for i, group in enumerate(groups)}
    with _axes(target, size=(10.5, max(4.6, 0.27 * len(dots) + 1.2))) as axes:
        front = pareto_front(dots)
        axes.plot([d.ms for d in front], [d.value for d in front], color="#888", lw=1.2, ls=":")
        for dot in ordered:
            area = 60 + 6 * dot.size_mb
            colour = colours[dot.group]
            axes.scatter(dot.ms, dot.value, s=area, color=colour, alpha=0.6, linewidths=0)
        axes.set_xscale("log")
        _plain_ticks(axes)
        if budget_ms is not None:
            axes.axvline(budget_ms, color=COLOURS[1], lw=1.2, ls="--")
        axes.set_xlabel(f"milliseconds per frame, {time_name} (log scale; left is faster)")
        axes.set_ylabel(f"{value_name} (up is better)")
        axes.margins(x=0.12, y=0.15)
        low, high = axes.get_ylim()
        if high - low < LEAST_RANGE:  # or rounding would look like a difference
            top = min((low + high + LEAST_RANGE) / 2, 1.0 + 0.05 * LEAST_RANGE)  # nothing above 1
            axes.set_ylim(top - LEAST_RANGE, top)
        _number(axes, ordered)
        _key(axes, ordered, front, colours)


def _number(axes: Any, dots: Sequence[Dot]) -> None:
    """Write a number beside each dot; where one stands already, the next goes higher."""
    axes.figure.canvas.draw()  # fixes the scale, which the places below depend on
    taken: list[tuple[float, float]] = []
    for number, dot in enumerate(dots, start=1):
        x, y = axes.transData.transform((dot.ms, dot.value))
        lift = 0.0
        while any(abs(x - a) < 16 and abs(y + lift - b) < 13 for a, b in taken):
            lift += 13
        taken.append((x, y + lift))
        axes.annotate(
            str(number),
            (dot.ms, dot.value),
            xytext=(0, lift * 72 / axes.figure.dpi),
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=8,
            fontweight="bold",
            color="#1d2430",
        )


def _key(axes: Any, dots: Sequence[Dot], front: Sequence[Dot], colours: dict[str, str]) -> None:
    """Names by number, fastest first; those on the front are bold."""
    step = 1 / max(len(dots), 12)
    for number, dot in enumerate(dots, start=1):
        axes.text(
            1.03,
            1 - step * (number - 0.5),
            f"{number}  {dot.name}, {dot.group} ({dot.size_mb:.0f} MB)",
            transform=axes.transAxes,
            fontsize=8,
            va="center",
            color=colours[dot.group],
            fontweight="bold" if dot in front else "normal",
        )


def pareto_front(dots: Sequence[Dot]) -> list[Dot]:
    """Models that none beats in both time and value, fastest first."""
    front: list[Dot] = []
    for dot in sorted(dots, key=lambda dot: (dot.ms, -dot.value)):
        if not front or dot.value >= front[-1].value + LEAST_GAIN:
            front.append(dot)
    return front


def curves(
    lines: Sequence[Curve],
    target: Path,
    *,
    x_name: str,
    y_name: str,
    log_x: bool = False,
    log_y: bool = False,
) -> None:
    """Plot lines with shaded intervals and a legend."""
    with _axes(target) as axes:
        for number, line in enumerate(lines):
            colour = "#333" if line.dashed else COLOURS[number % len(COLOURS)]
            style = "--" if line.dashed else "-"
            marker = "" if line.dashed or len(line.x) > 30 else "o"
            axes.plot(
                line.x, line.y, style, marker=marker, ms=4, lw=1.6, color=colour, label=line.name
            )
            if line.low is not None and line.high is not None:
                axes.fill_between(
                    line.x, line.low, line.high, color=colour, alpha=0.15, linewidth=0
                )
        if log_x:
            axes.set_xscale("log")
            _plain_ticks(axes)
        if log_y:
            axes.set_yscale("log")
        axes.set_xlabel(x_name)
        axes.set_ylabel(y_name)
        axes.legend(frameon=False, fontsize=8)


def bars(names: Sequence[str], values: Sequence[float], target: Path, *, x_name: str) -> None:
    """Plot horizontal bars, the first on top, each with its number."""
    with _axes(target, size=(8.2, 1.2 + 0.38 * len(names))) as axes:
        places = range(len(names))
        axes.barh(places, values, color=COLOURS[0], height=0.62)
        for place, value in zip(places, values, strict=True):
            axes.annotate(
                f"{value:.2f}", (value, place), xytext=(4, 0), va="center", fontsize=8,
                textcoords="offset points",
            )  # fmt: skip
        axes.set_yticks(list(places), names, fontsize=8)
        axes.invert_yaxis()
        axes.grid(False, axis="y")
        axes.set_xlabel(x_name)
        axes.margins(x=0.1)


def _plain_ticks(axes: Any) -> None:
    from matplotlib.ticker import LogLocator, ScalarFormatter

    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.xaxis.minorticks_off()
