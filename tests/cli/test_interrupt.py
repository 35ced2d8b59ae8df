"""Ctrl-C: one line, the exit code of an interrupt, no half file and no traceback."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import HANGS_S
from tests.support.commands import FIT, fail

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="SIGINT works otherwise there")


def interrupt(*arguments: object, when: Callable[[], bool], log: Path) -> str:
    """Run a command, press Ctrl-C when it has come so far, and return what it said."""
    with log.open("w") as stderr:
        running = subprocess.Popen(
            [sys.executable, "-m", "edgeseg", *map(str, arguments)],
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            # A suite that runs in the background hands on that Ctrl-C is ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        try:
            deadline = time.monotonic() + HANGS_S
            while not when():
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
    data, out, log = tmp_path / "data", tmp_path / "out", tmp_path / "log"
    for copy in range(40):  # 400 images: seconds of work
        shutil.copytree(plate / "train/good", data / str(copy))
    said = interrupt(
        "fit", data, "--out", out / "m.edgeseg", *FIT, "--batch-size", 1,
        when=lambda: "fitting on 400" in log.read_text(), log=log,
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
    out, log = tmp_path / "out", tmp_path / "log"
    out.mkdir()
    said = interrupt(
        "export", small_artefact_path, "--out", out / "m.onnx", "--allow-random-weights",
        # The graph lies there unverified, by another name.
        when=lambda: any(path.is_file() for path in out.rglob("*")),
        log=log,
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
