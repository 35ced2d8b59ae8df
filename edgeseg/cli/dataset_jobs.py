"""Many datasets below one folder: which they are, and what became of each."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from edgeseg.data.datasets import LAYOUTS, detect_layout
from edgeseg.data.layouts import folders_in
from edgeseg.errors import DatasetError, UsageError
from edgeseg.files import size_text

HEAD = ("model", "good images", "seconds", "threshold", "false alarms", "size", "")


@dataclass(frozen=True, kw_only=True)
class Place:
    """A dataset below a folder, and the model that is made of it."""

    name: str  # its path below the folder
    data: Path
    model: Path
    layout: str | None  # None: not known, which opening it will say


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of one dataset: a model, or the reason why there is none."""

    name: str
    model: str | None = None  # its file
    images: int | None = None
    seconds: float | None = None  # None: the model was there before
    threshold: float | None = None
    false_alarm_rate: float | None = None
    size_bytes: int | None = None
    suspects: tuple[str, ...] | None = None  # None: nobody asked
    error: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self) | {"suspects": None if self.suspects is None else list(self.suspects)}

    def cells(self) -> tuple[str, ...]:
        """A row of the table."""
        if self.error is not None:
            return (self.name, "", "", "", "", "", f"failed: {self.error}")
        remark = "kept as it was" if self.seconds is None else ""
        if self.suspects:
            remark = f"{len(self.suspects)} suspects"
        return (
            self.name,
            str(self.images),
            "" if self.seconds is None else f"{self.seconds:.1f}",
            f"{self.threshold:.4g}",
            f"{self.false_alarm_rate:.1%}",
            size_text(self.size_bytes or 0),
            remark,
        )


def datasets_below(root: Path, models: Path, *, layout: str | None = None) -> list[Place]:
    """Every folder in `root` is a dataset of a known layout or a plain folder of good images.

    A folder that holds datasets of a known layout itself is looked into.
    """
    if not root.is_dir():
        raise DatasetError(f"{root}: no such folder")
    known = None if layout is not None else _layout_of(root)
    if known not in (None, "folder"):
        raise UsageError(f"{root}: one dataset of the layout {known}; leave --all out")
    found = [
        Place(name=name, data=root / name, model=models / f"{name}.edgeseg", layout=each)
        for name, each in _walk(root, root, layout=layout)
    ]
    if not found:
        raise DatasetError(
            f"{root}: no folders below it; --all expects one folder of each dataset, such as "
            f"{root / 'bottle'}"
        )
    return found


def table(outcomes: Sequence[Outcome]) -> str:
    """What became of all, as text in columns; the last one is as long as it needs to be."""
    rows = [HEAD, *(outcome.cells() for outcome in outcomes)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD) - 1)]
    lines = []
    for row in rows:
        numbers = (f"{cell:>{width}}" for cell, width in zip(row[1:-1], widths[1:], strict=True))
        lines.append("  ".join([f"{row[0]:<{widths[0]}}", *numbers, row[-1]]).rstrip())
    return "\n".join(lines)


def _walk(root: Path, folder: Path, *, layout: str | None) -> Iterator[tuple[str, str | None]]:
    for each in folders_in(folder):
        found = layout or _layout_of(each)
        if found is None and any(_layout_of(inner) in _OF_TESTS for inner in folders_in(each)):
            yield from _walk(root, each, layout=layout)
        else:
            yield each.relative_to(root).as_posix(), found


_OF_TESTS = frozenset(LAYOUTS) - {"folder"}


def _layout_of(folder: Path) -> str | None:
    try:
        return detect_layout(folder)
    except DatasetError:  # several datasets, or none: opening it says which
        return None
