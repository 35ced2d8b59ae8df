import random
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeseg.base.errors import DatasetError, UsageError
from edgeseg.data.datasets import Dataset, Sample, load_batches, open_dataset, split_holdout
from tests.support.dataset_files import relative, write_mask, write_picture


@pytest.fixture
def mvtec(tmp_path) -> Path:
    root = tmp_path / "cup"
    for index in range(4):
        write_picture(root / f"train/good/{index:03}.png", value=index)
    write_picture(root / "test/good/000.png")
    write_picture(root / "test/dent/000.JPG")
    write_picture(root / "test/crack/007.png")
    write_mask(root / "ground_truth/dent/000_mask.png", marked=True)
    write_mask(root / "ground_truth/crack/007.png", marked=True)  # the other way to name a mask
    return root


@pytest.fixture
def kolektor(tmp_path) -> Path:
    """Seven commutators of two parts; part 1 is defective; kos06 is a copy of kos01."""
    root = tmp_path / "ksdd"
    for number in range(1, 8):
        folder = root / f"kos{number:02}"
        write_picture(folder / "Part0.png", value=number).rename(folder / "Part0.jpg")
        write_picture(folder / "Part1.png", value=number + 50).rename(folder / "Part1.jpg")
        write_mask(folder / "Part0_label.bmp", marked=False)
        write_mask(folder / "Part1_label.bmp", marked=True)
    shutil.copy(root / "kos01/Part0.jpg", root / "kos06/Part0.jpg")
    return root


def test_mvtec(mvtec):
    data = open_dataset(mvtec)
    assert (data.name, data.layout, data.root) == ("cup", "mvtec", mvtec)
    assert relative(data.train, mvtec) == [f"train/good/00{index}.png" for index in range(4)]
    assert [(sample.kind, sample.label) for sample in data.test] == [
        ("crack", 1),
        ("dent", 1),
        ("good", 0),
    ]
    assert [sample.mask and sample.mask.name for sample in data.test] == [
        "007.png",
        "000_mask.png",
        None,
    ]


def test_mvtec_without_a_mask(mvtec):
    (mvtec / "ground_truth/dent/000_mask.png").unlink()
    write_picture(mvtec / "test/dent/001.png")
    write_mask(mvtec / "ground_truth/dent/001_mask.png", marked=True)
    with pytest.raises(DatasetError) as caught:
        open_dataset(mvtec)
    assert str(caught.value) == (
        f"{mvtec}/test/dent/000.JPG: defective, but its mask "
        f"{mvtec}/ground_truth/dent/000_mask.png is missing; add it, or remove the other masks in "
        f"{mvtec}/ground_truth/dent to go by labels alone"
    )


def test_mvtec_without_masks_goes_by_labels(mvtec):
    before = open_dataset(mvtec)
    shutil.rmtree(mvtec / "ground_truth")
    data = open_dataset(mvtec)
    assert (data.train, len(data.test)) == (before.train, len(before.test))
    assert [(sample.kind, sample.label, sample.mask) for sample in data.test] == [
        ("crack", 1, None),
        ("dent", 1, None),
        ("good", 0, None),
    ]
    assert data.notes == (
        "no masks: 2 of 2 defective pictures are known by their labels alone, so PRO and the other "
        "figures of pixels are a dash",
    )


def test_mvtec_with_a_kind_without_masks_says_which(mvtec):
    (mvtec / "ground_truth/dent/000_mask.png").unlink()  # an empty folder is as good as none
    data = open_dataset(mvtec)
    assert [sample.is_marked for sample in data.test] == [True, False, True]
    assert data.notes == (
        "no masks of dent: 1 of 2 defective pictures are known by their labels alone, so PRO and "
        "the other figures of pixels are a dash",
    )


@pytest.mark.parametrize("folder", ["ground_truth/dents", "ground_truth"])
def test_masks_in_a_folder_of_another_name_are_not_overlooked(mvtec, folder):
    (mvtec / folder).mkdir(exist_ok=True)
    (mvtec / "ground_truth/dent/000_mask.png").rename(mvtec / folder / "000_mask.png")
    with pytest.raises(DatasetError) as caught:
        open_dataset(mvtec)
    assert str(caught.value) == (
        f"{mvtec / folder}: masks of no kind of defect, while dent has none; expected them in "
        f"{mvtec}/ground_truth/dent, or remove them to go by labels alone"
    )


def test_mvtec_without_a_test_set_can_be_fitted(mvtec):
    shutil.rmtree(mvtec / "test")
    data = open_dataset(mvtec)
    assert (len(data.train), data.test) == (4, ())


def test_kolektor_folds_partition_the_commutators(kolektor):
    folds = [open_dataset(kolektor, fold=fold) for fold in range(3)]
    commutators = [{sample.image.parent.name for sample in data.test} for data in folds]
    assert commutators == [{"kos01", "kos04", "kos07"}, {"kos02", "kos05"}, {"kos03", "kos06"}]
    assert [len(data.test) for data in folds] == [6, 4, 4]
    assert folds[1].name == "ksdd-fold1"
    for data, own in zip(folds, commutators, strict=True):
        assert not own & {sample.image.parent.name for sample in data.train}
        assert {sample.image.name for sample in data.train} == {"Part0.jpg"}
        assert [sample.label for sample in data.test] == [0, 1] * (len(data.test) // 2)


def test_kolektor_copies_of_test_pictures_are_not_fitted(kolektor):
    zero, one, two = (open_dataset(kolektor, fold=fold) for fold in range(3))
    assert "kos06/Part0.jpg" not in relative(zero.train, kolektor)
    assert "kos01/Part0.jpg" not in relative(two.train, kolektor)
    assert zero.notes == ("copies of test pictures left out of train: 1",)
    assert {"kos01/Part0.jpg", "kos06/Part0.jpg"} <= set(relative(one.train, kolektor))
    assert one.notes == ()


@pytest.mark.parametrize("fold", [None, -1, 3])
def test_kolektor_needs_a_fold(kolektor, fold):
    with pytest.raises(UsageError, match=rf"fold {fold} of the layout kolektor, expected 0, 1 or"):
        open_dataset(kolektor, fold=fold)


def test_kolektor_without_a_label(kolektor):
    (kolektor / "kos03/Part0_label.bmp").unlink()
    with pytest.raises(DatasetError, match=r"Part0\.jpg: its mask Part0_label\.bmp is missing"):
        open_dataset(kolektor, fold=0)


def test_kolektor2_leaves_marked_pictures_out_of_train(tmp_path):
    for split, marked in (("train", {"10001"}), ("test", {"20000"})):
        for name in ("10000", "10001", "20000"):
            write_picture(tmp_path / split / f"{name}.png")
            write_mask(tmp_path / split / f"{name}_GT.png", marked=name in marked)
    data = open_dataset(tmp_path)
    assert data.layout == "kolektor2"
    assert relative(data.train, tmp_path) == ["train/10000.png", "train/20000.png"]
    assert [sample.label for sample in data.test] == [0, 0, 1]
    assert data.notes == ("defective pictures left out of train: 1",)


def test_plain_folder(tmp_path):
    for name in ("b.png", "a.JPG", "deep/er/c.bmp", ".hidden.png", ".cache/d.png"):
        write_picture(tmp_path / name)
    (tmp_path / "notes.txt").write_text("not a picture")
    data = open_dataset(tmp_path)
    assert data.layout == "folder"
    assert relative(data.train, tmp_path) == ["a.JPG", "b.png", "deep/er/c.bmp"]
    assert data.test == ()


def test_paths_and_layouts_that_cannot_be_meant(tmp_path, mvtec):
    with pytest.raises(DatasetError, match=r"absent: no such folder"):
        open_dataset(tmp_path / "absent")
    with pytest.raises(DatasetError, match=r"000\.png: a file, expected the folder"):
        open_dataset(mvtec / "train/good/000.png")
    with pytest.raises(UsageError, match="unknown layout 'coco': expected one of mvtec2, mvtec"):
        open_dataset(mvtec, layout="coco")
    with pytest.raises(UsageError, match="fold 1 was asked for, but the layout mvtec has no folds"):
        open_dataset(mvtec, fold=1)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DatasetError, match=r"empty: no good pictures to fit on; the layout folder"):
        open_dataset(tmp_path / "empty")
    with pytest.raises(DatasetError, match="the layout kolektor2 expects train/ID"):
        open_dataset(tmp_path / "empty", layout="kolektor2")


def test_a_path_that_would_fit_defects_as_good_is_refused(tmp_path, mvtec):
    with pytest.raises(DatasetError, match=r"holds several datasets \(cup\); name one, .*cup"):
        open_dataset(tmp_path)
    with pytest.raises(DatasetError, match=r"has the folders crack, dent, good but no known"):
        open_dataset(mvtec / "test")
    write_picture(tmp_path / "other/test/0.png")
    with pytest.raises(DatasetError, match=r"has the folders test but .*say layout=folder"):
        open_dataset(tmp_path / "other")
    assert len(open_dataset(tmp_path / "other", layout="folder").train) == 1


def test_samples_and_datasets_refuse_contradictions():
    image = Path("a.png")
    with pytest.raises(DatasetError, match=r"a\.png: label 1 with kind 'good'"):
        Sample(image=image, label=1, mask=image)
    dent = Sample(image=image, label=1, kind="dent", mask=image)
    with pytest.raises(DatasetError, match=r"a\.png: a defective picture among those to fit on"):
        Dataset(name="x", layout="folder", root=image, train=(dent,), test=())


some_samples = st.integers(0, 40).map(
    lambda count: [Sample(image=Path(f"r/{index:03}.png")) for index in range(count)]
)


@given(samples=some_samples, fraction=st.floats(0, 0.99), seed=st.integers(0, 9))
def test_holdout_is_a_partition_independent_of_order(samples, fraction, seed):
    train, held = split_holdout(samples, fraction=fraction, seed=seed)
    assert sorted(train + held, key=lambda sample: sample.order) == samples
    if fraction > 0 and len(samples) >= 2:
        assert len(train) >= 1
        assert len(held) >= 1
        assert abs(len(held) - fraction * len(samples)) <= 1
    else:
        assert held == ()
    shuffled = random.Random(seed).sample(samples, len(samples))
    assert split_holdout(shuffled, fraction=fraction, seed=seed) == (train, held)


def test_holdout_changes_with_the_seed_and_refuses_nonsense():
    samples = [Sample(image=Path(f"{index}.png")) for index in range(30)]
    held = {split_holdout(samples, fraction=0.2, seed=seed)[1] for seed in range(5)}
    assert len(held) == 5
    with pytest.raises(UsageError, match=r"held-out fraction 1\.0"):
        split_holdout(samples, fraction=1.0, seed=0)


@pytest.mark.parametrize(
    ("folder", "fold", "train", "good", "defective", "notes"),
    [
        ("mvtec_ad/bottle", None, 209, 20, 63, ()),
        ("mvtec_ad/cable", None, 224, 58, 92, ()),
        ("mvtec_ad/grid", None, 264, 21, 46, ()),
        ("mvtec_ad/screw", None, 320, 41, 73, ()),
        ("kolektor_sdd2", None, 40, 20, 20, ("defective pictures left out of train: 4",)),
        ("kolektor_sdd", 0, 215, 119, 17, ("copies of test pictures left out of train: 14",)),
        ("kolektor_sdd", 1, 223, 118, 18, ("copies of test pictures left out of train: 7",)),
        ("kolektor_sdd", 2, 230, 111, 17, ("copies of test pictures left out of train: 7",)),
    ],
)
def test_real_datasets(shared, folder, fold, train, good, defective, notes):
    data = open_dataset(shared / "data" / folder, fold=fold)
    labels = [sample.label for sample in data.test]
    assert (len(data.train), labels.count(0), labels.count(1)) == (train, good, defective)
    assert data.notes == notes
    marked = [sample for sample in data.test if sample.label][:6]
    (batch,) = load_batches(marked, size_hw=(256, 256), batch_size=6)
    assert all(mask_hw.any() for mask_hw in batch.masks)


def test_a_real_dataset_without_masks(shared):
    data = open_dataset(shared / "data/surfaces/coffee_pod")
    labels = [sample.label for sample in data.test]
    assert (len(data.train), labels.count(0), labels.count(1)) == (200, 60, 84)
    assert {sample.mask for sample in data.test} == {None}


def test_the_parent_of_real_categories_is_refused(shared):
    with pytest.raises(DatasetError, match=r"several datasets \(bottle, cable, grid, screw\)"):
        open_dataset(shared / "data/mvtec_ad")
