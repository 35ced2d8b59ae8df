"""`edgeseg fit --all`: which datasets it finds, the table, and that one failure stops no other."""

import json
import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest

from edgeseg.base.errors import DatasetError, UsageError
from edgeseg.cli.dataset_jobs import FitOutcome, datasets_below, table
from edgeseg.model.artefact import load_artefact
from tests.support.commands import FIT, fail, run, succeed
from tests.support.small_models import write_plate

FIT_64 = [*FIT, "--size", "64", "-k", "8", "--rank", "5"]


def plain_folder(folder: Path, plate: Path) -> None:
    shutil.copytree(plate / "train/good", folder)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two datasets, of different layouts, and a folder without pictures between them."""
    folder = tmp_path_factory.mktemp("parts")
    plate = write_plate(folder / "plate", size_hw=(64, 64), train=4)
    plain_folder(folder / "bolts", plate)
    (folder / "empty").mkdir()
    return folder


def kolektor(folder: Path) -> Path:
    for number in (1, 2, 3):
        part = folder / f"kos0{number}"
        part.mkdir(parents=True)
        cv2.imwrite(str(part / "Part0.jpg"), np.full((64, 64), number, np.uint8))
        cv2.imwrite(str(part / "Part0_label.bmp"), np.zeros((64, 64), np.uint8))
    return folder


def layouts(root: Path, layout: str | None = None) -> dict[str, str | None]:
    return {job.name: job.layout for job in datasets_below(root, root / "m", layout=layout)}


def test_datasets_of_any_layout(root):
    assert layouts(root) == {"bolts": "folder", "empty": "folder", "plate": "mvtec"}
    models = [job.model for job in datasets_below(root, Path("models"))]
    assert models[0] == Path("models/bolts.edgeseg")


def test_datasets_in_folders_of_folders(root, tmp_path):
    shutil.copytree(root / "plate", tmp_path / "lines/a/plate")
    plain_folder(tmp_path / "lines/a/bolts", root / "plate")
    plain_folder(tmp_path / "lines/b", root / "plate")
    assert layouts(tmp_path / "lines") == {"a/bolts": "folder", "a/plate": "mvtec", "b": "folder"}


def test_a_layout_for_all(root):
    assert set(layouts(root, layout="folder").values()) == {"folder"}


def test_a_folder_that_is_a_dataset_itself(root):
    with pytest.raises(UsageError) as caught:
        datasets_below(root / "plate", root)
    assert (
        str(caught.value) == f"{root / 'plate'}: one dataset of the layout mvtec; leave --all out"
    )


def test_no_folders(tmp_path):
    with pytest.raises(DatasetError) as caught:
        datasets_below(tmp_path, tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}: no folders below it; --all expects one folder of each dataset, such as "
        f"{tmp_path / 'bottle'}"
    )
    with pytest.raises(DatasetError, match="no such folder"):
        datasets_below(tmp_path / "none", tmp_path)


def test_the_table():
    text = table(
        [
            FitOutcome(
                name="a", model="m/a.edgeseg", images=209, seconds=12.34, threshold=17.891,
                false_alarm_rate=0.01, size_bytes=38_400_000,
            ),
            FitOutcome(name="cable", error="no pictures"),
            FitOutcome(
                name="b", model="m/b.edgeseg", images=5, threshold=3.0, false_alarm_rate=1 / 6,
                size_bytes=1_000,
            ),
            FitOutcome(
                name="c", model="m/c.edgeseg", images=5, threshold=3.0, false_alarm_rate=1 / 6,
                size_bytes=1_000, seconds=1.0, suspects=("x", "y"),
            ),
        ]
    )  # fmt: skip
    assert text.splitlines() == [
        "model  good images  seconds  threshold  false alarms     size",
        "a              209     12.3      17.89          1.0%  38.4 MB",
        "cable                                                          failed: no pictures",
        "b                5                   3         16.7%   1.0 kB  kept as it was",
        "c                5      1.0          3         16.7%   1.0 kB  2 suspects",
    ]


def test_one_failure_stops_no_other(root, tmp_path):
    models = tmp_path / "models"
    result = run("fit", root, "--all", "--out", models, *FIT_64)
    assert result.exit_code == 1
    rows = result.stdout.splitlines()
    assert [row.split()[0] for row in rows] == ["model", "bolts", "empty", "plate"]
    assert f"failed: {root / 'empty'}: no good pictures to fit on" in rows[2]
    assert "wrote 2 models" in result.stderr
    assert "failed: empty; next: the same command with --skip-existing" in result.stderr
    assert load_artefact(models / "bolts.edgeseg").data["layout"] == "folder"
    assert load_artefact(models / "plate.edgeseg").data["fitted"] == 4


def test_a_rerun_fits_what_is_missing(root, tmp_path):
    models, data = tmp_path / "models", tmp_path / "parts"
    shutil.copytree(root, data)
    (data / "empty").rmdir()
    succeed("fit", data, "--all", "--out", models, *FIT_64, "--quiet")
    before = (models / "plate.edgeseg").stat().st_mtime_ns
    (models / "bolts.edgeseg").write_bytes(b"half a model")
    plain_folder(data / "nuts", data / "plate")
    result = succeed("fit", data, "--all", "--out", models, *FIT_64, "--skip-existing", "--json")
    records = {record["name"]: record for record in json.loads(result.stdout)}
    assert (models / "plate.edgeseg").stat().st_mtime_ns == before
    assert records["plate"]["seconds"] is None
    assert records["plate"]["images"] == 4
    assert records["bolts"]["seconds"] > 0  # it could not be read
    assert records["nuts"]["model"] == str(models / "nuts.edgeseg")
    assert "wrote 2 models" in result.stderr


def test_a_model_is_that_of_a_fit_alone(root, tmp_path):
    succeed("fit", root / "bolts", "--out", tmp_path / "alone.edgeseg", *FIT_64)
    run("fit", root, "--all", "--out", tmp_path / "all", *FIT_64)
    alone, of_all = tmp_path / "alone.edgeseg", tmp_path / "all/bolts.edgeseg"
    assert alone.read_bytes() == of_all.read_bytes()


def test_a_bug_on_one_dataset_keeps_its_traceback(root, tmp_path, monkeypatch):
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("no memory\nfor this")

    monkeypatch.setattr("edgeseg.fitting.fitting.fit", broken)
    monkeypatch.setattr("traceback.format_exc", lambda: "its trace")
    result = run("fit", root, "--all", "--out", tmp_path, *FIT_64)
    assert result.exit_code == 1
    assert "failed: RuntimeError('no memory\\nfor this')" in result.stdout
    assert "its trace" in result.stderr


def test_what_failed_is_told_in_options(tmp_path):
    plate = write_plate(tmp_path / "parts/plate", size_hw=(64, 64), train=4)
    (plate / "train/good/001.png").write_bytes(b"")
    result = run("fit", tmp_path / "parts", "--all", "--out", tmp_path / "m", *FIT_64)
    assert result.exit_code == 1
    assert "--max-bad 1" in result.stdout
    assert "max_bad" not in result.output


def test_a_setting_that_is_wrong_for_all(root, tmp_path):
    sentence = fail("fit", root, "--all", "--out", tmp_path / "m", *FIT_64, "-k", "0", code=2)
    assert sentence == "--k 0: expected a whole number from 1"
    assert not (tmp_path / "m").exists()


def test_suspects_of_many(tmp_path):
    plate = write_plate(tmp_path / "parts/plate", size_hw=(64, 64), train=10)
    picture = cv2.imread(str(plate / "train/good/000.png"))
    cv2.imwrite(str(plate / "train/good/foreign.png"), 255 - picture)
    (tmp_path / "parts/empty").mkdir()
    robust = ["--robust", "--json", "--out", tmp_path / "models"]
    result = run("fit", tmp_path / "parts", "--all", *FIT_64, *robust)
    records = {record["name"]: record for record in json.loads(result.stdout)}
    assert records["plate"]["suspects"] == ["train/good/foreign.png"]
    assert records["empty"]["suspects"] is None
    assert "train/good/foreign.png: score " in result.stderr
    assert (tmp_path / "models/plate.edgeseg.suspects.json").exists()


def test_folds_of_those_that_have_them(root, tmp_path):
    data = tmp_path / "parts"
    plain_folder(data / "bolts", root / "plate")
    kolektor(data / "kos")
    without = run("fit", data, "--all", "--out", tmp_path / "m", *FIT_64, "--quiet")
    assert without.exit_code == 1
    assert "fold None of the layout kolektor, expected 0, 1 or 2" in without.stdout
    with_fold = [*FIT_64, "--fold", "1", "--json", "--quiet"]
    result = succeed("fit", data, "--all", "--out", tmp_path / "m", *with_fold)
    assert [record["images"] for record in json.loads(result.stdout)] == [4, 2]
    assert fail("fit", root, "--all", "--out", tmp_path / "m", *FIT_64, "--fold", "1", code=2) == (
        "--fold 1: none of these 3 datasets has folds"
    )


def test_requests_that_cannot_be_met(root, tmp_path):
    plate = root / "plate"
    assert fail("fit", plate, "--out", tmp_path / "m", *FIT_64, "--skip-existing", code=2) == (
        "--skip-existing is for many datasets; add --all"
    )
    assert fail("fit", plate, "--out", tmp_path, *FIT_64, code=2) == (
        f"--out {tmp_path}: a folder; "
        f"expected a file such as {tmp_path / 'plate.edgeseg'}, or --all"
    )
    anomalies = ["--anomalies", plate / "test/scratch"]
    assert fail("fit", root, "--all", "--out", tmp_path, *FIT_64, *anomalies, code=2) == (
        "--anomalies are of one kind of part; fit on that dataset without --all"
    )


def test_pictures_beside_the_folders_are_named(root, tmp_path):
    data = tmp_path / "parts"
    plain_folder(data / "bolts", root / "plate")
    shutil.copy(next((data / "bolts").iterdir()), data / "loose.png")
    result = succeed("fit", data, "--all", "--out", tmp_path / "m", *FIT_64)
    assert f"1 pictures in {data} itself belong to none of its folders: left alone" in result.stderr
