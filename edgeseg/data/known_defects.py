"""Known defects of a part: pictures in folders by kind, marked or not.

defects/scratch/001.png         the folder is the kind; pictures that lie in no folder are `defect`
defects/scratch/001_mask.png    white where the defect is (or ground_truth/scratch beside defects)
defects/scratch/001.json        or its outline: polygons or boxes, as labelme writes them
defects/kinds.txt               names of kinds, a line each, whose numbers stay as they are; or none
"""

from pathlib import Path

from edgeseg.base.errors import DatasetError
from edgeseg.data.layouts import folders_in
from edgeseg.data.samples import GOOD, Sample
from edgeseg.vision.images import images_in, pictures_below

UNNAMED_KIND = "defect"
KIND_ORDER = "kinds.txt"
_MASK = "_mask"
NO_KINDS = frozenset({GOOD, "ok", "normal", "ground_truth", "masks"})  # folders of other things


def read_known_defects(folder: Path) -> tuple[Sample, ...]:
    """Find the pictures of known defects, sorted by kind and name; good ones beside are left out.

    Every sample is labelled as defective. Its mask is a picture, a .json of outlines, or None.
    """
    if not folder.is_dir():
        what = "a file" if folder.exists() else "no such folder"
        raise DatasetError(
            f"{folder}: {what}, expected a folder of defective pictures, in folders by kind"
        )
    kinds = [each for each in folders_in(folder) if each.name.lower() not in NO_KINDS]
    truth = folder.parent / "ground_truth"  # of a data set whose test folder this is
    samples = _defects_of(UNNAMED_KIND, images_in(folder), truth / "none")
    for kind in kinds:
        samples += _defects_of(kind.name, pictures_below(kind), truth / kind.name)
    if not samples:
        raise DatasetError(
            f"{folder}: no pictures of defects; expected some in it, or in folders by kind such as "
            f"{folder / 'scratch'}"
        )
    return tuple(samples)


def read_kind_order(folder: Path) -> tuple[str, ...]:
    """Read the kinds whose numbers stay: the n-th line of kinds.txt is kind n."""
    path = folder / KIND_ORDER
    if not path.is_file():
        return ()
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise DatasetError(f"{path}: no text in UTF-8, expected a kind in every line") from None
    names = tuple(line.strip() for line in lines)
    if "" in names or len(set(names)) < len(names):
        raise DatasetError(
            f"{path}: an empty line or a kind that is named twice, expected another kind in every "
            "line; the number of a kind is that of its line"
        )
    return names


def _defects_of(kind: str, pictures: list[Path], truth: Path) -> list[Sample]:
    """Return the pictures of one kind, each with the mask that lies beside it or in a folder."""
    known = set(pictures)
    masks = {path: _picture_of(path, known) for path in pictures if path.stem.endswith(_MASK)}
    for path, picture in masks.items():
        if picture is None:
            name = path.stem.removesuffix(_MASK)
            raise DatasetError(f"{path}: a mask without its picture; expected {name}.png beside it")
    apart = {path.stem: path for path in images_in(truth)}
    beside = {picture: path for path, picture in masks.items()}
    return [
        Sample(image=path, mask=beside.get(path) or _marks_of(path, apart), label=1, kind=kind)
        for path in pictures
        if path not in masks
    ]


def _picture_of(mask: Path, known: set[Path]) -> Path | None:
    """Return the picture that a mask belongs to."""
    stem = mask.stem.removesuffix(_MASK)
    found = (path for path in known if path.parent == mask.parent and path.stem == stem)
    return next(found, None)


def _marks_of(picture: Path, masks: dict[str, Path]) -> Path | None:
    """Return the outlines beside a picture, or its mask in a folder of masks."""
    outlines = picture.with_suffix(".json")
    if outlines.is_file():
        return outlines
    return masks.get(f"{picture.stem}{_MASK}", masks.get(picture.stem))
