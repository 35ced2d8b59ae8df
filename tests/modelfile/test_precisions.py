"""PRECISIONS: one entry each, known everywhere by its name."""

import pytest

from edgeseg.base.errors import UsageError
from edgeseg.modelfile.precisions import EXACT, PRECISIONS, precision_spec, runs_on


def test_entries_are_known_by_their_names():
    assert [precision_spec(name).name for name in PRECISIONS] == list(PRECISIONS)
    assert EXACT in PRECISIONS
    assert all(precision.meaning for precision in PRECISIONS.values())


def test_the_exact_one_needs_nothing():
    exact = precision_spec(EXACT)
    assert not exact.needs_images
    assert not exact.needs_rounding


@pytest.mark.parametrize(
    ("spin", "text"),
    [(True, "ours, float32, spin"), (False, "ours, float32, no spin"), (None, "ours, float32")],
)
def test_what_times_depend_on(spin, text):
    assert runs_on("ours", arithmetic="float32", spin=spin) == text


def test_an_unknown_one():
    with pytest.raises(UsageError) as caught:
        precision_spec("fp8")
    assert str(caught.value) == f"precision='fp8': expected one of {tuple(PRECISIONS)}"
