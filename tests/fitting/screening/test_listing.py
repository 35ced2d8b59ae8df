"""`edgeseg fit --robust`: what it prints and writes, and that leaving out is not having had."""

import json
import shutil
from pathlib import Path

import cv2
import pytest

from edgeseg.data.datasets import open_dataset
from edgeseg.data.samples import Sample
from edgeseg.fitting.screening.listing import name_of
from edgeseg.model.artefact import load_artefact
from edgeseg.modelfile.header import read_header
from tests.support.commands import FIT, fail, run, succeed
from tests.support.small_models import write_plate

FIT_64 = [*FIT, "--size", "64", "-k", "8", "--rank", "5"]


@pytest.fixture(scope="module")
def spoilt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve good images of 64x64 and the negative of one."""
    data = write_plate(tmp_path_factory.mktemp("data") / "plate", size_hw=(64, 64), train=12)
    good = sorted((data / "train/good").iterdir())[0]
    cv2.imwrite(str(data / "train/good/foreign.png"), 255 - cv2.imread(str(good)))
    return data


def test_listing_fits_on_all(spoilt, tmp_path):
    out, plain = tmp_path / "m.edgeseg", tmp_path / "plain.edgeseg"
    result = succeed("fit", spoilt, "--out", out, *FIT_64, "--robust")
    first = result.stdout.splitlines()[0]
    assert first.startswith("train/good/foreign.png: score ")
    assert " spreads above the others, worst at " in first
    assert f"of 13 images do not look like the others; wrote {out}.suspects.png" in result.stderr
    assert "fitting on all of them; leave them out with --robust drop" in result.stderr
    assert read_header(out)["data"]["fitted"] == 13
    succeed("fit", spoilt, "--out", plain, *FIT_64)
    assert out.read_bytes() == plain.read_bytes()


def test_the_list_and_the_pictures(spoilt, tmp_path):
    out = tmp_path / "m.edgeseg"
    succeed("fit", spoilt, "--out", out, *FIT_64, "--robust", "list", "--quiet")
    found = json.loads(Path(f"{out}.suspects.json").read_text())
    assert found["images"] == 13
    assert found["suspects"][0]["image"] == "train/good/foreign.png"
    assert found["suspects"][0]["score"] > found["limit"] > found["middle"]
    assert all(0 < share < 1 for share in found["suspects"][0]["peak_xy"])
    sheet = cv2.imread(f"{out}.suspects.png")
    assert sheet.shape[1] > 3 * 224  # input, map and decision side by side


def test_dropping_is_never_having_had_them(spoilt, tmp_path):
    out, clean = tmp_path / "m.edgeseg", tmp_path / "clean.edgeseg"
    result = succeed("fit", spoilt, "--out", out, *FIT_64, "--robust", "drop")
    assert "fitting on all" not in result.stderr
    assert "the false-alarm rate is then one of images like the others" in result.stderr
    left_out = read_header(out)["data"]["left_out"]
    assert "train/good/foreign.png" in left_out
    rest = shutil.copytree(spoilt, tmp_path / "plate")
    for name in left_out:
        (rest / name).unlink()
    succeed("fit", rest, "--out", clean, *FIT_64)
    dropped, never_had = load_artefact(out), load_artefact(clean)
    assert dropped.data == never_had.data | {"left_out": left_out}
    assert (dropped.factors.factor == never_had.factors.factor).all()
    assert (dropped.moments.scatter == never_had.moments.scatter).all()
    assert dropped.calibration.header() == never_had.calibration.header()


def test_good_images_alone(tmp_path):
    data = write_plate(tmp_path / "plate", size_hw=(64, 64), train=10)
    out = tmp_path / "m.edgeseg"
    Path(f"{out}.suspects.png").write_bytes(b"of an earlier fit")
    result = succeed("fit", data, "--out", out, *FIT_64, "--robust", "drop")
    assert result.stdout == ""
    assert f"0 of 10 images do not look like the others; wrote {out}.suspects.json" in result.stderr
    assert not Path(f"{out}.suspects.png").exists()
    assert read_header(out)["data"]["left_out"] == []


def test_one_image(tmp_path):
    data = write_plate(tmp_path / "plate", size_hw=(64, 64), train=1)
    result = succeed("fit", data, "--out", tmp_path / "m", *FIT_64, "--robust")
    assert "--robust: 1 images, too few to compare with each other" in result.stderr
    assert [path.name for path in tmp_path.iterdir() if "suspects" in path.name] == []


def test_too_many_to_drop(spoilt, tmp_path, monkeypatch):
    monkeypatch.setattr("edgeseg.fitting.screening.screen.MOST_SHARE", 0.01)
    result = run("fit", spoilt, "--out", tmp_path / "m", *FIT_64, "--robust", "drop")
    assert result.exit_code == 1
    assert "foreign.png" in result.stdout  # listed all the same
    sentence = result.stderr.strip().splitlines()[-1]
    assert " images look different, more than 1%: rather another kind of part " in sentence
    assert sentence.endswith("fit the kinds apart, or leave --robust drop out")
    assert not (tmp_path / "m").exists()


def test_a_wrong_word(spoilt, tmp_path):
    sentence = fail("fit", spoilt, "--out", tmp_path / "m", *FIT_64, "--robust", "remove", code=2)
    assert "'remove' is not one of 'list', 'drop'" in sentence


def test_names_of_frames_of_a_video(spoilt):
    dataset = open_dataset(spoilt)
    frame = Sample(image=spoilt / "training/videos/a.avi", image_index=7)
    assert name_of(frame, dataset) == "training/videos/a.avi#7"
    assert name_of(dataset.train[0], dataset) == "train/good/000.png"
