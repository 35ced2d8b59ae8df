"""A pass over the images that is stopped and continued gives the bytes of one that was not."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgeseg.base import leftovers
from edgeseg.base.errors import ArtefactError, UsageError
from edgeseg.base.leftovers import temporary_name
from edgeseg.data.datasets import open_dataset
from edgeseg.fitting.checkpoint import discard
from edgeseg.fitting.fitting import FitOptions, fit
from edgeseg.fitting.options import Checkpoints
from edgeseg.model.artefact import save_artefact
from tests.support.commands import fail, succeed
from tests.support.shares import FIT_TINY, TINY, write_tiny
from tests.support.small_models import RANDOM


class Stopped(Exception):
    pass


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("tiny") / "plate")


@pytest.fixture(scope="module")
def plain(data) -> Path:
    """The model of a fit that nothing interrupts."""
    path = data.parent / "plain.edgeseg"
    save_artefact(fit(open_dataset(data), TINY, replace(RANDOM, batch_size=2)), path)
    return path


def options(folder: Path, *, resume: bool = False, stop_after: int | None = None) -> FitOptions:
    """Checkpoints after every batch; with a number, the power fails after so many."""

    def fragile(items: Iterable[Any], *, length: int, label: str) -> Iterator[Any]:
        for done, item in enumerate(items):
            if label == "Fitting" and done == stop_after:
                raise Stopped
            yield item

    checkpoints = Checkpoints(folder=folder, resume=resume, seconds=0)
    return replace(RANDOM, batch_size=2, checkpoints=checkpoints, progress=fragile)


def stop(data: Path, folder: Path, *, after: int = 4) -> None:
    with pytest.raises(Stopped):
        fit(open_dataset(data), TINY, options(folder, stop_after=after))
    assert sorted(path.name for path in folder.iterdir()) == [
        "0-of-1.embeddings", "0-of-1.moments",
    ]  # fmt: skip


def test_a_continued_fit_has_the_same_bytes(data, plain, tmp_path):
    parts = tmp_path / "m.parts"
    stop(data, parts)
    counted: list[str] = []
    seen = options(parts, resume=True)

    def counting(items: Iterable[Any], *, length: int, label: str) -> Iterator[Any]:
        for item in items:
            counted.append(label)
            yield item

    resumed = replace(seen, progress=counting)
    save_artefact(fit(open_dataset(data), TINY, resumed), tmp_path / "resumed")
    assert counted.count("Fitting") == 3  # of seven batches four were done
    discard(resumed)
    assert not parts.exists()
    assert (tmp_path / "resumed").read_bytes() == plain.read_bytes()


@pytest.mark.parametrize("boot", ["00000000", None])
def test_what_a_kill_left_of_the_first_checkpoint_is_no_other_fit(data, plain, tmp_path, boot):
    parts = tmp_path / "m.parts"
    parts.mkdir()
    left = temporary_name("0-of-1", ".moments")
    if boot is not None:  # of a process that is no more
        left = left.replace(f"-{leftovers._boot()}-", f"-{boot}-")
    (parts / left).write_bytes(b"half")
    resumed = options(parts, resume=True)
    save_artefact(fit(open_dataset(data), TINY, resumed), tmp_path / "resumed")
    discard(resumed)
    assert (tmp_path / "resumed").read_bytes() == plain.read_bytes()
    assert parts.exists() == (boot is None), "what a living process writes stays"


def test_rows_after_the_last_checkpoint_are_written_again(data, plain, tmp_path):
    parts = tmp_path / "m.parts"
    stop(data, parts)
    with (parts / "0-of-1.embeddings").open("ab") as file:
        file.write(b"half a row of the batch in which the power failed")
    save_artefact(fit(open_dataset(data), TINY, options(parts, resume=True)), tmp_path / "resumed")
    assert (tmp_path / "resumed").read_bytes() == plain.read_bytes()


def test_an_earlier_run_is_not_thrown_away(data, tmp_path):
    parts = tmp_path / "m.parts"
    stop(data, parts)
    with pytest.raises(UsageError) as caught:
        fit(open_dataset(data), TINY, options(parts))
    assert str(caught.value) == (
        f"{parts}: an earlier run stopped here and can be continued; add resume=True, or remove "
        "that folder to begin again"
    )


def test_checkpoints_of_another_fit(data, tmp_path):
    parts = tmp_path / "m.parts"
    stop(data, parts)
    ending = "repeat that command, or remove the folder to begin again"
    for config, changed, reason in (
        (replace(TINY, k=12), {}, "setting k: 16 and 12"),
        (TINY, {"batch_size": 3}, "batch size: 2 and 3"),
    ):
        again = replace(options(parts, resume=True), **changed)
        with pytest.raises(UsageError) as caught:
            fit(open_dataset(data), config, again)
        assert str(caught.value) == f"resume=True: {parts} is of another fit ({reason}); {ending}"
    more = write_tiny(tmp_path / "more", train=14)
    with pytest.raises(UsageError, match=r"is of another fit \(number of images: 13 and 14\)"):
        fit(open_dataset(more), TINY, options(parts, resume=True))
    for path in parts.iterdir():
        path.rename(parts / path.name.replace("0-of-1", "1-of-2"))
    with pytest.raises(UsageError, match=r"is of another fit \(number of shards: 2 and 1\)"):
        fit(open_dataset(data), TINY, options(parts, resume=True))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("0-of-1.embeddings", "damaged, its hash is not that of its checkpoint; remove {folder}"),
        ("0-of-1.moments", "not a checkpoint ("),
    ],
)
def test_one_flipped_bit_of_a_checkpoint_is_one_too_many(data, plain, tmp_path, name, said):
    parts = tmp_path / "m.parts"
    stop(data, parts)
    path = parts / name
    whole = path.read_bytes()
    for share in (0.0, 0.5, 1.0):
        place = int(share * (len(whole) - 1))
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(ArtefactError) as caught:
            fit(open_dataset(data), TINY, options(parts, resume=True))
        assert str(caught.value).startswith(f"{path}: {said.format(folder=parts)}")
    path.write_bytes(whole)
    save_artefact(fit(open_dataset(data), TINY, options(parts, resume=True)), tmp_path / "resumed")
    assert (tmp_path / "resumed").read_bytes() == plain.read_bytes()


def test_damaged_checkpoints(data, tmp_path):
    parts = tmp_path / "m.parts"
    stop(data, parts)
    (parts / "0-of-1.embeddings").write_bytes(b"")
    with pytest.raises(ArtefactError) as caught:
        fit(open_dataset(data), TINY, options(parts, resume=True))
    assert str(caught.value) == (
        f"{parts / '0-of-1.embeddings'}: shorter than its checkpoint says; remove {parts}"
    )
    (parts / "0-of-1.moments").write_bytes(b"hello")
    with pytest.raises(ArtefactError, match=r"0-of-1\.moments: not a checkpoint \("):
        fit(open_dataset(data), TINY, options(parts, resume=True))


def test_command(data, tmp_path):
    out = tmp_path / "m.edgeseg"
    (tmp_path / "bad").mkdir()
    succeed("fit", data, "--out", out, *FIT_TINY, "--resume", "--checkpoint-seconds", "0")
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["m.edgeseg"]
    assert not (tmp_path / "m.edgeseg.parts").exists()
    broken = write_tiny(tmp_path / "broken", train=4)
    (broken / "train/good/003.png").write_bytes(b"")
    fail("fit", broken, "--out", tmp_path / "b", *FIT_TINY, code=1)
    assert not (tmp_path / "b.parts").exists()  # nothing to go on from
    fail("fit", broken, "--out", tmp_path / "b", *FIT_TINY, "--checkpoint-seconds", "0", code=1)
    assert (tmp_path / "b.parts").is_dir()
