"""Ctrl-C: one line, the exit code of an interrupt, no half file and no traceback."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support import HANGS_S
from tests.support.commands import FIT, fail

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="SIGINT works otherwise there")


# The command, which stops for good where it calls a function: no computer is too slow or too fast.
STOPPED = """
import importlib, sys, time
from pathlib import Path

module, name, reached = sys.argv[1:4]

def stop(*_, **__):
    Path(reached).touch()
    time.sleep(3600)

setattr(importlib.import_module(module), name, stop)
sys.argv[1:] = sys.argv[4:]
from edgeseg.cli.group import main
main()
"""


def interrupt(*arguments: object, at: str, folder: Path) -> str:
    """Run a command, press Ctrl-C when it calls a function, and return what it said."""
    log, reached = folder / "log", folder / "reached"
    command = [sys.executable, "-c", STOPPED, *at.rsplit(".", 1), reached, *arguments]
    with log.open("w") as stderr:
        running = subprocess.Popen(
            [*map(str, command)],
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            # A suite that runs in the background hands on that Ctrl-C is ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        try:
            deadline = time.monotonic() + HANGS_S
            while not reached.exists():
                assert running.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.005)
            running.send_signal(signal.SIGINT)
            code = running.wait(HANGS_S)
        finally:
            running.kill()
            running.wait()
    # Python ends itself by the signal if it struck within exec(); shells see 130 either way.
    assert code in (130, -signal.SIGINT), log.read_text()
    return log.read_text()


def test_during_a_fit(plate, tmp_path):
    out = tmp_path / "out"
    said = interrupt(
        "fit", plate, "--out", out / "m.edgeseg", *FIT,
        at="edgeseg.fitting.image_pass.appearance_of", folder=tmp_path,
    )  # fmt: skip
    assert said.splitlines()[-1] == "Error: interrupted"
    assert "Traceback" not in said
    assert list(out.iterdir()) == []


def test_as_soon_as_the_folder_of_checkpoints_is_there(plate, tmp_path, monkeypatch):
    def strike(folder: Path) -> None:
        assert folder.is_dir()
        raise KeyboardInterrupt

    monkeypatch.setattr("edgeseg.fitting.checkpoint.sweep", strike)
    out = tmp_path / "out"
    assert fail("fit", plate, "--out", out / "m.edgeseg", *FIT, "-q", code=130) == "interrupted"
    assert list(out.iterdir()) == []


def test_during_an_export(small_artefact_path, tmp_path):
    """The graph lies there unverified, by another name."""
    out = tmp_path / "out"
    out.mkdir()
    said = interrupt(
        "export", small_artefact_path, "--out", out / "m.onnx", "--allow-random-weights",
        at="edgeseg.export.candidates.agreement", folder=tmp_path,
    )  # fmt: skip
    assert said.splitlines()[-1] == "Error: interrupted"
    assert "Traceback" not in said
    assert list(out.iterdir()) == []


def test_while_a_file_is_being_written(plate, tmp_path, monkeypatch):
    def half_written(tensors: object, target: Path, metadata: object) -> None:
        Path(target).write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr("edgeseg.model.artefact.save_file", half_written)
    out = tmp_path / "out"
    assert fail("fit", plate, "--out", out / "m.edgeseg", *FIT, "-q", code=130) == "interrupted"
    assert list(out.iterdir()) == []
