"""The layouts of public datasets: where each keeps its pictures and masks.

Each layout is a function from a root folder to its pictures to fit on and to test on. Files come
sorted by path, so nothing depends on the order in which a file system lists them.

A kind of defect has a mask of every picture, or no masks at all: then its pictures are known by
their label alone. A single missing mask is refused, because it is probably a mistake, and so are
masks in a folder that is named like no kind, while some kind has none.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edgeseg.base.errors import DatasetError
from edgeseg.base.files import file_sha256
from edgeseg.data.samples import GOOD, Sample
from edgeseg.vision.images import images_in, pictures_below, read_mask

KOLEKTOR_FOLDS = 3


@dataclass(frozen=True, kw_only=True)
class Split:
    """Good pictures to fit on, pictures to test on, and what was left out."""

    train: tuple[Sample, ...]
    test: tuple[Sample, ...] = ()
    notes: tuple[str, ...] = ()


def folders_in(folder: Path) -> list[Path]:
    """Return the folders directly in a folder, without hidden ones, sorted by name."""
    if not folder.is_dir():
        return []
    return sorted(
        path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")
    )


def find_mvtec(root: Path, *, variants: bool = False) -> Split:
    """Find MVTec AD: train/good, test/<kind>, ground_truth/<kind>/<stem>_mask.png.

    With variants pictures and masks may lie one folder deeper, which is named like their variant.
    """
    mask = "{}_mask.png"
    test = _by_folder(root / "test", root / "ground_truth", mask=mask, variants=variants)
    return Split(train=_good_in(root / "train" / GOOD, variants=variants), test=test)


def find_mvtec2(root: Path) -> Split:
    """Find MVTec AD 2: train/good, test_public/{good,bad}, test_public/ground_truth/bad.

    Published figures are of models that saw train/good alone, so validation/good is left out; a
    fit calibrates by itself.
    """
    public = root / "test_public"
    test = _by_folder(public, public / "ground_truth", mask="{}_mask.png")
    left_out = {
        "good pictures of validation left out": images_in(root / "validation" / GOOD),
        "pictures of test_private left out, their truth is not published": [
            image
            for name in ("test_private", "test_private_mixed")
            for image in images_in(root / name)
        ],
    }
    notes = tuple(f"{what}: {len(images)}" for what, images in left_out.items() if images)
    return Split(train=_good_in(root / "train" / GOOD), test=test, notes=notes)


def find_btad(root: Path) -> Split:
    """Find BTAD: train/ok, test/{ok,ko}, ground_truth/ko/<stem> with a suffix of its own."""
    test = _by_folder(root / "test", root / "ground_truth", mask="{}.png", good="ok")
    return Split(train=_good_in(root / "train" / "ok"), test=test)


def find_kolektor2(root: Path) -> Split:
    """Find KolektorSDD2: {train,test}/ID.png with ID_GT.png.

    Defective pictures in train are left out.
    """
    train, test = (
        [
            _by_its_mask(image, image.with_name(f"{image.stem}_GT.png"))
            for image in images_in(root / split)
            if not image.stem.endswith("_GT")
        ]
        for split in ("train", "test")
    )
    good = tuple(sample for sample in train if sample.label == 0)
    marked = len(train) - len(good)
    notes = (f"defective pictures left out of train: {marked}",) if marked else ()
    return Split(train=good, test=tuple(test), notes=notes)


def find_kolektor(root: Path, *, fold: int) -> Split:
    """Find KolektorSDD: kosNN/PartM.jpg with PartM_label.bmp; one fold of three is the test set.

    The authors publish their three folds as a separate pickle, which is not part of the dataset.
    Here a commutator belongs to the fold of its place in the sorted list modulo three, so all
    pictures of one commutator stay together and the folds have 17, 17 and 16 of the 50.
    """
    folds: dict[int, list[Sample]] = defaultdict(list)
    for place, folder in enumerate(kolektor_commutators(root)):
        folds[place % KOLEKTOR_FOLDS] += [
            _by_its_mask(image, image.with_name(f"{image.stem}_label.bmp"))
            for image in images_in(folder)
            if not image.stem.endswith("_label")
        ]
    test = folds[fold]
    good = [
        sample
        for other in sorted(folds)
        if other != fold
        for sample in folds[other]
        if sample.label == 0
    ]
    # Two commutators are in the dataset twice: fitting on a copy would be fitting on the test set.
    copies = _copies_of(good, test)
    train = tuple(sample for sample in good if sample not in copies)
    notes = (f"copies of test pictures left out of train: {len(copies)}",) if copies else ()
    return Split(train=train, test=tuple(test), notes=notes)


def kolektor_commutators(root: Path) -> list[Path]:
    """Return the kosNN folders in the order of their numbers."""
    numbered = [
        (int(match[1]), folder)
        for folder in folders_in(root)
        if (match := re.fullmatch(r"kos(\d+)", folder.name))
    ]
    return [folder for _, folder in sorted(numbered)]


def find_folder(root: Path, *, variants: bool = False) -> Split:
    """Find good pictures in a folder, at any depth; hidden files and folders are ignored.

    With variants the folders directly in it are named like them.
    """
    samples = tuple(Sample(image=image) for image in pictures_below(root))
    return Split(train=tuple(_in_variant(each, root) for each in samples) if variants else samples)


def _good_in(folder: Path, *, variants: bool = False) -> tuple[Sample, ...]:
    places = (folder, *folders_in(folder)) if variants else (folder,)
    samples = (Sample(image=image) for place in places for image in images_in(place))
    return tuple(_in_variant(each, folder) if variants else each for each in samples)


def _in_variant(sample: Sample, folder: Path) -> Sample:
    """Name the variant of a picture by the folder that it lies in, below another one."""
    inside, *deeper = sample.image.relative_to(folder).parts
    return replace(sample, variant=inside) if deeper else sample


def _by_folder(
    tests: Path, truth: Path, *, mask: str, good: str = GOOD, variants: bool = False
) -> tuple[Sample, ...]:
    """Find test pictures in a folder per kind; masks are named `mask` or like their picture."""
    samples: list[Sample] = []
    folders = [folder for folder in folders_in(tests) if folder != truth]
    for folder in folders:
        if folder.name == good:
            samples += _good_in(folder, variants=variants)
            continue
        for place in (folder, *folders_in(folder)) if variants else (folder,):
            marked = truth / place.relative_to(tests)
            found = _defective_in(place, marked, mask=mask, kind=folder.name)
            samples += [_in_variant(each, folder) if variants else each for each in found]
    _refuse_lost_masks(truth, samples, kinds={folder.name for folder in folders})
    return tuple(samples)


def _defective_in(folder: Path, truth: Path, *, mask: str, kind: str) -> list[Sample]:
    masks = {path.stem: path for path in images_in(truth)}
    samples = []
    for image in images_in(folder):
        expected = truth / mask.format(image.stem)
        own = masks.get(expected.stem, masks.get(image.stem))
        check_mask(own, image, expected=expected, others=masks)
        samples.append(Sample(image=image, mask=own, label=1, kind=kind))
    return samples


def check_mask(own: Path | None, image: Path, *, expected: Path, others: Collection[str]) -> None:
    """Refuse a defective picture without a mask, unless its kind has no masks at all."""
    if own is None and others:
        raise DatasetError(
            f"{image}: defective, but its mask {expected} is missing; add it, or remove the other "
            f"masks in {expected.parent} to go by labels alone"
        )


def _refuse_lost_masks(truth: Path, samples: Sequence[Sample], *, kinds: Collection[str]) -> None:
    """Refuse masks that belong to no kind, where a kind has none: some folder has a wrong name."""
    bare = next((sample.kind for sample in samples if not sample.is_marked), None)
    folders = (truth, *(folder for folder in folders_in(truth) if folder.name not in kinds))
    lost = next((folder for folder in folders if images_in(folder)), None)
    if bare is not None and lost is not None:
        raise DatasetError(
            f"{lost}: masks of no kind of defect, while {bare} has none; expected them in "
            f"{truth / bare}, or remove them to go by labels alone"
        )


def _by_its_mask(image: Path, mask: Path) -> Sample:
    """Label a picture of Kolektor, which is good if its mask is empty."""
    if not mask.is_file():
        raise DatasetError(f"{image}: its mask {mask.name} is missing, so its label is unknown")
    if read_mask(mask).any():
        return Sample(image=image, mask=mask, label=1, kind="defect")
    return Sample(image=image)


def _copies_of(candidates: Sequence[Sample], originals: Iterable[Sample]) -> set[Sample]:
    """Return the candidates whose file has the same bytes as one of the originals."""
    known = {_digest(sample.image) for sample in originals}
    return {sample for sample in candidates if _digest(sample.image) in known}


def _digest(path: Path) -> str:
    try:
        return file_sha256(path)
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read ({error.strerror or error})") from None
