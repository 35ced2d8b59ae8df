"""A fit that cannot fit ends in one sentence, whatever the limit of the process is."""

import errno
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from edgeseg.base import memory_limit
from edgeseg.base.errors import UsageError
from edgeseg.base.memory_limit import out_of_memory
from edgeseg.config import FitConfig
from edgeseg.fitting.memory import check_limit
from tests.support import HANGS_S
from tests.support.small_models import write_plate

FIT = ("--backbone", "mobilenet_v3_small", "--weights", "random", "--size", "96", "--planted", "0")


@pytest.mark.parametrize("gigabytes", [0.7, 1.5, 3.0])
def test_a_limited_process_ends_in_one_sentence(tmp_path: Path, gigabytes: float) -> None:
    data, limit = write_plate(tmp_path / "plate", train=3), int(gigabytes * 1e9)
    out = tmp_path / "m.edgeseg"
    done = subprocess.run(
        [sys.executable, "-m", "edgeseg", "fit", str(data), "--out", str(out), *FIT],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert done.returncode >= 0, "no signal has ended it"
    if done.returncode == 0:  # libraries of this computer are small
        assert out.is_file()
        return
    said = done.stderr.strip().splitlines()[-1]
    assert said.startswith("Error: ")
    assert "ran out of memory" in said or "of address space" in said or "allocate memory" in said
    assert not out.exists()


def test_a_limit_is_refused_before_the_fit() -> None:
    check_limit(FitConfig(), left=None, largest_stride=32)
    check_limit(FitConfig(), left=50_000_000_000, largest_stride=32)
    with pytest.raises(UsageError) as caught:
        check_limit(FitConfig(size_hw=(1024, 1024)), left=2_000_000_000, largest_stride=32)
    said = str(caught.value)
    assert said.startswith("this fit needs about ")
    assert "the limit of this process (ulimit -v) leaves 2.00 GB; raise it, or try " in said


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        ImportError("libtorch_cpu.so: failed to map segment from shared object"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
        RuntimeError("can't start new thread"),
    ],
)
def test_what_libraries_say_of_memory(error: BaseException) -> None:
    assert out_of_memory(error)
    failure = ValueError("the export failed")
    failure.__cause__ = error
    assert out_of_memory(failure), "whoever raises it on"


@pytest.mark.parametrize(
    "error", [ValueError("out of memory"), RuntimeError("x"), OSError(2, "no")]
)
def test_other_errors_are_none_of_memory(error: BaseException) -> None:
    assert not out_of_memory(error)


@pytest.mark.parametrize("left", [100_000_000, 50_000_000_000, None])
def test_what_may_mean_memory_does_so_when_little_is_left(
    monkeypatch: pytest.MonkeyPatch, left: int | None
) -> None:
    monkeypatch.setattr(memory_limit, "address_space_left", lambda: left)
    error = RuntimeError("could not create a primitive")
    assert out_of_memory(error) == (left == 100_000_000)
