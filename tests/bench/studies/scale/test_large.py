"""Boards of real parts, and the table of what large images cost."""

from pathlib import Path

import numpy as np
import pytest

from edgeseg.bench.studies.scale import large
from edgeseg.bench.studies.scale.boards import BoardPlan, write_boards
from edgeseg.config import FitConfig
from edgeseg.data.datasets import open_dataset, read_sample
from edgeseg.errors import DatasetError

PLAN = BoardPlan(size_hw=(300, 560), train=2, test_good=1, test_defective=1, defects=1)


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*.png"))
    }


def test_the_same_plan_gives_the_same_boards(plate: Path, tmp_path: Path) -> None:
    first = files(write_boards(plate, tmp_path / "one", PLAN))
    assert sorted(first) == [
        "ground_truth/defective/000_mask.png",
        "test/defective/000.png",
        "test/good/000.png",
        "train/good/000.png",
        "train/good/001.png",
    ]
    assert files(write_boards(plate, tmp_path / "two", PLAN)) == first


def test_boards_are_a_dataset_whose_masks_lie_in_one_part(plate: Path, tmp_path: Path) -> None:
    dataset = open_dataset(write_boards(plate, tmp_path / "boards", PLAN))
    (bad,) = [sample for sample in dataset.test if sample.label]
    board, mask = read_sample(bad, PLAN.size_hw)
    assert board.shape == (*PLAN.size_hw, 3)
    columns = np.flatnonzero(mask.any(axis=0))
    assert 0 < columns.size <= 280  # two parts side by side, one of them defective
    assert columns[0] // 280 == columns[-1] // 280
    good = read_sample(dataset.train[0], PLAN.size_hw)[0]
    assert np.abs(good[:, :280].astype(int) - good[:, 280:]).mean() > 1  # parts differ


def test_boards_need_defects(plate: Path, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="no defective test images; boards need some"):
        write_boards(plate / "train" / "good", tmp_path / "boards", PLAN)


@pytest.mark.parametrize("study", [large.STUDY, large.REHEARSAL])
def test_rows_are_settings_that_can_be_fitted(study: large.Study) -> None:
    for row in study.rows:
        config = row.config("resnet18")
        step = np.lcm(16, config.stride * config.share)
        assert not any(side % step for side in config.size_hw), row.name
        assert config.image_hw in (row.size_hw, study.boards.size_hw)


def test_the_table() -> None:
    stage = {"file_mb": 300.0, "peak_mb": 2000.0, "ms_per_frame": 1234.5}
    measured = {"export": stage, "stream": stage}
    row = large.STUDY.rows[-1]
    found = large.table(
        [
            {
                "name": row.name,
                "config": row.config("resnet18").to_dict(),
                "gaussians": 1024,
                "tiles": 45,
                "fit": {"fit_s": 100.0, "peak_mb": 4000.0},
                "eval": {"pro": 0.9, "f1": 0.75, "recall": 0.6, "false_alarm_rate": 0.2},
                "fp32": measured,
                "int8": {"failed": "disagrees"},
            }
        ]
    ).markdown()
    assert "| PRO | PRO 0.05 | F1 | recall | false alarms |" in found
    accuracy = "0.900 | - | 0.750 | 0.600 | 0.200"  # a dash: not measured by an earlier run
    assert (
        f"| 2160x3840 in tiles of 512 | 45 of 64x64 | 1024 | 100 | 4.0 | {accuracy} | 300 | 2.0 |"
        in found
    )
    assert found.count("| failed | - | - | - |") == 1
    assert FitConfig.from_dict(row.config("resnet18").to_dict()) == row.config("resnet18")
