"""The head behind a backbone that a program runs: any accelerator's library could stand there."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray

import edgeseg.runtime
from edgeseg.base.errors import RuntimeFailure, UsageError
from edgeseg.export.onnx_export import export_onnx
from edgeseg.export.options import ExportOptions
from edgeseg.export.split_export import export_halves
from edgeseg.runtime.backends.choose import open_session
from edgeseg.runtime.backends.session_options import SessionOptions
from edgeseg.runtime.backends.split_facts import BACKBONE_SUFFIX, read_split
from edgeseg.vision.images import write_image
from tests.support.commands import fail, succeed
from tests.support.export_models import SHORT, artefact, frames

Frames = NDArray[np.uint8]
Given = list[NDArray[Any]]


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("split")
    options = ExportOptions(split=True, verify=False)
    made = export_onnx(artefact(SHORT), folder / "part.onnx", options=options)
    return export_halves(made, artefact(SHORT)).head


@pytest.fixture
def accelerator(head: Path) -> Callable[[Frames], Given]:
    """A program of its own around the backbone: ONNX Runtime stands in for the hardware."""
    path = head.with_name(f"part{BACKBONE_SUFFIX}")
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    facts = read_split(path)
    assert facts is not None
    offset = np.array(facts.offset, np.float32)

    def run(images: Frames) -> Given:
        pixels = (images.astype(np.float32) - offset).transpose(0, 3, 1, 2)
        values: Given = session.run(None, {"pixels": pixels})
        return values

    return run


def test_a_program_runs_the_backbone_and_gets_the_verdict(
    head: Path, accelerator: Callable[[Frames], Given]
) -> None:
    with (
        edgeseg.runtime.open(head.with_name("part.onnx")) as whole,
        edgeseg.runtime.open(head, backbone=accelerator) as split,
    ):
        assert split.backend.startswith("backbone in a given function, head in ONNX Runtime CPU")
        verdicts = []
        for frame in frames(6):
            wanted, found = whole.predict(frame), split.predict(frame)
            assert found.score == pytest.approx(wanted.score, rel=1e-4)
            assert found.anomalous == wanted.anomalous
            np.testing.assert_allclose(found.map_hw, wanted.map_hw, rtol=1e-3, atol=1e-3)
            verdicts.append(found.anomalous)
        assert set(verdicts) == {True, False}, "good parts and defective ones"


def test_the_file_beside_it_runs_unless_a_function_is_given(head: Path) -> None:
    with edgeseg.runtime.open(head) as detector:
        assert detector.backend.startswith("backbone in ONNX Runtime CPU, head in ONNX Runtime")
        assert detector.predict(frames(1)[0]).score > 0


def test_taps_by_name_in_any_order_and_in_half(
    head: Path, accelerator: Callable[[Frames], Given]
) -> None:
    def by_name(images: Frames) -> dict[str, NDArray[Any]]:
        one, two = accelerator(images)
        return {"tap_2": two.astype(np.float64), "tap_1": one}

    image = frames(2)[1]
    with (
        edgeseg.runtime.open(head, backbone=accelerator) as one,
        edgeseg.runtime.open(head, backbone=by_name) as two,
    ):
        assert one.predict(image).score == two.predict(image).score


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda taps: taps[:1], "gave 1 tensors, expected 2: tap_1, tap_2"),
        (lambda taps: {"tap_1": taps[0]}, "gave tap_1, expected also tap_2"),
        (
            lambda taps: [taps[0].transpose(0, 2, 3, 1), taps[1]],
            r"tap_1 as \(1, 16, 16, 64\), expected \(1, 64, 16, 16\): .* channels last",
        ),
        (lambda taps: [taps[0], taps[1].astype(np.int8)], "tap_2 as int8, expected real numbers"),
        (lambda taps: taps[::-1], r"tap_1 as \(1, 128, 8, 8\)"),
    ],
)
def test_what_a_backbone_must_not_give(
    head: Path,
    accelerator: Callable[[Frames], Given],
    change: Callable[[Given], Any],
    match: str,
) -> None:
    options = SessionOptions(backbone=lambda images: change(accelerator(images)))
    with open_session(head, options) as session, pytest.raises(RuntimeFailure, match=match):
        session.infer(frames(1))


def test_what_is_no_number_is_never_good(
    head: Path, accelerator: Callable[[Frames], Given]
) -> None:
    def broken(images: Frames) -> Given:
        return [np.full_like(values, np.nan) for values in accelerator(images)]

    with edgeseg.runtime.open(head, backbone=broken) as detector:
        assert detector.predict(frames(1)[0]).anomalous


def test_a_program_may_register_its_accelerator(
    head: Path, accelerator: Callable[[Frames], Given], monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    from edgeseg.runtime.backends.choose import BACKENDS
    from edgeseg.runtime.backends.head_session import HeadSession

    monkeypatch.setitem(
        BACKENDS,
        "mine",
        lambda model, options: HeadSession(model, replace(options, backbone=accelerator)),
    )
    with edgeseg.runtime.open(head, backend="mine") as detector:
        assert detector.entry == "mine"
        assert detector.predict(frames(1)[0]).score > 0


def test_a_stream_runs_both_halves(head: Path, tmp_path: Path) -> None:
    for number, frame in enumerate(frames(5)):
        write_image(tmp_path / "in" / f"{number}.png", frame)
    done = succeed("stream", "--model", head, "--source", tmp_path / "in")
    assert "frames: 5 in = 5 scored + 0 dropped" in done.stdout


def test_halves_are_not_taken_for_whole_models(head: Path, tmp_path: Path) -> None:
    backbone = head.with_name("part.backbone.onnx")
    write_image(tmp_path / "0.png", frames(1)[0])
    line = fail("stream", "--model", backbone, "--source", tmp_path, code=2)
    assert "the half of a model that an accelerator runs, which gives no score" in line
    line = fail("stream", "--model", head, "--source", tmp_path, "--backend", "openvino", code=2)
    assert "--backend openvino: the head of a split model runs on the processor" in line
    whole = head.with_name("part.onnx")
    with pytest.raises(UsageError, match="a whole model, which has no place for a backbone"):
        edgeseg.runtime.open(whole, backbone=lambda images: [images])
