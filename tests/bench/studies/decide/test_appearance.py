"""The study of looks: categories without masks, few fitted images, and the command."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from edgeseg.bench.studies.decide.appearance import DEFECTIVE, GOOD, Looks, main, rows
from edgeseg.contract.images import write_image
from tests.support.small_models import write_plate


@pytest.fixture
def plate(tmp_path):
    return write_plate(tmp_path / "data" / "one", train=8)


def test_rows_are_shares_of_all_frames(plate):
    looks = Looks.of(plate, (96, 96))
    found = {row.what: row for row in rows([looks, looks])}
    assert (found[GOOD].frames, found[GOOD].whole) == (6, 0)
    assert found[DEFECTIVE].whole == 0
    assert found["black"].whole == found["black"].five == 1
    assert found["blur, sigma 8"].whole == 1


def test_the_command(plate, tmp_path):
    write_image(plate / "test" / "unmarked" / "0.png", np.zeros((96, 96, 3), np.uint8))
    arguments = [str(tmp_path / "data"), "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["raw"][DEFECTIVE]["whole"] > 0, "a black picture without a mask"
    assert [table["title"] for table in report["tables"]] == ["All categories", "one"]
