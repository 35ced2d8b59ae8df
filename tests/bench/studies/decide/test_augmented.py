"""Data sets with changed copies of their good images."""

from pathlib import Path

import numpy as np
import pytest

from edgeseg.bench.studies.decide.augmented import write_augmented
from edgeseg.contract.images import read_image
from edgeseg.data.datasets import open_dataset
from edgeseg.errors import UsageError
from tests.support.small_models import write_plate


def test_copies_differ_a_little_and_tests_stay(tmp_path: Path) -> None:
    source = write_plate(tmp_path / "plate", size_hw=(64, 64), train=2)
    out = tmp_path / "augmented"
    assert write_augmented(source, out, copies=2, size=64) == 6
    dataset = open_dataset(out)
    assert len(dataset.train) == 6
    assert len(dataset.test) == len(open_dataset(source).test)
    image, copy, other = (read_image(sample.image).astype(int) for sample in dataset.train[:3])
    for changed in (copy, other):
        assert 0 < np.abs(changed - image).mean() < 20
    assert np.any(copy != other)
    with pytest.raises(UsageError, match="exists; expected the name of a new folder"):
        write_augmented(source, out, copies=1, size=64)
