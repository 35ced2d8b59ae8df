"""The programs of docs/accelerators.md run as they stand there, with ONNX Runtime as the chip."""

import subprocess
import sys
from pathlib import Path

import pytest

import edgeseg.runtime
from edgeseg.export.onnx_export import export_onnx
from edgeseg.export.options import ExportOptions
from edgeseg.export.split_export import export_halves
from edgeseg.vision.images import write_image
from tests.support import HANGS_S
from tests.support.documents import blocks, text_of
from tests.support.export_models import SHORT, artefact, frames

PROGRAMS = [text for kind, text in blocks(text_of("docs/accelerators.md")) if kind == "python"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chip")
    options = ExportOptions(split=True, verify=False)
    made = export_onnx(artefact(SHORT), folder / "part.onnx", options=options)
    export_halves(made, artefact(SHORT))
    write_image(folder / "part.png", frames(1)[0])
    return folder


def test_a_function_stands_for_the_chip(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    exec(compile(PROGRAMS[0], "accelerators.md", "exec"), {})
    word, score = capsys.readouterr().out.split()
    with edgeseg.runtime.open("part.onnx") as detector:
        wanted = detector.predict("part.png")
    assert word == str(wanted.anomalous)
    assert float(score) == pytest.approx(wanted.score, rel=1e-4)


def test_a_registered_function_is_a_backend_of_every_command(folder: Path) -> None:
    program = folder / "mine.py"
    opening, _, _ = PROGRAMS[0].partition("\n\nwith ")
    program.write_text(f"{opening}\n{PROGRAMS[1]}")
    words = ["stream", "--model", "part.head.onnx", "--source", "part.png", "--backend", "mine"]
    done = subprocess.run(
        [sys.executable, str(program), *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=HANGS_S,
    )
    assert done.returncode == 0, done.stderr
    assert "runs on backbone in a given function" in done.stderr
    assert "frames: 1 in = 1 scored + 0 dropped" in done.stdout
