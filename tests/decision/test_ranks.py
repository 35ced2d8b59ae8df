"""Maps beyond memory: sorted runs in a temporary file, and what the user sees when it fails."""

import gc
import tempfile
from pathlib import Path
from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from edgeseg.base.errors import EdgesegError
from edgeseg.decision import ranks
from edgeseg.decision.pro import MapEvaluator
from tests.support.map_scores import map_scores

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)
ZEROS = st.sampled_from([-0.0, 0.0, 1.0])


def test_maps_can_be_added_after_a_result() -> None:
    rng = np.random.default_rng(1)
    maps = rng.integers(0, 50, (6, 9, 9)).astype(np.float32)
    masks = rng.random((6, 9, 9)) < 0.3
    for memory_bytes in (200, 1 << 20):
        evaluator = MapEvaluator(memory_bytes=memory_bytes)
        for count in range(1, 7):
            evaluator.add(maps[count - 1], masks[count - 1])
            score, whole = evaluator.result(), map_scores(maps[:count], masks[:count])
            assert score.pro == pytest.approx(whole.pro, abs=1e-12)
            assert score.pixel_auroc == whole.pixel_auroc


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_small_jobs_make_no_file_and_large_ones_leave_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = []
    real = tempfile.TemporaryFile

    def spy(**options: Any) -> Any:
        opened.append(real(**options))
        return opened[-1]

    monkeypatch.setattr(tempfile, "TemporaryFile", spy)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    map_hw, mask_hw = np.zeros((10, 10), np.float32), np.eye(10, dtype=bool)
    small = MapEvaluator(memory_bytes=2 * 4 * 90)  # the 90 normal pixels just fit
    small.add(map_hw, mask_hw)
    small.result()
    assert opened == []
    large = MapEvaluator(memory_bytes=100)
    large.add(map_hw, mask_hw)
    large.result()
    assert [file.closed for file in opened] == [False, False]  # normal and anomalous
    del large
    gc.collect()
    assert [file.closed for file in opened] == [True, True]
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_absent_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    evaluator = MapEvaluator(memory_bytes=100)
    with pytest.raises(EdgesegError, match=r"absent: cannot hold a temporary file of \d+ B \(No"):
        evaluator.add(np.zeros((10, 10), np.float32), np.zeros((10, 10), np.bool_))


def test_a_full_disk_is_one_sentence() -> None:
    resource = pytest.importorskip("resource", reason="needs a limit on the size of files")
    evaluator = MapEvaluator(memory_bytes=8 * 40_000)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(EdgesegError, match=r"of 160\.0 kB \(File too large\); set TMPDIR to"):
            evaluator.add(np.zeros((300, 300), np.float32), np.zeros((300, 300), np.bool_))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@given(hnp.arrays(np.float32, st.integers(0, 40), elements=FLOATS | ZEROS))
def test_keys_keep_the_order_of_floats(values: NDArray[np.float32]) -> None:
    keys = ranks.keys_of(values)
    np.testing.assert_array_equal(keys[:, None] < keys, values[:, None] < values)
