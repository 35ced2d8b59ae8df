"""VisA: twelve objects in two layouts.

As it is published, a folder of each object beside the folder of splits:

candle/Data/Images/Normal/0000.JPG   candle/Data/Images/Anomaly/000.JPG
candle/Data/Masks/Anomaly/000.png
candle/image_anno.csv                image,label,mask: the kinds of defect, in words
split_csv/1cls.csv                   object,split,label,image,mask: who is fitted, who is tested

Its authors' script arranges the first split like MVTec AD, with train/good, test/{good,bad} and
ground_truth/bad.
"""

import csv
from pathlib import Path

from edgeseg.base.errors import DatasetError
from edgeseg.data.layouts import Split, check_mask, find_mvtec
from edgeseg.data.samples import GOOD, Sample
from edgeseg.vision.images import images_in

SPLIT = Path("split_csv/1cls.csv")
COLUMNS = ("object", "split", "label", "image")  # of the split
TEST_STEP = 10  # the published split tests on every tenth good picture as well


def find_visa(root: Path) -> Split:
    """Find the published split; without its file, every tenth good picture is for testing."""
    if (root / "train" / GOOD).is_dir():
        return find_mvtec(root)
    defective = _defective(root)
    split = root.resolve().parent / SPLIT
    if split.is_file():
        return _as_published(root, split, defective)
    good = [Sample(image=image) for image in images_in(root / "Data/Images/Normal")]
    held = good[::TEST_STEP]
    note = f"no {SPLIT} beside {root.resolve().name}: every tenth good picture is for testing"
    train = tuple(sample for place, sample in enumerate(good) if place % TEST_STEP)
    return Split(train=train, test=(*defective, *held), notes=(f"{note}, {len(held)} of them",))


def _as_published(root: Path, split: Path, defective: tuple[Sample, ...]) -> Split:
    name = root.resolve().name
    rows = [row for row in _rows(split, COLUMNS) if row["object"] == name]
    if not rows:
        raise DatasetError(f"{split}: no pictures of {name}; expected the name of the object there")
    good: dict[str, list[Sample]] = {"train": [], "test": []}
    for row in rows:
        if row["label"] == "normal" and row["split"] in good:
            image = root.joinpath(*Path(row["image"]).parts[1:])
            good[row["split"]].append(Sample(image=image))
    train, held = (
        tuple(sorted(samples, key=lambda sample: sample.order)) for samples in good.values()
    )
    return Split(train=train, test=(*defective, *held))


def _defective(root: Path) -> tuple[Sample, ...]:
    """Return all defective pictures: every one-class split tests on all of them."""
    kinds = _kinds(root / "image_anno.csv")
    masks = {path.stem: path for path in images_in(root / "Data/Masks/Anomaly")}
    samples = []
    for image in images_in(root / "Data/Images/Anomaly"):
        own = masks.get(image.stem)
        expected = root / "Data/Masks/Anomaly" / f"{image.stem}.png"
        check_mask(own, image, expected=expected, others=masks)
        kind = kinds.get(image.name) or "anomaly"
        samples.append(Sample(image=image, mask=own, label=1, kind=kind))
    return tuple(samples)


def _kinds(annotations: Path) -> dict[str, str]:
    """Return the kind of defect by picture name; without the file there is one kind."""
    if not annotations.is_file():
        return {}
    rows = _rows(annotations, ("image", "label", "mask"))
    # A kind names a folder of pictures later on.
    return {Path(row["image"]).name: row["label"].replace("/", "-") for row in rows if row["mask"]}


def _rows(table: Path, columns: tuple[str, ...]) -> list[dict[str, str]]:
    """Read these columns of a table; missing cells are empty."""
    try:
        with table.open(newline="", encoding="utf-8-sig") as file:
            return [{name: row[name] or "" for name in columns} for row in csv.DictReader(file)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DatasetError(f"{table}: cannot be read as a table ({error})") from None
    except KeyError as error:
        raise DatasetError(
            f"{table}: no column {error}, expected {', '.join(columns)}; copy it again"
        ) from None
