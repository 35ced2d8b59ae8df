"""Defective images in training: which are mixed in, what stays to test on, and the table."""

import json
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from edgeseg.bench.studies.decide import contamination
from edgeseg.bench.studies.decide.contamination import Reached, Row, main, mixed, rows, table
from edgeseg.data.datasets import Dataset, open_dataset
from edgeseg.data.synthetic.scene import write_dataset
from edgeseg.errors import DatasetError
from edgeseg.fitting.screening.screen import Screening, Suspect
from tests.support.small_models import RANDOM, SMALL


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "plate"
    write_dataset(folder, size_hw=(64, 64), train=18, test_good=3, test_defective=2)
    return open_dataset(folder)


def test_rows_of_a_category_compare(dataset):
    """One test set for all of them, without what is ever mixed in; smaller shares lie in larger."""
    clean, some, more = mixed(dataset, seed=0)
    assert [share for share, _, _ in (clean, some, more)] == [0.0, 0.05, 0.10]
    assert [len(paths) for _, _, paths in (clean, some, more)] == [0, 1, 2]
    assert some[2] < more[2]
    assert clean[1].test == some[1].test == more[1].test
    assert not {sample.image for sample in clean[1].test} & more[2]
    assert len(clean[1].test) == len(dataset.test) - 2
    assert clean[1].train == dataset.train
    assert {sample.image for sample in more[1].train[18:]} == more[2]
    assert list(mixed(dataset, seed=1))[2][2] != more[2]


def test_too_few_defective_images(dataset):
    with pytest.raises(DatasetError) as caught:
        list(mixed(replace(dataset, test=dataset.test[:4]), seed=0))
    assert str(caught.value).endswith(
        "2 defective test images, expected more than 2 to mix 10% into training and keep some "
        "to test on"
    )


def test_suspects_are_told_apart(dataset, monkeypatch):
    """One that was mixed in, and one that is good."""

    def some(spoilt: Dataset, *_: object) -> Screening:
        listed = (spoilt.train[0], spoilt.train[-1])
        nothing = np.zeros((64, 64), np.float32)
        return Screening(
            images=len(spoilt.train),
            suspects=tuple(
                Suspect(sample=sample, score=1, spreads=9, peak_xy=(0, 0), extent=0, map_hw=nothing)
                for sample in listed
            ),
        )

    monkeypatch.setattr(contamination, "SHARES", (0.10,))
    monkeypatch.setattr(contamination, "screen", some)
    (row,) = rows(dataset, replace(SMALL, size_hw=(64, 64), k=8, rank=5), RANDOM, seed=0)
    assert (row.images, row.mixed_in, row.test_good) == (20, 2, 3)
    assert (row.found, row.wrongly) == (1, 1)
    assert row.plain.pro is not None
    assert row.plain.pro_05 is not None
    assert row.plain.f1 is not None
    assert row.plain != row.robust


def test_the_table():
    plain = Reached(pro=0.9, image_auroc=0.8, recall=0.5, false_alarms=2)  # of an earlier run
    robust = Reached(pro=0.95, pro_05=0.7, image_auroc=0.99, recall=1.0, false_alarms=0, f1=1.0)
    row = Row(
        category="bottle", share=0.05, images=220, mixed_in=11, test_good=20, plain=plain,
        robust=robust, found=10, wrongly=1,
    )  # fmt: skip
    last = table([row]).markdown().splitlines()[-1]
    figures = (
        "0.900 | 0.950 | - | 0.700 | 0.800 | 0.990 | 0.500 | 1.000 | 2 | 0 | - | 1.000 | 10 | 1"
    )
    assert last == f"| bottle | 5%: 11 of 220 | {figures} |"


def test_the_command(dataset, tmp_path, monkeypatch):
    row = Row(
        category="plate", share=0.0, images=18, mixed_in=0, test_good=3,
        plain=Reached(pro=0.9, image_auroc=0.8, recall=0.5, false_alarms=2),
        robust=Reached(pro=0.9, image_auroc=0.8, recall=0.5, false_alarms=2), found=0, wrongly=0,
    )  # fmt: skip
    monkeypatch.setattr(contamination, "rows", lambda *_, seed: iter([row]))
    out = tmp_path / "contamination.json"
    data = dataset.root.parent
    result = CliRunner().invoke(main, [str(data), "--category", "plate", "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert "| plate | 0%: 0 of 18 |" in result.stdout
    assert json.loads(out.read_text())[0]["plain"]["pro"] == 0.9
