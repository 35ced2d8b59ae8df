"""Models that follow parts or ignore regions: with tiles, several sources and large pictures."""

import json
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from edgeseg.api import Model
from edgeseg.data.datasets import open_dataset
from edgeseg.fitting.fitting import fit
from edgeseg.vision.geometry import Geometry
from edgeseg.vision.images import write_image
from tests.support.commands import fail, run, succeed
from tests.support.moving_parts import folder_of, part, scattered
from tests.support.small_models import RANDOM, SMALL

SERIAL = ((20.0, 20.0), (60.0, 20.0), (60.0, 40.0))
STREAM = ("--backend", "cpu", "--threads", "1", "--allow-random-weights")


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder_of(tmp_path_factory.mktemp("good"), scattered(12))


@pytest.fixture(scope="module")
def graph(good: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = replace(SMALL, geometry=Geometry(locate="blob"))
    path = tmp_path_factory.mktemp("graphs") / "part.onnx"
    return Model(fit(open_dataset(good), config, RANDOM)).export(path, allow_random_weights=True)


def test_a_stream_cuts_no_tiles_where_parts_are_followed(graph: Path, good: Path) -> None:
    error = fail("stream", "--model", graph, "--source", good, "--tile", *STREAM, code=2)
    assert "was fitted on parts found by blob, and tiles have no fixed place" in error


def test_nor_where_regions_are_ignored(good: Path, tmp_path: Path) -> None:
    config = replace(SMALL, geometry=Geometry(ignore=(SERIAL,)))
    model = Model(fit(open_dataset(good), config, RANDOM))
    path = model.export(tmp_path / "part.onnx", allow_random_weights=True)
    error = fail("stream", "--model", path, "--source", good, "--tile", *STREAM, code=2)
    assert "was fitted on 1 ignored region, and tiles have no fixed place" in error


def test_every_source_has_its_own_part(graph: Path, tmp_path: Path) -> None:
    left, right = (
        folder_of(tmp_path / name, [part(x, 60, degrees)])
        for name, x, degrees in (("left", 74, 20), ("right", 88, 20))
    )
    log = tmp_path / "events.jsonl"
    sources = ("--source", left, "--source", right)
    succeed("stream", "--model", graph, *sources, "--events", log, *STREAM)
    events = [json.loads(line) for line in log.read_text().splitlines()]
    poses = {e["source_index"]: e["pose"] for e in events if e["event"] == "frame"}
    assert poses[1]["x"] - poses[0]["x"] == pytest.approx(14, abs=1)
    assert poses[1]["degrees"] == pytest.approx(poses[0]["degrees"], abs=2)


def test_a_source_of_another_size_is_refused(graph: Path, tmp_path: Path) -> None:
    large = cv2.resize(part(), (320, 240))
    source = folder_of(tmp_path / "large", [np.asarray(large, np.uint8)])
    result = run("stream", "--model", graph, "--source", source, *STREAM)
    assert result.exit_code == 2
    sentence = "320x240, expected 160x120 (width x height): the model looks at places in pixels of"
    assert sentence in result.stderr


def test_large_pictures_are_followed_like_small_ones(good: Path, tmp_path: Path) -> None:
    folder = tmp_path / "large"
    for number, image in enumerate(scattered(8)):
        large = cv2.resize(image, None, fx=9, fy=9, interpolation=cv2.INTER_CUBIC)
        write_image(folder / f"{number}.png", np.asarray(large, np.uint8))
    config = replace(SMALL, geometry=Geometry(locate="blob"))
    model = Model(fit(open_dataset(folder), config, RANDOM))
    frame = cv2.resize(part(86, 55, 40), None, fx=9, fy=9, interpolation=cv2.INTER_CUBIC)
    result = model.predict(np.asarray(frame, np.uint8))
    small = fit(open_dataset(good), config, RANDOM).config.geometry.find(part(86, 55, 40))
    assert small is not None
    assert small.pose is not None
    assert result.pose is not None
    assert (result.pose.x / 9, result.pose.y / 9) == pytest.approx(
        (small.pose.x, small.pose.y), abs=1.0
    )
    assert result.verdict in ("good", "unsure", "defect")
