"""The study of parts that move: planted poses are what they say, and locators are compared."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from edgeseg.bench.studies.region import pose as study
from edgeseg.config import FitConfig
from edgeseg.contract.images import read_image, read_mask, write_image
from edgeseg.data.datasets import open_dataset
from edgeseg.errors import UsageError
from tests.data.test_locating import SIZE_HW, folder_of, part, scattered


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wedge")
    folder_of(folder / "train/good", scattered(8))
    folder_of(folder / "test/good", scattered(4)[1:])
    folder_of(folder / "test/spot", [part(defect=True)])
    mask = np.zeros(SIZE_HW, np.uint8)
    mask[62:68, 66:74] = 255
    write_image(folder / "ground_truth/spot/000_mask.png", mask)
    return folder


def test_masks_move_with_their_images(parts: Path, tmp_path: Path) -> None:
    dataset = open_dataset(parts)
    assert study.jittered(dataset, tmp_path, shift=0, turn=0, seed=0) is dataset
    moved = study.jittered(dataset, tmp_path, shift=9, turn=40, seed=0)
    (sample,) = (sample for sample in moved.test if sample.label)
    assert sample.mask is not None
    inside = read_image(sample.image)[read_mask(sample.mask)]
    assert np.median(inside, axis=0).tolist() == pytest.approx([240, 240, 60], abs=6)
    assert not np.array_equal(read_mask(sample.mask), read_mask(dataset.test[-1].mask))  # type: ignore[arg-type]


def test_locators_are_held_against_planted_poses(parts: Path) -> None:
    errors = study.pose_errors(
        open_dataset(parts), FitConfig(), category="wedge", shift=6, turn=30, seed=0
    )
    good, bad = errors
    assert (good.way, good.parts, good.images, bad.parts) == ("blob", "good", 3, "defective")
    assert good.worst is not None
    assert good.worst < 3.0
    assert good.not_found == 0.0


def test_the_command_writes_what_it_has(
    parts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise UsageError("no part stands out; try another way")

    monkeypatch.setattr(study, "measured", refused)
    monkeypatch.setattr(study, "_REPEATS", 2)
    done = CliRunner().invoke(study.main, [str(parts), "--jitter", "0/0", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    text = (tmp_path / "report.md").read_text()
    for heading in ("Accuracy under jitter", "Found poses against planted ones", "Steps"):
        assert heading in text
    assert "| blob |" in text
    assert "no part stands out |" in text
