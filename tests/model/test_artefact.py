"""The file of a fitted model: round trips, and every way in which a file can be wrong."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save_file

from edgeseg.base.errors import ArtefactError
from edgeseg.base.files import file_sha256
from edgeseg.fitting.fitting import FitOptions
from edgeseg.model import artefact as artefact_module
from edgeseg.model.artefact import Artefact, load_artefact, save_artefact
from edgeseg.modelfile.header import read_artefact_file, read_header
from edgeseg.modelfile.seal import BLANK, seal_file
from tests.support.commands import fail
from tests.support.small_models import RANDOM, fit_small, frames


def contents(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Header and tensors of a file."""
    with safe_open(path, framework="numpy") as file:
        header = json.loads(file.metadata()["edgeseg"])
        del header["seal"]
        return header, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def rewritten(source: Path, target: Path, **changes: Any) -> Path:
    """A copy of an artefact with some header values replaced."""
    header, tensors = contents(source)
    return written(target, header | changes, tensors)


def written(path: Path, header: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> Path:
    """A file with a hash that fits: what is wrong in it is found all the same."""
    save_file(tensors, path, {"edgeseg": json.dumps({**header, "seal": BLANK})})
    seal_file(path)
    return path


def sentence(path: Path) -> str:
    """The error of loading a file, without the path in front."""
    with pytest.raises(ArtefactError) as caught:
        load_artefact(path)
    prefix, rest = str(caught.value).split(": ", 1)
    assert prefix == str(path)
    return rest


def test_round_trip(small_artefact: Artefact, small_artefact_path: Path):
    loaded = load_artefact(small_artefact_path)
    assert loaded.config == small_artefact.config
    assert loaded.origin == small_artefact.origin
    assert loaded.header() == small_artefact.header()
    assert np.array_equal(loaded.embedding, small_artefact.embedding)
    assert np.array_equal(loaded.factors.factor, small_artefact.factors.factor)
    assert np.array_equal(loaded.moments.mean, small_artefact.moments.mean)
    assert np.array_equal(loaded.moments.count, small_artefact.moments.count)
    np.testing.assert_allclose(loaded.moments.scatter, small_artefact.moments.scatter)
    assert np.array_equal(loaded.moments.scatter, loaded.moments.scatter.swapaxes(1, 2))
    good, other = loaded.calibration.good, small_artefact.calibration.good
    for name in ("scores", "peaks", "frame_d2", "d2_mean", "d2_std"):
        np.testing.assert_array_equal(getattr(good, name), getattr(other, name))
    batch = torch.from_numpy(frames(2))
    for before, after in zip(small_artefact.model()(batch), loaded.model()(batch), strict=True):
        assert torch.equal(before, after)


def test_a_map_of_its_own_goes_to_a_file_and_back(shown_artefact, tmp_path):
    path = tmp_path / "m.edgeseg"
    save_artefact(shown_artefact, path)
    loaded = load_artefact(path)
    ours, theirs = (model.factors.shown for model in (loaded, shown_artefact))
    assert np.array_equal(ours.weight, theirs.weight)
    assert np.array_equal(ours.factor, theirs.factor)
    good, other = loaded.calibration.good, shown_artefact.calibration.good
    assert np.array_equal(good.shown_grids, other.shown_grids)
    batch = torch.from_numpy(frames(2))
    for before, after in zip(shown_artefact.model()(batch), loaded.model()(batch), strict=True):
        assert torch.equal(before, after)
    header, tensors = contents(path)
    for name, value, reason in (
        ("map.factor", 0.0, "map.factor is zero at a place, so that nothing is ever found there"),
        ("map.weight", 0.0, "map.weight holds values that are not above 0"),
        ("map.weight", -1.0, "map.weight holds values that are not above 0"),
    ):
        spoilt = tensors[name].copy()
        spoilt[0] = value
        broken = written(tmp_path / "n.edgeseg", header, {**tensors, name: spoilt})
        assert sentence(broken) == f"damaged or edited artefact ({reason}); fit the model again"
    narrow = {**tensors, "map.factor": tensors["map.factor"][..., :-1]}
    broken = written(tmp_path / "n.edgeseg", header, narrow)
    assert "(map.factor has shape (36, 6, 3), expected (36, 6, 4))" in sentence(broken)
    del tensors["map.factor"]
    assert "map.factor" in sentence(written(tmp_path / "n.edgeseg", header, tensors))


def test_saving_what_was_loaded_gives_the_same_bytes(small_artefact_path, tmp_path):
    save_artefact(load_artefact(small_artefact_path), tmp_path / "copy.edgeseg")
    assert (tmp_path / "copy.edgeseg").read_bytes() == small_artefact_path.read_bytes()
    assert file_sha256(tmp_path / "copy.edgeseg") == file_sha256(small_artefact_path)


def test_global_covariance_round_trip(plate, small_artefact, tmp_path):
    config = replace(small_artefact.config, covariance="global")
    save_artefact(fit_small(plate, config=config), tmp_path / "m.edgeseg")
    loaded = load_artefact(tmp_path / "m.edgeseg")
    assert loaded.factors.factor.shape == (1, 16, 10)


def test_without_moments_is_smaller(plate, small_artefact_path, tmp_path):
    path = tmp_path / "m.edgeseg"
    options: FitOptions = replace(RANDOM, keep_moments=False)
    save_artefact(fit_small(plate, options=options), path)
    assert load_artefact(path).moments is None
    assert path.stat().st_size < small_artefact_path.stat().st_size - 100_000


def test_header_is_read_without_the_tensors(small_artefact, small_artefact_path):
    header = read_header(small_artefact_path)
    assert header == json.loads(json.dumps(small_artefact.header()))
    assert header["schema"] == 2
    assert header["config"]["backbone"] == "mobilenet_v3_small"
    assert header["weights"]["random"] is True
    assert (header["features"], header["k"], header["rank"]) == (88, 16, 10)


def test_no_such_file(tmp_path):
    path = tmp_path / "none.edgeseg"
    assert sentence(path) == (f"no such file; make one with `edgeseg fit DATA --out {path}`")
    assert sentence(tmp_path).startswith("no such file")  # a folder


@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 0.999])
def test_truncated(small_artefact_path, tmp_path, share):
    whole = small_artefact_path.read_bytes()
    path = tmp_path / "m.edgeseg"
    path.write_bytes(whole[: int(len(whole) * share)])
    if share == 0.0:
        assert sentence(path) == (
            "not an edgeseg artefact (header too small); "
            "expected a whole file written by edgeseg fit"
        )
    else:
        assert sentence(path).startswith("truncated (")
        assert sentence(path).endswith("); expected a whole file written by edgeseg fit")


@pytest.mark.parametrize("content", [b"hello, this is a text file\n" * 9, b"\x89PNG\r\n" * 40])
def test_not_an_artefact(tmp_path, content):
    path = tmp_path / "m.edgeseg"
    path.write_bytes(content)
    assert sentence(path).startswith("not an edgeseg artefact (")


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}])
def test_safetensors_of_another_program(tmp_path, metadata):
    path = tmp_path / "m.safetensors"
    save_file({"weight": np.zeros(3)}, path, metadata)
    assert sentence(path) == (
        "a safetensors file of another program; expected one from edgeseg fit"
    )
    with pytest.raises(ArtefactError, match="of another program"):
        read_header(path)


def test_newer_schema(small_artefact_path, tmp_path):
    path = rewritten(small_artefact_path, tmp_path / "m.edgeseg", schema=3)
    assert sentence(path) == (
        "schema 3 is newer than 2, the newest this edgeseg reads; "
        "run `pip install --upgrade edgeseg`"
    )


@pytest.mark.parametrize(("schema", "shown"), [(0, "0"), (1, "1"), (None, "None"), ("1", "'1'")])
def test_schema_of_no_known_number(small_artefact_path, tmp_path, schema, shown):
    path = rewritten(small_artefact_path, tmp_path / "m.edgeseg", schema=schema)
    assert sentence(path) == f"schema {shown}, expected 2; fit the model again"


@pytest.mark.parametrize("schema", [0, 1, 2, None, "1"])
def test_a_file_without_a_hash_is_refused(small_artefact_path, tmp_path, schema):
    header, tensors = contents(small_artefact_path)
    path = tmp_path / "m.edgeseg"
    save_file(tensors, path, {"edgeseg": json.dumps(header | {"schema": schema})})
    assert "the hash of itself is missing" in sentence(path)


@pytest.mark.parametrize("text", ["[1, 2]", '"text"', "{", "null"])
def test_header_that_is_no_header(tmp_path, text):
    path = tmp_path / "m.edgeseg"
    save_file({"a": np.zeros(1)}, path, {"edgeseg": text})
    assert sentence(path).startswith(("schema None, expected 2", "not an edgeseg artefact ("))


def test_edited_weights(small_artefact_path, tmp_path):
    header, tensors = contents(small_artefact_path)
    tensors["backbone.features.0.0.weight"][0, 0, 0, 0] += 0.5
    path = written(tmp_path / "m.edgeseg", header, tensors)
    assert sentence(path) == (
        "damaged or edited artefact (its backbone weights do not match their hash); "
        "fit the model again"
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"config": {"sigmma": 1}}, "unknown settings ['sigmma']"),
        ({"config": {"k": 7}}, "config: missing keys ['backbone', 'calibration', 'context', "),
        ({"config": [1]}, ""),
        ({"weights": {"source": "x"}}, "weights: missing keys ['licence', 'random', 'sha256']"),
        ({"calibration": {}}, "missing"),
    ],
)
def test_edited_header(small_artefact_path, tmp_path, change, reason):
    path = rewritten(small_artefact_path, tmp_path / "m.edgeseg", **change)
    found = sentence(path)
    assert found.startswith("damaged or edited artefact (")
    assert found.endswith("); fit the model again")
    assert reason in found


@pytest.mark.parametrize("name", ["history", "ridge", "data", "accuracy", "versions"])
def test_no_part_of_the_header_may_be_missing(small_artefact_path, tmp_path, name):
    header, tensors = contents(small_artefact_path)
    del header[name]
    path = written(tmp_path / "m.edgeseg", header, tensors)
    assert sentence(path).startswith("damaged or edited artefact (")
    assert name in sentence(path)


def test_a_backbone_that_nobody_knows(small_artefact_path, tmp_path):
    config = read_header(small_artefact_path)["config"] | {"backbone": "vgg"}
    path = rewritten(small_artefact_path, tmp_path / "m.edgeseg", config=config)
    assert sentence(path).startswith("damaged or edited artefact (backbone 'vgg' is unknown")


@pytest.mark.parametrize(
    ("name", "shape", "reason"),
    [
        ("factor", (36, 16), "factor has shape (36, 16), expected (36, 16, 16)"),
        ("factor", (35, 16, 10), "factor has shape (35, 16, 10), expected (36, 16, 10)"),
        ("mean", (144, 16), "mean has shape (144, 16), expected (36, 16)"),
        ("embedding", (80, 16), "embedding has shape (80, 16), expected (88, 16)"),
        ("moments.scatter", (144, 16), "moments.scatter has shape (144, 16), expected (144, 136)"),
        ("mean", None, "'mean'"),
        ("good.scores", None, "missing 1 required keyword-only argument: 'scores'"),
        ("moments.mean", None, "'moments.mean'"),
        ("backbone.features.0.0.weight", None, "its backbone weights do not match their hash"),
    ],
)
def test_tensors_that_do_not_fit(small_artefact_path, tmp_path, name, shape, reason):
    header, tensors = contents(small_artefact_path)
    del tensors[name]
    if shape is not None:
        tensors[name] = np.ones(shape)
    path = written(tmp_path / "m.edgeseg", header, tensors)
    found = sentence(path)
    assert found.startswith("damaged or edited artefact (")
    assert reason in found


def test_a_failed_save_leaves_the_old_file_whole(small_artefact, tmp_path, monkeypatch):
    path = tmp_path / "m.edgeseg"
    save_artefact(small_artefact, path)
    before = path.read_bytes()

    def half_written(tensors: object, target: Path, metadata: object) -> None:
        Path(target).write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(artefact_module, "save_file", half_written)
    with pytest.raises(OSError, match="disk full"):
        save_artefact(small_artefact, path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["m.edgeseg"]  # and no rubbish beside it


def test_a_save_that_safetensors_refuses_is_one_sentence(small_artefact, tmp_path, monkeypatch):
    def refused(tensors: object, target: Path, metadata: object) -> None:
        raise artefact_module.SafetensorError("no space left on device")

    monkeypatch.setattr(artefact_module, "save_file", refused)
    with pytest.raises(ArtefactError) as caught:
        save_artefact(small_artefact, tmp_path / "m.edgeseg")
    assert str(caught.value) == (
        f"{tmp_path / 'm.edgeseg'}: cannot be written (no space left on device); "
        "look at the space left on the disk"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["embedding", "mean", "factor", "good.scores", "moments.scatter"])
def test_every_flipped_bit_of_what_decides_is_refused(small_artefact_path, tmp_path, name):
    whole, path = bytearray(small_artefact_path.read_bytes()), tmp_path / "m.edgeseg"
    container = read_artefact_file(small_artefact_path)
    first, end = container.tensors[name].data_offsets
    random = np.random.default_rng(0)
    for bit in random.integers(8 * first, 8 * end, 100):
        at, mask = container.begin + int(bit) // 8, 1 << int(bit) % 8
        whole[at] ^= mask
        path.write_bytes(whole)
        assert sentence(path).startswith("not an edgeseg artefact (SHA-256 ")
        whole[at] ^= mask


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("factor", 0.0, "factor is zero at a place, so that nothing is ever found there"),
        ("factor", np.nan, "factor holds values that are not finite"),
        ("embedding", np.inf, "embedding holds values that are not finite"),
        ("mean", np.inf, "mean holds values that are not finite"),
        ("good.scores", -1.0, "good.scores holds values below 0"),
        ("moments.count", -1.0, "moments.count holds values below 0"),
        ("moments.scatter", -1.0, "moments.scatter holds variances below 0"),
    ],
)
def test_numbers_that_no_fit_writes(small_artefact_path, tmp_path, name, value, reason):
    header, tensors = contents(small_artefact_path)
    tensors[name][0] = value
    path = written(tmp_path / "m.edgeseg", header, tensors)
    assert sentence(path) == f"damaged or edited artefact ({reason}); fit the model again"


@pytest.mark.parametrize("value", [-1.0, 1e400, None, "12", 10**400])
def test_thresholds_that_no_fit_writes(small_artefact_path, tmp_path, value):
    header, tensors = contents(small_artefact_path)
    header["calibration"]["score_threshold"] = value
    path = written(tmp_path / "m.edgeseg", header, tensors)
    for command in ("info", "threshold"):
        assert fail(command, path, code=1).startswith(str(path))
    assert sentence(path)


def test_saving_makes_the_folder(small_artefact, tmp_path):
    path = tmp_path / "a" / "b" / "m.edgeseg"
    save_artefact(small_artefact, path)
    assert load_artefact(path).config == small_artefact.config
