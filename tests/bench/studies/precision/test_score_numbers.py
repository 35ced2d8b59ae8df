"""Scores as numbers: the study sees what breaks a bound, on graphs of a few operations."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgeseg.bench.studies.precision import score_numbers
from edgeseg.bench.studies.precision.score_numbers import (
    RADII,
    Made,
    Row,
    difference,
    equal_rows,
    frames_of,
    growth_row,
    spotted,
)
from edgeseg.errors import ExportError
from edgeseg.export.exported import Exported
from tests.support.brightness_model import brightness_metadata, write_brightness_model


def test_a_bound_is_kept_or_not_and_nan_keeps_none() -> None:
    for worst, kept in ((0.0, True), (0.1, True), (0.2, False), (math.nan, False)):
        assert Row(what="", frames=1, worst=worst, bound=0.1).kept == kept


def test_differences_are_shares_of_the_range() -> None:
    one = np.array([0.0, 10.0, 5.0])
    assert difference(one, one) == 0.0
    assert difference(one, np.array([0.0, 10.0, 6.0])) == pytest.approx(0.1)


def both(folder: Path, *, precision: str = "fp32") -> Made:
    written = []
    for batch in (1, 4):
        told = replace(brightness_metadata(batch=(batch,) * 3), precision=precision)
        path = folder / f"{batch}.onnx"
        write_brightness_model(path, metadata=told)
        written.append(Exported(path=path, metadata=told, report={}, agreements=()))
    return Made(single=written[0], batched=written[1])


def test_what_computes_in_bfloat16_is_asked_of_openvino_alone(tmp_path: Path) -> None:
    plain, short = both(tmp_path), both(tmp_path, precision="bf16")
    assert set(plain.backends) - set(short.backends) == {"cpu"}


def test_a_precision_that_cannot_be_exported_breaks_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> Exported:
        raise ExportError("the graph is not valid ONNX")

    monkeypatch.setattr(score_numbers, "fit", lambda *_: None)
    monkeypatch.setattr(score_numbers, "save_artefact", lambda *_: None)
    monkeypatch.setattr(score_numbers, "is_computed_here", lambda spec: spec.name != "bf16")
    monkeypatch.setattr(score_numbers, "export_onnx", refuse)
    rows = score_numbers.study(12, folder=tmp_path, backbone="resnet18", seed=0)
    assert [row.what.partition(":")[0] for row in rows] == [
        "fp32, export",
        "fp16, export",
        "int8, export",
    ]
    assert not any(row.kept for row in rows)


def test_a_backend_that_cannot_open_a_file_breaks_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = both(tmp_path)
    made.single.path.write_bytes(b"")
    monkeypatch.setattr(score_numbers, "precision_rows", lambda *_: iter(()))
    rows = list(score_numbers.rows_of(made, None, frames_of(2, seed=0), seed=0))
    assert len(rows) == len(made.backends)
    assert not any(row.kept for row in rows)


def test_a_file_gives_the_same_scores_in_any_order_batch_and_thread(tmp_path: Path) -> None:
    made = both(tmp_path)
    size_hw = brightness_metadata().size_hw
    frames = np.random.default_rng(0).integers(0, 255, (6, *size_hw, 3), np.uint8)
    rows = [row for backend in made.backends for row in equal_rows(made, backend, frames)]
    assert len(rows) in (4, 8), "of one backend, or of two"
    assert [row.what for row in rows if not row.kept] == []
    assert {row.frames for row in rows} == {6}


def test_spots_grow_and_stay_on_the_part() -> None:
    frame = np.full((128, 128, 3), 200, np.uint8)
    changed = [
        int((spotted(frame, radius=radius, rng=np.random.default_rng(3)) != frame).any(2).sum())
        for radius in RADII
    ]
    assert changed[0] == 0
    assert changed == sorted(set(changed))
    assert (frame == 200).all(), "the part itself stays as it is"


def test_half_of_the_frames_have_a_spot() -> None:
    frames = frames_of(5, seed=0)
    assert (len(frames.images), frames.planted) == (5, 2)
    assert (frames.images[0] != frames.images[3]).any()


@pytest.mark.parametrize(("sign", "kept"), [(1.0, True), (-1.0, False)])
def test_a_score_that_falls_while_the_spot_grows_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sign: float, kept: bool
) -> None:
    def darkness(path: Path, frames: np.ndarray, *, backend: str, threads: int) -> np.ndarray:
        return sign * (frames < 25).mean(axis=(1, 2, 3))

    monkeypatch.setattr(score_numbers, "scores_of", darkness)
    assert growth_row(both(tmp_path), "cpu", 30, seed=0).kept == kept
