"""The samples of a path: the layout of the folder, what is for fitting and what for testing."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgeseg.base.errors import DatasetError, UsageError
from edgeseg.base.messages import Setting
from edgeseg.data.layouts import (
    KOLEKTOR_FOLDS,
    Split,
    find_btad,
    find_folder,
    find_kolektor,
    find_kolektor2,
    find_mvtec,
    find_mvtec2,
    folders_in,
    kolektor_commutators,
)
from edgeseg.data.mstc import find_mstc
from edgeseg.data.samples import Batch, Sample, load_batches, read_sample
from edgeseg.data.visa import find_visa

__all__ = [
    "LAYOUTS",
    "Batch",
    "Choice",
    "Dataset",
    "Layout",
    "Sample",
    "detect_layout",
    "load_batches",
    "open_dataset",
    "read_sample",
    "split_holdout",
]


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The part of a dataset that is wanted, where its layout leaves a choice."""

    fold: int | None = None
    seed: int = 0
    variants: bool = False  # folders of good pictures are variants of the product


@dataclass(frozen=True, kw_only=True)
class Layout:
    """One way in which a dataset lies on disk."""

    expects: str  # what it is known by, in the words of the error that misses it
    recognise: Callable[[Path], bool]  # by folders and files that only it has
    find: Callable[[Path, Choice], Split]
    folds: int = 0
    variants: bool = False  # whether its folders may be those of variants


def _has_kolektor_labels(root: Path) -> bool:
    return any(any(folder.glob("*_label.bmp")) for folder in kolektor_commutators(root))


def _find_fold(root: Path, choice: Choice) -> Split:
    if choice.fold is None or not 0 <= choice.fold < KOLEKTOR_FOLDS:
        raise UsageError(
            f"{root}: fold {choice.fold} of the layout kolektor, expected 0, 1 or 2 "
            "(the fold to test on)"
        )
    return find_kolektor(root, fold=choice.fold)


# Recognised in this order; a plain folder is what is left when nothing else fits.
LAYOUTS = {
    "mvtec2": Layout(
        expects="train/good, test_public/{good,bad}, test_public/ground_truth/bad",
        recognise=lambda root: (root / "test_public").is_dir(),
        find=lambda root, _: find_mvtec2(root),
    ),
    "mvtec": Layout(
        expects="train/good, test/<kind>, ground_truth/<kind>",
        recognise=lambda root: (root / "train" / "good").is_dir(),
        find=lambda root, choice: find_mvtec(root, variants=choice.variants),
        variants=True,
    ),
    "visa": Layout(
        expects="Data/Images/{Normal,Anomaly}, Data/Masks/Anomaly and ../split_csv/1cls.csv",
        recognise=lambda root: (root / "Data/Images/Normal").is_dir(),
        find=lambda root, _: find_visa(root),
    ),
    "btad": Layout(
        expects="train/ok, test/{ok,ko}, ground_truth/ko",
        recognise=lambda root: (root / "train" / "ok").is_dir(),
        find=lambda root, _: find_btad(root),
    ),
    "kolektor": Layout(
        expects="kosNN/PartM.jpg with PartM_label.bmp",
        recognise=_has_kolektor_labels,
        find=_find_fold,
        folds=KOLEKTOR_FOLDS,
    ),
    "kolektor2": Layout(
        expects="train/ID.png and test/ID.png, each with ID_GT.png",
        recognise=lambda root: any((root / "train").glob("*_GT.png")),
        find=lambda root, _: find_kolektor2(root),
    ),
    "mstc": Layout(
        expects="training/frames or training/videos, testing/frames, testing/test_pixel_mask",
        recognise=lambda root: (root / "training").is_dir() and (root / "testing/frames").is_dir(),
        find=lambda root, choice: find_mstc(root, seed=choice.seed),
    ),
    "folder": Layout(
        expects="pictures at any depth",
        recognise=lambda root: False,
        find=lambda root, choice: find_folder(root, variants=choice.variants),
        variants=True,
    ),
}

# Folders with these names hold more than good pictures, so a plain folder must not have them.
_SPLIT_NAMES = frozenset(
    {"train", "test", "ground_truth", "training", "testing", "validation", "test_public", "masks"}
)
_GOOD_NAMES = frozenset({"good", "ok", "normal"})  # beside them stands what is not good


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """Good samples to fit on and samples to test on."""

    name: str
    layout: str
    root: Path
    train: tuple[Sample, ...]
    test: tuple[Sample, ...]
    notes: tuple[str, ...] = ()  # what was left out, and why
    resized: bool = False  # before they were stored: the camera's own size is not known

    def __post_init__(self) -> None:
        if not self.train:
            raise DatasetError(
                f"{self.root}: no good pictures to fit on; the layout {self.layout} expects "
                f"{LAYOUTS[self.layout].expects}"
            )
        defective = next((sample for sample in self.train if sample.label), None)
        if defective is not None:
            raise DatasetError(f"{defective.image}: a defective picture among those to fit on")


def open_dataset(
    path: Path,
    *,
    layout: str | None = None,
    fold: int | None = None,
    seed: int = 0,
    variants: bool = False,
) -> Dataset:
    """Find the samples under a path; the layout is recognised unless it is given.

    With `variants` folders inside that of the good pictures name the variants of the product.
    """
    root = Path(path)
    if layout is not None and layout not in LAYOUTS:
        raise UsageError(f"unknown layout {layout!r}: expected one of {', '.join(LAYOUTS)}")
    if not root.exists():
        raise DatasetError(f"{root}: no such folder")
    if not root.is_dir():
        raise DatasetError(f"{root}: a file, expected the folder of a dataset")
    layout = layout or detect_layout(root)
    folds = LAYOUTS[layout].folds
    if fold is not None and not folds:
        raise UsageError(f"{root}: fold {fold} was asked for, but the layout {layout} has no folds")
    if variants and not LAYOUTS[layout].variants:
        ways = ", ".join(name for name, known in LAYOUTS.items() if known.variants)
        raise UsageError(
            Setting("variants", True),
            f": {root} has the layout {layout}, which has no folders for variants; expected {ways}",
        )
    name = root.resolve().name
    if folds:
        name = f"{name}-fold{fold}"
    split = LAYOUTS[layout].find(root, Choice(fold=fold, seed=seed, variants=variants))
    return Dataset(
        name=name,
        layout=layout,
        root=root,
        train=split.train,
        test=split.test,
        notes=(*split.notes, *_unmarked_notes(split.test)),
    )


def _unmarked_notes(test: Sequence[Sample]) -> Iterator[str]:
    """Say which kinds of defect have no masks, and what that costs."""
    defective = [sample for sample in test if sample.label]
    bare = [sample.kind for sample in defective if not sample.is_marked]
    if bare:
        kinds = "" if len(bare) == len(defective) else f" of {', '.join(dict.fromkeys(bare))}"
        yield (
            f"no masks{kinds}: {len(bare)} of {len(defective)} defective pictures are known by "
            "their labels alone, so PRO and the other figures of pixels are a dash"
        )


def detect_layout(root: Path) -> str:
    """Return the name of a folder's layout, by the folders and files that only it has."""
    for name, layout in LAYOUTS.items():
        if layout.recognise(root):
            return name
    categories = [
        folder.name
        for folder in folders_in(root)
        if any(layout.recognise(folder) for layout in LAYOUTS.values())
    ]
    if categories:
        raise DatasetError(
            f"{root}: holds several datasets ({', '.join(categories)}); name one, "
            f"for example {root / categories[0]}"
        )
    _refuse_mixed(root, [folder.name for folder in folders_in(root)])
    return "folder"


def _refuse_mixed(root: Path, names: list[str]) -> None:
    """Refuse a wrong path into a dataset, whose defects would be fitted as good pictures."""
    splits = [name for name in names if name.lower() in _SPLIT_NAMES]
    beside_good = len(names) > 1 and any(name.lower() in _GOOD_NAMES for name in names)
    if not splits and not beside_good:
        return
    raise DatasetError(
        f"{root}: has the folders {', '.join(splits or names)} but no known layout; expected "
        f"{LAYOUTS['mvtec'].expects}, or another of {', '.join(LAYOUTS)}; if every picture "
        "under it is good, say ",
        Setting("layout", "folder"),
    )


def split_holdout(
    samples: Sequence[Sample], *, fraction: float, seed: int
) -> tuple[tuple[Sample, ...], tuple[Sample, ...]]:
    """Set some samples aside, chosen by the seed alone and not by their order."""
    if not 0 <= fraction < 1:
        raise UsageError(f"held-out fraction {fraction}: expected at least 0 and below 1")
    ordered = sorted(samples, key=lambda sample: sample.order)
    count = round(len(ordered) * fraction)
    if fraction > 0 and len(ordered) >= 2:
        count = min(max(count, 1), len(ordered) - 1)
    elif len(ordered) < 2:
        count = 0
    places = set(np.random.default_rng(seed).permutation(len(ordered))[:count].tolist())
    kept = tuple(sample for place, sample in enumerate(ordered) if place not in places)
    held_out = tuple(sample for place, sample in enumerate(ordered) if place in places)
    return kept, held_out
