"""Plots as PNG: plain, legible in print, the same colours everywhere."""

from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgeseg.files import atomic_path

if TYPE_CHECKING:
    from collections.abc import Iterator

COLOURS = ("#0b6bcb", "#d1495b", "#2a9d66", "#e08e0b", "#7b4fb5", "#5d6778")
DOTS_PER_INCH = 130


@dataclass(frozen=True, kw_only=True)
class Dot:
    """One model of a Pareto plot."""

    name: str
    ms: float
    value: float
    size_mb: float
    group: str  # one colour each


@dataclass(frozen=True, kw_only=True)
class Line:
    """One curve, with the spread of its points where they have one."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    spread: Sequence[float] | None = None
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


def pareto(dots: Sequence[Dot], target: Path, *, value_name: str) -> None:
    """Accuracy against milliseconds, area of a dot by its megabytes, the front as a line."""
    with _axes(target) as axes:
        groups = sorted({dot.group for dot in dots})
        for dot in dots:
            colour = COLOURS[groups.index(dot.group) % len(COLOURS)]
            area = 40 + 6 * dot.size_mb
            axes.scatter(dot.ms, dot.value, s=area, color=colour, alpha=0.75, linewidths=0)
            axes.annotate(
                f"{dot.name} ({dot.size_mb:.0f} MB)",
                (dot.ms, dot.value),
                xytext=(7, 7),
                textcoords="offset points",
                fontsize=7.5,
                color="#333",
            )
        front = pareto_front(dots)
        axes.plot([d.ms for d in front], [d.value for d in front], color="#888", lw=1, ls=":")
        for group, colour in zip(groups, COLOURS * len(groups), strict=False):
            axes.scatter([], [], s=60, color=colour, label=group)
        axes.legend(frameon=False, fontsize=8, loc="lower right")
        axes.set_xscale("log")
        _plain_ticks(axes)
        axes.set_xlabel("milliseconds per frame, p50 (log scale; left is faster)")
        axes.set_ylabel(f"{value_name} (up is better)")
        axes.margins(x=0.12, y=0.12)


def pareto_front(dots: Sequence[Dot]) -> list[Dot]:
    """Models that no other beats in both time and value, fastest first."""
    front: list[Dot] = []
    for dot in sorted(dots, key=lambda dot: (dot.ms, -dot.value)):
        if not front or dot.value > front[-1].value:
            front.append(dot)
    return front


def curves(
    lines: Sequence[Line],
    target: Path,
    *,
    x_name: str,
    y_name: str,
    log_x: bool = False,
    log_y: bool = False,
) -> None:
    """Lines with shaded spread and a legend."""
    with _axes(target) as axes:
        for number, line in enumerate(lines):
            colour = "#333" if line.dashed else COLOURS[number % len(COLOURS)]
            style = "--" if line.dashed else "-"
            marker = "" if line.dashed or len(line.x) > 30 else "o"
            axes.plot(
                line.x, line.y, style, marker=marker, ms=4, lw=1.6, color=colour, label=line.name
            )
            if line.spread is not None:
                low = [y - s for y, s in zip(line.y, line.spread, strict=True)]
                high = [y + s for y, s in zip(line.y, line.spread, strict=True)]
                axes.fill_between(line.x, low, high, color=colour, alpha=0.15, linewidth=0)
        if log_x:
            axes.set_xscale("log")
            _plain_ticks(axes)
        if log_y:
            axes.set_yscale("log")
        axes.set_xlabel(x_name)
        axes.set_ylabel(y_name)
        axes.legend(frameon=False, fontsize=8)


def bars(names: Sequence[str], values: Sequence[float], target: Path, *, x_name: str) -> None:
    """Horizontal bars, the first on top, each with its number."""
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
