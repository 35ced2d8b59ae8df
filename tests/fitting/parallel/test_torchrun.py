"""Several processes: the model of one, whoever has how many images; and how they end together."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from edgeseg.fitting.parallel.torchrun import choose_device, processes
from edgeseg.fitting.process_group import ALONE
from edgeseg.model.artefact import load_artefact
from tests.support import HANGS_S, REPO
from tests.support.shares import FIT_TINY, TINY, assert_same_model, write_tiny
from tests.support.small_models import RANDOM, fit_small

WORKER = REPO / "tests" / "support" / "torchrun_worker.py"
MODULE = ("-m", "edgeseg")
NOBODY = -1  # is killed: no rank


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("tiny") / "plate")


def launch(count: int, *arguments: object) -> subprocess.CompletedProcess[str]:
    """What torchrun does with these processes; a hang is a failure."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(count)]
    return subprocess.run(
        [*command, *(str(argument) for argument in arguments)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        check=False,
    )


def ours(result: subprocess.CompletedProcess[str]) -> list[str]:
    """What edgeseg said, without torchrun's own account of its processes."""
    assert "edgeseg/cli/group.py" not in result.stderr, result.stderr  # no traceback of ours
    known = ("Error: ", "fitting on ", "wrote ", "skipped ")
    # Lines of different processes come in any order.
    return sorted(line for line in result.stderr.splitlines() if line.startswith(known))


def assert_one_fit(path: Path, data: Path) -> None:
    options = replace(RANDOM, batch_size=2)
    fitted, whole = load_artefact(path), fit_small(data, config=TINY, options=options)
    assert_same_model(fitted, whole)
    assert fitted.planted is None, "they are made by one process"
    names = [[row["image"] for row in model.data["highest"]] for model in (fitted, whole)]
    assert names[0] == names[1]


def test_without_torchrun_a_process_is_alone(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with processes() as group:
        assert group is ALONE
    monkeypatch.setenv("WORLD_SIZE", "1")
    with processes() as group:
        assert group is ALONE


def test_each_process_takes_its_own_gpu(monkeypatch):
    assert choose_device() == "cpu" or torch.cuda.is_available()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", False)
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert choose_device() == "cuda:1"
    assert not torch.backends.cudnn.allow_tf32  # its ten bits are no float32
    assert torch.backends.cudnn.deterministic


def test_four_processes_of_which_one_has_no_images(tmp_path):
    data = write_tiny(tmp_path / "plate", train=5)  # three batches of two, two and one
    out = tmp_path / "m.edgeseg"
    result = launch(4, *MODULE, "fit", data, "--out", out, *FIT_TINY)
    assert result.returncode == 0, result.stderr
    first, last = ours(result)  # one process talks
    assert first == "fitting on 5 good images of plate"
    assert last.startswith(f"wrote {out} ")
    assert_one_fit(out, data)


def test_a_killed_process_and_its_resumption(data, tmp_path):
    out = tmp_path / "m.edgeseg"
    fit = ("fit", data, "--out", out, *FIT_TINY, "--checkpoint-seconds", "0")
    killed = launch(2, WORKER, 1, 2, *fit)
    assert killed.returncode == 1
    assert ours(killed) == [
        "Error: rank 1 ended before the others: killed, or out of memory; "
        "start again with --resume",
        "fitting on 13 good images of plate",
    ]
    assert not out.exists()
    parts = tmp_path / "m.edgeseg.parts"
    assert {"0-of-2.moments", "1-of-2.moments"} <= {path.name for path in parts.iterdir()}
    resumed = launch(2, WORKER, NOBODY, 0, *fit, "--resume")
    assert resumed.returncode == 0, resumed.stderr
    left = [line for line in resumed.stderr.splitlines() if line.startswith("threads left:")]
    # A thread of gloo that outlives its group may abort the process while the interpreter ends.
    assert len(left) == 2
    assert not any("gloo" in line for line in left), left
    assert [path.name for path in tmp_path.iterdir()] == ["m.edgeseg"]
    assert_one_fit(out, data)


def test_a_process_that_fails_says_why(tmp_path):
    data = write_tiny(tmp_path / "plate", train=8)
    (data / "train/good/003.png").write_bytes(b"")  # in the second batch: that of rank 1
    result = launch(2, *MODULE, "fit", data, "--out", tmp_path / "m", *FIT_TINY)
    assert result.returncode == 1
    said, *_ = ours(result)
    assert said.startswith(f"Error: rank 1: {data / 'train/good/003.png'}: ")
    assert said.endswith("; repair or remove it, or skip such files with --max-bad 1")
    assert not (tmp_path / "m").exists()
