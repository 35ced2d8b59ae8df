"""Shards of a data set on their own, merged to the model that one fit gives."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from edgeseg.base.errors import DatasetError, UsageError
from edgeseg.config import FitConfig
from edgeseg.data.datasets import open_dataset
from edgeseg.fitting.options import FitOptions, Shard
from edgeseg.fitting.parallel.shards import is_shard, merge_shards, write_shard
from edgeseg.model.artefact import load_artefact, save_artefact
from tests.support.commands import fail, succeed
from tests.support.shares import FIT_TINY, TINY, assert_same_model, write_tiny
from tests.support.small_models import RANDOM, fit_small

PAIRS = replace(RANDOM, weights="random", batch_size=2)


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("tiny") / "plate")


def shards(
    data: Path,
    folder: Path,
    count: int,
    *,
    config: FitConfig = TINY,
    options: FitOptions = PAIRS,
) -> list[Path]:
    folder.mkdir(exist_ok=True)
    paths = [folder / f"s_{index}" for index in range(count)]
    for index, path in enumerate(paths):
        shard = Shard(index=index, count=count)
        write_shard(open_dataset(data), config, options, shard=shard, path=path)
    return paths


@pytest.mark.parametrize(
    ("count", "config"),
    [
        (1, TINY),
        (3, TINY),
        (8, TINY),  # seven batches: one shard has no images
        (2, replace(TINY, calibration="holdout", holdout=0.3)),
        (2, replace(TINY, covariance="global")),
        (3, replace(TINY, moments="blocks", share=2, pool=3)),
        (3, replace(TINY, map_layers=(1, 2))),
        (3, replace(TINY, size_hw=(32, 32), frame_hw=(64, 64), overlap=8)),
    ],
    ids=["one", "uneven", "empty", "holdout", "global", "blocks", "own map", "tiles"],
)
def test_merged_shards_are_one_fit(data, tmp_path, count, config):
    paths = shards(data, tmp_path / "parts", count, config=config)
    merged = merge_shards(paths[::-1], PAIRS)  # in whatever order they are named
    assert_same_model(merged, fit_small(data, config=config, options=PAIRS))


def test_shards_are_whole_batches_of_the_list():
    places = [place for index in range(3) for batch in Shard(index=index, count=3).batches(11, 2)
              for place in batch]  # fmt: skip
    assert sorted(places) == list(range(11))
    assert Shard(index=1, count=3).batches(11, 2) == [range(2, 4), range(8, 10)]
    assert Shard(index=2, count=3).batches(3, 2) == []


def test_unreadable_images_are_those_of_one_fit(tmp_path):
    data = write_tiny(tmp_path / "plate", train=7)
    for name in ("002.png", "003.png", "006.png"):  # the whole second batch among them
        (data / "train/good" / name).write_bytes(b"")
    options = replace(PAIRS, max_bad=3)
    merged = merge_shards(shards(data, tmp_path / "parts", 4, options=options), options)
    assert merged.data["unreadable"] == ["002.png", "003.png", "006.png"]
    assert_same_model(merged, fit_small(data, config=TINY, options=options))
    lenient = shards(data, tmp_path / "lenient", 4, options=options)
    with pytest.raises(DatasetError) as caught:
        merge_shards(lenient, replace(PAIRS, max_bad=2))
    assert str(caught.value) == (
        "3 of 7 pictures cannot be read: "
        + "; ".join(str(data / "train/good" / name) for name in merged.data["unreadable"])
        + "; more than max_bad=2: repair them or allow more"
    )


def test_commands(data, tmp_path):
    for index in range(2):
        result = succeed(
            "moments", data, "--shard", f"{index}/2", "--out", tmp_path / f"s_{index}", *FIT_TINY
        )
        assert result.stdout == ""
    last = result.stderr.splitlines()[-1]
    assert last.startswith(f"wrote {tmp_path / 's_1'} (")
    assert last.endswith("; next: edgeseg merge with all 2 shards --out MODEL")
    out = tmp_path / "m.edgeseg"
    result = succeed("merge", tmp_path / "s_0", tmp_path / "s_1", "--out", out, "--batch-size", "2")
    assert result.stderr.splitlines()[:2] == [
        "13 good images of plate in 2 shards",
        "no planted defects: they are made where all images are at hand, by `fit`",
    ]
    assert load_artefact(out).planted is None
    whole = fit_small(data, config=TINY, options=PAIRS)
    assert_same_model(load_artefact(out), whole)
    assert [row["image"] for row in load_artefact(out).data["highest"]] == [
        row["image"] for row in whole.data["highest"]
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.edgeseg", "s_0", "s_1"]
    save_artefact(whole, tmp_path / "whole")
    sentence = fail("merge", tmp_path / "s_0", out, "--out", tmp_path / "x", code=2)
    assert sentence == (f"{tmp_path / 's_0'} is a shard and {out} a model; merge the shards first")
    assert not is_shard(out)


@pytest.mark.parametrize(
    ("shard", "fragment"),
    [
        ("8", "'8': expected INDEX/COUNT such as 0/8"),
        ("a/2", "'a/2': expected INDEX/COUNT such as 0/8"),
        ("2/2", "shard 2/2: expected a number from 0 below the number of shards, such as 0/8"),
    ],
)
def test_shards_that_cannot_be(data, tmp_path, shard, fragment):
    arguments = ("moments", data, "--shard", shard, "--out", tmp_path / "s", *FIT_TINY)
    assert fragment in fail(*arguments, code=2)


def test_shards_that_do_not_make_a_whole(data, tmp_path):
    paths = shards(data, tmp_path / "a", 4)
    with pytest.raises(UsageError) as caught:
        merge_shards([paths[0], paths[2]], PAIRS)
    assert str(caught.value) == (
        "2 of 4 shards: 1/4, 3/4 missing; run `edgeseg moments DATA --shard 1/4 --out FILE`"
    )
    copy = tmp_path / "copy"
    copy.write_bytes(paths[1].read_bytes())
    with pytest.raises(UsageError) as caught:
        merge_shards([*paths, copy], PAIRS)
    assert str(caught.value) == f"{paths[1]} and {copy} are both shard 1/4; drop one"


@pytest.mark.parametrize(
    ("config", "options", "reason"),
    [
        (replace(TINY, seed=1), PAIRS, "setting seed: 0 and 1"),
        (TINY, replace(PAIRS, batch_size=3), "batch size: 2 and 3"),
    ],
)
def test_shards_of_different_fits(data, tmp_path, config, options, reason):
    ours = shards(data, tmp_path / "a", 2)
    theirs = shards(data, tmp_path / "b", 2, config=config, options=options)
    with pytest.raises(UsageError) as caught:
        merge_shards([ours[0], theirs[1]], PAIRS)
    assert str(caught.value) == f"{ours[0]} and {theirs[1]} are no parts of one fit ({reason})"


def test_files_that_are_no_shards(data, tmp_path):
    foreign, text = tmp_path / "foreign", tmp_path / "text"
    save_file({"a": torch.zeros(1)}, foreign, {"format": "pt"})
    text.write_text("hello")
    for path in (foreign, text, tmp_path / "none"):
        assert not is_shard(path)
    (path,) = shards(data, tmp_path / "a", 1)
    path.write_bytes(path.read_bytes()[:-100])
    sentence = fail("merge", path, "--out", tmp_path / "x", code=1)
    assert sentence.startswith(f"{path}: truncated (")


def test_one_flipped_bit_of_a_shard_is_one_too_many(data, tmp_path):
    (path,) = shards(data, tmp_path / "a", 1)
    whole = path.read_bytes()
    for share in (0.0, 0.3, 0.6, 0.9, 1.0):  # header, hash and tensors
        place = int(share * (len(whole) - 1))
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert fail("merge", path, "--out", tmp_path / "x", code=1).startswith(f"{path}: ")
        assert not (tmp_path / "x").exists()
    path.write_bytes(whole)
    succeed("merge", path, "--out", tmp_path / "x")
