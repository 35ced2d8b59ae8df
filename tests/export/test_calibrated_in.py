"""Which session a rounded file's threshold is of: asked for, used, kept, and said elsewhere."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgeseg.base.errors import UsageError
from edgeseg.data.datasets import open_dataset
from edgeseg.export import candidates, sessions
from edgeseg.export.onnx_export import export_onnx
from edgeseg.export.options import ExportOptions
from edgeseg.export.precision.refit import EMBEDDING
from edgeseg.export.precision.tolerances import Tolerance
from edgeseg.runtime.backends.choose import open_session
from edgeseg.runtime.backends.model_file import BackendUnavailable, file_metadata
from edgeseg.runtime.backends.session_options import SessionOptions
from tests.support.commands import fail, succeed
from tests.support.export_models import SHORT, artefact, data, names, remember_traces, saved

ANY = Tolerance(
    max_error=1, mean_error=1, min_rank_correlation=-1, max_flips=1, head_error=1, max_loss=1
)
GOOD = open_dataset(data())
pytest.importorskip("openvino", reason="needs OpenVINO: pip install edgeseg[openvino]")


@pytest.fixture(autouse=True)
def traced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    remember_traces(monkeypatch, SHORT)
    for precision in ("int8", "fp16"):  # twelve layers that no one trained
        monkeypatch.setitem(candidates.TOLERANCES, precision, ANY)


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """By whom frames were embedded."""
    seen: set[str] = set()

    def watched(real: Callable[..., sessions.Run], name: str) -> Callable[..., sessions.Run]:
        def opened(path: Path, outputs: tuple[str, ...], *rest: Any, **how: Any) -> sessions.Run:
            run = real(path, outputs, *rest, **how)
            told = f"{name}, as written" if how.get("exact") else name

            def counted(frames: sessions.Frames) -> tuple[sessions.Maps, ...]:
                if outputs == (EMBEDDING,):
                    seen.add(told)
                return run(frames)

            return counted

        return opened

    monkeypatch.setattr(sessions, "_onnxruntime", watched(sessions._onnxruntime, "ONNX Runtime"))
    monkeypatch.setattr(sessions, "_openvino", watched(sessions._openvino, "OpenVINO"))
    return seen


@pytest.mark.parametrize(
    ("precision", "backend", "kept", "name"),
    [
        ("int8", "auto", "cpu", "ONNX Runtime"),
        ("int8", "cpu", "cpu", "ONNX Runtime"),
        ("int8", "openvino", "openvino", "OpenVINO"),
        ("fp16", "auto", "cpu, as written", "ONNX Runtime, as written"),
        ("fp16", "cpu", "cpu", "ONNX Runtime"),
        ("fp16", "openvino", "openvino", "OpenVINO"),
    ],
)
def test_good_images_go_through_the_session_that_will_run(
    tmp_path: Path, ran: set[str], precision: str, backend: str, kept: str, name: str
) -> None:
    notes: list[str] = []
    options = ExportOptions(precision=precision, backend=backend, verify=False)
    out = tmp_path / "b.onnx"
    exported = export_onnx(artefact(SHORT), out, options=options, good=GOOD, note=notes.append)
    assert ran == {name}
    assert file_metadata(out).calibrated_in == exported.report["calibrated_in"] == kept
    through = f"through the {precision} graph in {name}"
    assert f"taking the moments again {through}" in notes
    assert file_metadata(out).threshold.method.endswith(f"good images, {through}")
    if kept in ("cpu", "openvino"):
        notes.clear()
        open_session(out, SessionOptions(backend=kept), note=notes.append).close()
        assert len(notes) == 1, "which backend it is: of these very numbers nothing else is said"


def test_what_is_not_fitted_again_is_of_the_reference(tmp_path: Path) -> None:
    for precision, good in (("fp32", GOOD), ("fp16", None)):
        options, out = ExportOptions(precision=precision, verify=False), tmp_path / "b.onnx"
        exported = export_onnx(artefact(SHORT), out, options=options, good=good)
        assert file_metadata(out).calibrated_in is None
        assert "calibrated_in" not in exported.report
        assert said(out, backend="openvino") == [], "the same in all"


def test_the_file_is_verified_in_its_own_session_first(tmp_path: Path) -> None:
    options = ExportOptions(precision="int8", backend="openvino")
    exported = export_onnx(artefact(SHORT), tmp_path / "b.onnx", options=options, good=GOOD)
    assert [row.backend for row in exported.agreements] == ["OpenVINO", "ONNX Runtime"]
    assert all(row.head_error is not None for row in exported.agreements)


def said(model: Path, *, backend: str) -> list[str]:
    """What is said of the threshold before the first frame."""
    notes: list[str] = []
    open_session(model, SessionOptions(backend=backend), note=notes.append).close()
    return [note for note in notes if "threshold" in note]


def test_another_backend_says_so_until_it_is_calibrated_there(tmp_path: Path) -> None:
    fitted, out, good = saved(tmp_path), tmp_path / "b8.onnx", data() / "train" / "good"
    asked = ("--precision", "int8", "--calibrate", good, "--backend", "openvino", "--no-verify")
    result = succeed("export", fitted, "-o", out, *asked, "--data", data())
    assert "int8, OpenVINO" in result.stderr, "the accuracy is that of the session that will run"
    lines = result.stderr.splitlines()
    assert (
        "threshold and drift baseline are of OpenVINO; for another backend or computer: "
        "edgeseg calibrate MODEL GOOD_IMAGES --backend NAME"
    ) in lines
    assert lines[-1].endswith(f"edgeseg stream --model {out} --backend openvino --source 0")
    assert said(out, backend="openvino") == []
    assert said(out, backend="cpu") == [
        "b8.onnx: its threshold was found on openvino, and cpu rounds int8 in its own way; to find "
        "it here: edgeseg calibrate b8.onnx GOOD_IMAGES --backend cpu"
    ]
    succeed("calibrate", out, good, "--backend", "cpu", "--threads", 1)
    assert file_metadata(out).calibrated_in == "cpu"
    assert said(out, backend="cpu") == []
    assert len(said(out, backend="openvino")) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--backend", "openvino"),
            "--backend openvino: the session in which a rounded file is calibrated, and "
            "--precision fp32 is the same in all; leave it out",
        ),
        (
            ("--backend", "cpu", "--precision", "bf16"),
            "--backend cpu: does not compute in bfloat16; --precision bf16 runs in OpenVINO alone",
        ),
        (
            ("--backend", "cpu", "--precision", "int8", "--for", "trt"),
            "--backend cpu: a file for TensorRT does not run there; leave it out, and run `edgeseg "
            "calibrate` on the device",
        ),
        (
            ("--backend", "cpu", "--precision", "fp16"),
            "--backend cpu: the session that good images go through, and there are none; pass "
            "--calibrate FOLDER, or leave it out",
        ),
    ],
)
def test_a_backend_that_cannot_be_meant(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    assert fail("export", saved(tmp_path), *arguments, code=2) == message
    assert names(tmp_path) == ["bottle.edgeseg"]


def test_a_backend_that_is_not_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise BackendUnavailable("OpenVINO is not installed")

    monkeypatch.setattr("edgeseg.export.onnx_export.check_installed", missing)
    options = ExportOptions(precision="int8", backend="openvino")
    with pytest.raises(BackendUnavailable, match="OpenVINO is not installed"):
        export_onnx(artefact(SHORT), tmp_path / "b.onnx", options=options, good=GOOD)
    with pytest.raises(UsageError, match="backend='cuda': expected one of"):
        ExportOptions(precision="int8", backend="cuda")
