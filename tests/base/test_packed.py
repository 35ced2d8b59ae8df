"""Arrays in a text: the same numbers back, and nothing from a damaged text."""

import dataclasses

import numpy as np
import pytest

from edgeseg.base.packed import PackedArray


def test_numbers_come_back_with_eleven_bits():
    values = np.random.default_rng(0).normal(size=(3, 4, 5)).astype(np.float32)
    packed = PackedArray.of(values)
    assert packed.shape == (3, 4, 5)
    np.testing.assert_allclose(packed.values, values, rtol=2**-11, atol=1e-7)
    assert PackedArray.of(values) == packed
    assert "/" not in packed.data


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"shape": (4, 4)}, "32"),
        ({"shape": (1 << 20, 1 << 20)}, "small array"),
        ({"shape": (-1, -9)}, "shape"),
        ({"data": "no base64!"}, "data"),
        ({"data": "AAAA"}, "data"),
    ],
)
def test_a_damaged_text_is_refused(changes, says):
    packed = PackedArray.of(np.ones((3, 3)))
    with pytest.raises(ValueError, match=says):
        dataclasses.replace(packed, **changes)


def test_no_text_unpacks_to_more_than_its_shape_says():
    bomb = PackedArray.of(np.zeros((1000, 1000)))
    with pytest.raises(ValueError, match="expected 18"):
        PackedArray(shape=(3, 3), data=bomb.data)


def test_what_is_no_number_is_refused():
    with pytest.raises(ValueError, match="finite"):
        PackedArray.of(np.array([1.0, np.nan]))
