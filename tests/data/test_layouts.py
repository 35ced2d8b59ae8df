"""VisA, BTAD and MVTec AD 2 as they lie on disk, each recognised by what only it has."""

import shutil
from pathlib import Path

import pytest

from edgeseg.base.errors import DatasetError, UsageError
from edgeseg.data.datasets import Dataset, load_batches, open_dataset
from tests.support.dataset_files import relative, write_mask, write_picture


def kinds(data: Dataset) -> list[str]:
    return [sample.kind for sample in data.test]


def masks(data: Dataset) -> list[str | None]:
    return [sample.mask and sample.mask.name for sample in data.test]


def assert_masks_are_read(data: Dataset) -> None:
    (batch,) = load_batches(data.test, size_hw=(12, 10), batch_size=100)
    assert [mask.any() for mask in batch.masks] == [sample.label == 1 for sample in data.test]


def assert_it_goes_by_labels(root: Path, masks: Path) -> None:
    """Without its masks a dataset has the same pictures and labels."""
    before = open_dataset(root)
    shutil.rmtree(masks)
    data = open_dataset(root)
    assert data.train == before.train
    assert [sample.image for sample in data.test] == [sample.image for sample in before.test]
    assert kinds(data) == kinds(before)
    assert {sample.mask for sample in data.test} == {None}
    assert data.notes[-1].startswith("no masks: 2 of 2 defective pictures are known by")


# --- MVTec AD 2 --------------------------------------------------------------------------------


@pytest.fixture
def mvtec2(tmp_path) -> Path:
    root = tmp_path / "vial"
    for index in range(3):
        write_picture(root / f"train/good/{index:03}_regular.png")
    write_picture(root / "validation/good/000_regular.png")
    write_picture(root / "test_public/good/000_regular.png")
    for light in ("regular", "overexposed"):
        write_picture(root / f"test_public/bad/000_{light}.png")
        truth = root / "test_public/ground_truth/bad"
        write_mask(truth / f"000_{light}_mask.png", marked=True)
    write_picture(root / "test_private/000_regular.png")
    write_picture(root / "test_private_mixed/000_mixed.png")
    return root


def test_mvtec2(mvtec2):
    data = open_dataset(mvtec2)
    assert (data.name, data.layout, len(data.train)) == ("vial", "mvtec2", 3)
    assert kinds(data) == ["bad", "bad", "good"]
    assert masks(data) == ["000_overexposed_mask.png", "000_regular_mask.png", None]
    assert data.notes == (
        "good pictures of validation left out: 1",
        "pictures of test_private left out, their truth is not published: 2",
    )
    assert_masks_are_read(data)


def test_mvtec2_without_a_mask(mvtec2):
    (mvtec2 / "test_public/ground_truth/bad/000_regular_mask.png").unlink()
    with pytest.raises(DatasetError, match=r"defective, but its mask .*000_regular_mask\.png is"):
        open_dataset(mvtec2)


def test_mvtec2_without_masks_goes_by_labels(mvtec2):
    assert_it_goes_by_labels(mvtec2, mvtec2 / "test_public/ground_truth")


def test_mvtec2_without_what_is_left_out_says_nothing(mvtec2):
    for name in ("validation", "test_private", "test_private_mixed"):
        shutil.rmtree(mvtec2 / name)
    assert open_dataset(mvtec2).notes == ()


# --- BTAD --------------------------------------------------------------------------------------


@pytest.fixture
def btad(tmp_path) -> Path:
    root = tmp_path / "btad/01"
    for index in range(3):
        write_picture(root / f"train/ok/{index:04}.bmp")
    write_picture(root / "test/ok/0000.bmp")
    write_picture(root / "test/ko/0000.bmp")
    write_picture(root / "test/ko/0001.bmp")
    write_mask(root / "ground_truth/ko/0000.png", marked=True)  # as product 01 has them
    write_mask(root / "ground_truth/ko/0001.bmp", marked=True)  # as product 03 has them
    return root


def test_btad(btad):
    data = open_dataset(btad)
    assert (data.name, data.layout, len(data.train)) == ("01", "btad", 3)
    assert kinds(data) == ["ko", "ko", "good"]
    assert masks(data) == ["0000.png", "0001.bmp", None]
    assert_masks_are_read(data)


def test_btad_without_a_mask(btad):
    (btad / "ground_truth/ko/0001.bmp").unlink()
    with pytest.raises(DatasetError, match=r"0001\.bmp: defective, but its mask .*0001\.png is"):
        open_dataset(btad)


def test_btad_without_masks_goes_by_labels(btad):
    assert_it_goes_by_labels(btad, btad / "ground_truth")


# --- VisA --------------------------------------------------------------------------------------


@pytest.fixture
def visa(tmp_path) -> Path:
    root = tmp_path / "visa/candle"
    lines = ["object,split,label,image,mask", "pcb1,train,normal,pcb1/Data/Images/Normal/7.JPG,"]
    for index in range(12):
        image = f"Data/Images/Normal/{index:04}.JPG"
        write_picture(root / image)
        lines.append(f"candle,{'test' if index in (3, 5) else 'train'},normal,candle/{image},")
    kinds_of = ["image,label,mask", "candle/Data/Images/Normal/0000.JPG,normal,"]
    for index, kind in enumerate(["melt", '"wax missing,other/particles"']):
        image, mask = f"Data/Images/Anomaly/{index:03}.JPG", f"Data/Masks/Anomaly/{index:03}.png"
        write_picture(root / image)
        write_mask(root / mask, marked=True)
        lines.append(f"candle,test,anomaly,candle/{image},candle/{mask}")
        kinds_of.append(f"candle/{image},{kind},candle/{mask}")
    (root / "image_anno.csv").write_text("\n".join(kinds_of))
    (root.parent / "split_csv").mkdir()
    text = "\n".join([lines[0], *reversed(lines[1:])])  # the published order is a random one
    (root.parent / "split_csv/1cls.csv").write_text(text)
    return root


def test_visa_as_published(visa):
    data = open_dataset(visa)
    assert (data.name, data.layout, data.notes) == ("candle", "visa", ())
    tested = ["0003.JPG", "0005.JPG"]
    assert [sample.image.name for sample in data.train] == [
        f"{index:04}.JPG" for index in range(12) if f"{index:04}.JPG" not in tested
    ]
    assert kinds(data) == ["melt", "wax missing,other-particles", "good", "good"]
    assert [sample.image.name for sample in data.test] == ["000.JPG", "001.JPG", *tested]
    assert_masks_are_read(data)


def test_visa_without_the_files_beside_the_pictures(visa):
    """One object alone: a split of our own, and we say so."""
    shutil.rmtree(visa.parent / "split_csv")
    (visa / "image_anno.csv").unlink()
    data = open_dataset(visa)
    assert relative(data.test, visa / "Data/Images") == [
        "Anomaly/000.JPG", "Anomaly/001.JPG", "Normal/0000.JPG", "Normal/0010.JPG",
    ]  # fmt: skip
    assert len(data.train) == 10
    assert kinds(data) == ["anomaly", "anomaly", "good", "good"]
    assert data.notes == (
        "no split_csv/1cls.csv beside candle: every tenth good picture is for testing, 2 of them",
    )


def test_visa_arranged_like_mvtec(tmp_path):
    root = tmp_path / "candle"
    write_picture(root / "train/good/0836.JPG")
    write_picture(root / "test/good/0000.JPG")
    write_picture(root / "test/bad/000.JPG")
    write_mask(root / "ground_truth/bad/000.png", marked=True)
    data = open_dataset(root)
    assert (data.layout, kinds(data), masks(data)) == ("mvtec", ["bad", "good"], ["000.png", None])
    asked = open_dataset(root, layout="visa")
    assert (asked.train, asked.test) == (data.train, data.test)
    assert_masks_are_read(data)


def test_visa_without_a_mask(visa):
    (visa / "Data/Masks/Anomaly/001.png").unlink()
    with pytest.raises(DatasetError, match=r"001\.JPG: defective, but its mask .*001\.png is miss"):
        open_dataset(visa)


def test_visa_without_masks_goes_by_labels(visa):
    assert_it_goes_by_labels(visa, visa / "Data/Masks")


def test_visa_with_a_split_of_others(visa):
    renamed = visa.rename(visa.parent / "kerze")
    with pytest.raises(DatasetError, match=r"1cls\.csv: no pictures of kerze; expected the name"):
        open_dataset(renamed)


def test_visa_with_tables_that_are_none(visa):
    (visa / "image_anno.csv").write_text("image;label;mask\n")
    open_dataset(visa)  # no rows, no kinds
    (visa / "image_anno.csv").write_text("image;label;mask\na;b;c\n")
    with pytest.raises(DatasetError, match=r"anno\.csv: no column 'image', expected image, label"):
        open_dataset(visa)
    (visa / "image_anno.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DatasetError, match=r"image_anno\.csv: cannot be read as a table"):
        open_dataset(visa)


# --- wrong paths -------------------------------------------------------------------------------


def test_the_folder_above_names_its_datasets(visa, btad, mvtec2):
    for root in (visa, btad, mvtec2):
        with pytest.raises(DatasetError, match=rf"several datasets \({root.name}\); name one"):
            open_dataset(root.parent)


@pytest.mark.parametrize("below", ["Data", "Data/Images"])
def test_a_path_into_visa_is_refused(visa, below):
    with pytest.raises(DatasetError, match=r"but no known layout; expected"):
        open_dataset(visa / below)


def test_a_path_into_a_test_set_is_refused(btad, mvtec2):
    with pytest.raises(DatasetError, match=r"has the folders ko, ok but no known layout"):
        open_dataset(btad / "test")
    with pytest.raises(DatasetError, match=r"has the folders ground_truth but no known layout"):
        open_dataset(mvtec2 / "test_public")


def test_folders_of_variants(tmp_path):
    root = tmp_path / "parts"
    for place in ("red/000.png", "blue/deep/000.png", "loose.png"):
        write_picture(root / place)
    assert {sample.variant for sample in open_dataset(root).train} == {None}
    data = open_dataset(root, variants=True)
    assert [sample.variant for sample in data.train] == ["blue", None, "red"]


def test_variants_of_mvtec(tmp_path):
    root = tmp_path / "cup"
    write_picture(root / "train/good/red/000.png")
    write_picture(root / "test/good/red/000.png")
    write_picture(root / "test/dent/red/000.png")
    write_picture(root / "test/dent/001.png")
    write_mask(root / "ground_truth/dent/red/000_mask.png", marked=True)
    with pytest.raises(DatasetError, match="no good pictures"):
        open_dataset(root)
    data = open_dataset(root, variants=True)
    assert [sample.variant for sample in data.train] == ["red"]
    found = {(each.kind, each.variant, each.is_marked) for each in data.test}
    assert found == {("good", "red", True), ("dent", "red", True), ("dent", None, False)}


def test_other_layouts_have_no_variants(btad):
    with pytest.raises(UsageError, match=r"layout btad.*expected mvtec, folder"):
        open_dataset(btad, variants=True)
