"""The options of a fit, beside data and settings."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Message, Setting
from edgeseg.base.progress import Listener, Note, Progress, ignore, silent
from edgeseg.data.datasets import Dataset, Sample
from edgeseg.data.samples import frames_at_once
from edgeseg.decision.kinds import Severity
from edgeseg.fitting.process_group import ALONE, ProcessGroup
from edgeseg.vision.group_by import GroupBy
from edgeseg.vision.picture_size import MAX_PIXELS

Item = TypeVar("Item")


@dataclass(frozen=True, kw_only=True)
class Shard:
    """A part of the images in whole batches: any number of shards has the same batches."""

    index: int = 0
    count: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.index < self.count:
            raise UsageError(
                f"shard {self.index}/{self.count}: expected a number from 0 below the number of "
                "shards, such as 0/8 to 7/8"
            )

    def batches(self, images: int, size: int) -> list[range]:
        """Return the places of this shard's images in the whole list, a batch at a time."""
        starts = range(0, images, size)[self.index :: self.count]
        return [range(start, min(start + size, images)) for start in starts]


@dataclass(frozen=True, kw_only=True)
class Checkpoints:
    """The folder and the use of checkpoints, by which a pass over the images can be continued."""

    folder: Path
    resume: bool = False
    seconds: float = 60.0  # between two of them; a shorter pass writes none


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """Options of a fit beside data and settings: weights, batches, tolerance, notes, progress."""

    weights: str | None = None
    batch_size: int = 8
    max_bad: int = 0
    max_pixels: int = MAX_PIXELS  # of a picture by its header, before it is decoded
    keep_moments: bool = True
    planted: int = 48  # at most so many copies of good images with a planted defect, to judge by
    smallest: int | None = None  # defect that matters, in pixels of the camera; None: not said
    anomalies: tuple[Sample, ...] = ()
    known: tuple[Sample, ...] = ()  # defects to learn from
    severity: tuple[tuple[str, Severity], ...] = ()  # of kinds of them; others: as strong as it is
    kind_order: tuple[str, ...] = ()  # kinds whose numbers stay; new ones come after them, by name
    group_by: GroupBy = field(default_factory=GroupBy)  # which images show one part, where known
    group: ProcessGroup = ALONE  # of processes that share the images
    graph: Path | None = None  # of a backbone, to go through instead of torch
    device: str = "cpu"  # of the backbone, as torch calls it, or auto; the rest is on the CPU
    checkpoints: Checkpoints | None = None
    progress: Progress = field(default=silent)
    note: Note = field(default=ignore)
    listener: Listener | None = None  # hears keyed sentences, of which the two above hear words

    def __post_init__(self) -> None:
        if self.max_pixels < 1:
            raise UsageError(Setting("max_pixels", self.max_pixels), ": expected at least 1")
        if self.planted < 0:
            raise UsageError(Setting("planted", self.planted), ": expected 0 (none) or more")
        if self.smallest is not None and self.smallest < 2:
            raise UsageError(
                Setting("smallest", self.smallest), ": expected 2 or more pixels of the camera"
            )

    def tell(self, message: Message) -> None:
        """Tell a keyed sentence to whoever listens."""
        if self.listener is None:
            self.note(str(message))
        else:
            self.listener.note(message)

    def steps(self, items: Iterable[Item], *, length: int, label: Message) -> Iterator[Item]:
        """Wrap a loop that has a keyed name."""
        if self.listener is None:
            return self.progress(items, length=length, label=str(label))
        return self.listener.progress(items, length=length, label=label)

    def for_images(self, size_hw: tuple[int, int]) -> "FitOptions":
        """Return the options with smaller batches, if images are so large that memory needs it."""
        return replace(self, batch_size=frames_at_once(size_hw, most=self.batch_size))


@dataclass(frozen=True, kw_only=True)
class Changes:
    """Changes to make to a model."""

    more: Dataset | None = None  # good images to add
    forget: Dataset | None = None  # images that were fitted and turned out to be bad
    decay: float = 1.0  # what the earlier images count for afterwards
    calibrate: Dataset | None = None  # good images that are judged and not fitted

    def __post_init__(self) -> None:
        if not 0 < self.decay <= 1:
            raise UsageError(Setting("decay", f"{self.decay:g}"), ": expected above 0, up to 1")
        if self.more is None and self.forget is None:
            raise UsageError(
                "nothing to do: give a folder of good images, or ", Setting("forget", "FOLDER")
            )
        if self.more is None and self.decay < 1:
            raise UsageError(
                Setting("decay", f"{self.decay:g}"),
                ": changes nothing without new images; give a folder of them",
            )
