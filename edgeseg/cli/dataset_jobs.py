"""Many datasets below one folder: finding them, and the table of their fits."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from edgeseg.base.errors import DatasetError, UsageError
from edgeseg.base.files import size_text
from edgeseg.base.tables import align_columns
from edgeseg.data.datasets import LAYOUTS, detect_layout
from edgeseg.data.layouts import folders_in

HEAD = ("model", "good images", "seconds", "threshold", "false alarms", "size", "")


@dataclass(frozen=True, kw_only=True)
class DatasetJob:
    """A dataset below a folder, and the model that is made of it."""

    name: str  # its path below the folder
    data: Path
    model: Path
    layout: str | None  # None: not recognised; opening the dataset explains why


@dataclass(frozen=True, kw_only=True)
class FitOutcome:
    """Result of the fit on one dataset: a model, or the reason why there is none."""

    name: str
    model: str | None = None  # its file
    images: int | None = None
    seconds: float | None = None  # None: the model was there before
    threshold: float | None = None
    false_alarm_rate: float | None = None
    size_bytes: int | None = None
    suspects: tuple[str, ...] | None = None  # None: --robust was not typed
    error: str | None = None

    @classmethod
    def of(cls, header: dict[str, Any], model: Path, *, name: str) -> "FitOutcome":
        """Read the outcome from the header of a model."""
        calibration = header["calibration"]
        return cls(
            name=name,
            model=str(model),
            images=header["data"]["fitted"],
            threshold=calibration["score_threshold"],
            false_alarm_rate=calibration["answered_rate"],
            size_bytes=model.stat().st_size,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self) | {"suspects": None if self.suspects is None else list(self.suspects)}

    def cells(self) -> tuple[str, ...]:
        """Cells of its row in the table."""
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


def datasets_below(root: Path, models: Path, *, layout: str | None = None) -> list[DatasetJob]:
    """Find the datasets in `root`: folders of a known layout, or plain folders of good images.

    A folder that holds datasets of a known layout is searched too.
    """
    if not root.is_dir():
        raise DatasetError(f"{root}: no such folder")
    own = None if layout is not None else _layout_of(root)
    if own not in (None, "folder"):
        raise UsageError(f"{root}: one dataset of the layout {own}; leave --all out")
    jobs = [
        DatasetJob(name=name, data=root / name, model=models / f"{name}.edgeseg", layout=each)
        for name, each in _walk(root, root, layout=layout)
    ]
    if not jobs:
        raise DatasetError(
            f"{root}: no folders below it; --all expects one folder of each dataset, such as "
            f"{root / 'bottle'}"
        )
    return jobs


def table(outcomes: Sequence[FitOutcome]) -> str:
    """Table of all results as text; its last column is as wide as its content."""
    rows = [HEAD, *(outcome.cells() for outcome in outcomes)]
    return "\n".join(align_columns(rows, last_left=True))


def _walk(root: Path, folder: Path, *, layout: str | None) -> Iterator[tuple[str, str | None]]:
    for each in folders_in(folder):
        own = layout or _layout_of(each)
        if own is None and any(_layout_of(inner) in _OF_TESTS for inner in folders_in(each)):
            yield from _walk(root, each, layout=layout)
        else:
            yield each.relative_to(root).as_posix(), own


_OF_TESTS = frozenset(LAYOUTS) - {"folder"}


def _layout_of(folder: Path) -> str | None:
    try:
        return detect_layout(folder)
    except DatasetError:  # several datasets, or none: opening it says which
        return None
