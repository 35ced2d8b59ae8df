"""A head fitted again through a backbone that rounds: what an accelerator's int8 asks for."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray

import edgeseg
from edgeseg.base.errors import UsageError, VerificationError
from edgeseg.base.progress import ignore, silent
from edgeseg.data.datasets import open_dataset
from edgeseg.export import refit_head as api
from edgeseg.export.onnx_export import export_onnx
from edgeseg.export.options import ExportOptions
from edgeseg.export.refit_head import refit_head
from edgeseg.export.split_export import export_halves
from edgeseg.model.artefact import save_artefact
from edgeseg.runtime.backends.model_file import file_metadata
from edgeseg.runtime.backends.split_facts import backbone_path, read_split
from tests.support.export_models import COARSE, SHORT, artefact, data, good_frames, remember_traces

GOOD = open_dataset(data())
Taps = list[NDArray[Any]]
Backbone = Callable[[NDArray[np.uint8]], Taps]


@pytest.fixture
def head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    remember_traces(monkeypatch, SHORT)
    # Layers that no one trained are coarser than real ones.
    monkeypatch.setitem(api.TOLERANCES, "int8", COARSE)
    options = ExportOptions(split=True, verify=False)
    made = export_onnx(artefact(SHORT), tmp_path / "part.onnx", options=options)
    return export_halves(made, artefact(SHORT)).head


def backbone(head: Path, change: Callable[[Taps], Taps]) -> Backbone:
    """The other half in ONNX Runtime, with what an accelerator does to its taps."""
    session = onnxruntime.InferenceSession(backbone_path(head), providers=["CPUExecutionProvider"])
    facts = read_split(head)
    assert facts is not None

    def run(images: NDArray[np.uint8]) -> Taps:
        return change(session.run(None, {"pixels": facts.normalise(images)}))

    return run


def unchanged(taps: Taps) -> Taps:
    return taps


def in_eight_bits(taps: Taps) -> Taps:
    """A scale for each tap, and all of them half as much again, as a coarse tool would have it."""
    coarse = []
    for values in taps:
        step = np.float32(np.abs(values).max() / 127)
        coarse.append(np.rint(values * np.float32(1.5) / step) * step)
    return coarse


def again(head: Path, run: Backbone) -> None:
    refit_head(head, artefact(SHORT), GOOD, backbone=run, note=ignore, progress=silent)


def flagged(head: Path, run: Backbone, images: NDArray[np.uint8]) -> float:
    with edgeseg.runtime.open(head, backbone=run) as detector:
        return float(np.mean([detector.predict(image).anomalous for image in images]))


def test_a_backbone_that_rounds_nothing_gives_the_same_head(head: Path) -> None:
    images, run = good_frames(4), backbone(head, unchanged)
    with edgeseg.runtime.open(head, backbone=run) as detector:
        before = [detector.predict(image).score for image in images]
    threshold = file_metadata(head).threshold.score
    again(head, run)
    with edgeseg.runtime.open(head, backbone=run) as detector:
        after = [detector.predict(image).score for image in images]
    np.testing.assert_allclose(after, before, rtol=1e-3)
    assert file_metadata(head).threshold.score == pytest.approx(threshold, rel=1e-3)


def test_good_parts_are_good_again_behind_a_coarse_backbone(head: Path) -> None:
    run, images = backbone(head, in_eight_bits), good_frames(8)
    other = backbone_path(head).read_bytes()
    assert flagged(head, run, images) > 0.5, "its features are not those of the fit"
    again(head, run)
    assert flagged(head, run, images) <= 0.25
    noise = np.random.default_rng(0).integers(0, 256, (2, 64, 64, 3), dtype=np.uint8)
    assert flagged(head, run, noise) == 1.0
    told = file_metadata(head)
    assert told.calibrated_in == "accelerator"
    assert told.threshold.score != artefact(SHORT).calibration.score_threshold
    assert backbone_path(head).read_bytes() == other
    assert read_split(head) is not None, "it is still the half of the same backbone"


def test_a_backbone_that_sees_nothing_leaves_the_head_as_it_was(head: Path) -> None:
    random = np.random.default_rng(1)
    blind = backbone(head, lambda taps: [random.normal(size=t.shape).astype("f4") for t in taps])
    before = head.read_bytes(), head.with_suffix(".json").read_bytes()
    with pytest.raises(VerificationError, match=r"does not decide .* so it stays as it was"):
        again(head, blind)
    assert (head.read_bytes(), head.with_suffix(".json").read_bytes()) == before


def test_the_head_of_another_model_is_refused(head: Path) -> None:
    fitted = artefact(SHORT)
    other = replace(fitted, data=fitted.data | {"name": "bottle"})
    run = backbone(head, unchanged)
    with pytest.raises(UsageError, match=r"the head of another model \(plate64x64\)"):
        refit_head(head, other, GOOD, backbone=run, note=ignore, progress=silent)
    whole = head.with_name("part.onnx")
    with pytest.raises(UsageError, match=r"expected the .head.onnx of"):
        refit_head(whole, fitted, GOOD, backbone=run, note=ignore, progress=silent)


def test_python_fits_a_head_again(head: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.edgeseg"
    save_artefact(artefact(SHORT), path)
    run = backbone(head, in_eight_bits)
    edgeseg.load(path).refit_head(head, backbone=run, calibrate=data())
    assert flagged(head, run, good_frames(8)) <= 0.25
