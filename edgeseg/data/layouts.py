"""The layouts of public datasets: where each keeps its pictures and masks.

Each layout is a function from a root folder to its pictures to fit on and to test on. Files come
sorted by path, so nothing depends on the order in which a file system lists them.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgeseg.base.errors import DatasetError
from edgeseg.base.files import file_sha256
from edgeseg.data.samples import GOOD, Sample
from edgeseg.vision.images import images_in, is_image_file, read_mask

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


def find_mvtec(root: Path) -> Split:
    """Find MVTec AD: train/good, test/<kind>, ground_truth/<kind>/<stem>_mask.png."""
    test = _by_folder(root / "test", root / "ground_truth", mask="{}_mask.png")
    return Split(train=_good_in(root / "train" / GOOD), test=test)


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


def find_folder(root: Path) -> Split:
    """Find good pictures in a folder, at any depth; hidden files and folders are ignored."""
    images = (
        path
        for path in root.rglob("*.*")
        if is_image_file(path)
        and not any(part.startswith(".") for part in path.relative_to(root).parts)
        and path.is_file()
    )
    return Split(train=tuple(Sample(image=image) for image in sorted(images)))


def _good_in(folder: Path) -> tuple[Sample, ...]:
    return tuple(Sample(image=image) for image in images_in(folder))


def _by_folder(tests: Path, truth: Path, *, mask: str, good: str = GOOD) -> tuple[Sample, ...]:
    """Find test pictures in a folder per kind; masks are named `mask` or like their picture."""
    samples: list[Sample] = []
    for folder in folders_in(tests):
        if folder == truth:
            continue
        if folder.name == good:
            samples += _good_in(folder)
            continue
        masks = {path.stem: path for path in images_in(truth / folder.name)}
        for image in images_in(folder):
            expected = truth / folder.name / mask.format(image.stem)
            own = masks.get(expected.stem, masks.get(image.stem))
            if own is None:
                raise DatasetError(f"{image}: defective, but its mask {expected} is missing")
            samples.append(Sample(image=image, mask=own, label=1, kind=folder.name))
    return tuple(samples)


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
