"""Several parts in one picture, at every door where such a model runs."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

import edgeseg.runtime
from edgeseg.api import load
from edgeseg.base.errors import EdgesegError
from edgeseg.export.triton_repository import write_triton
from edgeseg.runtime.backends.model_file import file_metadata
from edgeseg.teach.project import RegionSettings
from tests.support.commands import FIT, fail, succeed
from tests.support.trays import good_trays, scattered_places, tray, write_trays

STREAM = ("--backend", "cpu", "--threads", "1", "--allow-random-weights")
EMPTY = np.full((240, 320, 3), 205, np.uint8)


def touching() -> list[tuple[float, float, float]]:
    places = scattered_places(60)
    places[1] = (places[0][0] + 35, places[0][1], places[0][2] + 90)
    return places


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_trays(tmp_path_factory.mktemp("good"), good_trays(10))
    out = tmp_path_factory.mktemp("model") / "tray.edgeseg"
    succeed("fit", folder, *FIT, "--planted", 0, "--locate", "blobs", "--out", out)
    return out


@pytest.fixture(scope="module")
def graph(fitted: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("graphs") / "tray.onnx"
    return load(fitted).export(path, allow_random_weights=True)


@pytest.fixture(scope="module")
def today(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Good, a defect, parts that touch, nothing, both a defect and parts that touch."""
    places = scattered_places(71)
    pictures = [
        tray(places, noise=71),
        tray(places, noise=71, defects=[2]),
        tray(touching(), noise=60),
        EMPTY,
        tray(touching(), noise=60, defects=[5]),
    ]
    return write_trays(tmp_path_factory.mktemp("today"), pictures)


VERDICTS = ["good", "defect", "invalid", "invalid", "defect"]


def test_graph_and_model_judge_alike(fitted, graph, today):
    model = load(fitted)
    with edgeseg.runtime.open(graph, backend="cpu", allow_random_weights=True) as detector:
        for path, verdict in zip(sorted(today.iterdir()), VERDICTS, strict=True):
            one, other = model.predict(path), detector.predict(path)
            assert one.verdict == other.verdict == verdict
            assert [part.verdict for part in one.parts] == [part.verdict for part in other.parts]
            assert one.score == pytest.approx(other.score, rel=1e-4, nan_ok=True)
            assert len(one.regions) == len(other.regions)
            np.testing.assert_allclose(one.map_hw, other.map_hw, atol=1e-2)


def test_opencv_s_channels_are_judged_alike(fitted, graph, today):
    from edgeseg.vision.images import read_image

    picture = read_image(today / "001.png")
    with edgeseg.runtime.open(graph, backend="cpu", allow_random_weights=True) as detector:
        rgb, bgr = (
            detector.predict(np.ascontiguousarray(frame), channels=channels)
            for frame, channels in ((picture, "rgb"), (picture[:, :, ::-1], "bgr"))
        )
    assert rgb.score == pytest.approx(bgr.score, rel=1e-3)


def test_predict_names_the_parts_that_are_not_good(fitted, graph, today, tmp_path):
    for model, options in ((fitted, ()), (graph, STREAM)):
        lines = succeed("predict", model, today, *options).stdout.splitlines()
        assert "good (6 parts), " in lines[0]
        assert "defect (6 parts, not good: " in lines[1]
        assert "invalid (not all parts of the picture can be judged: part " in lines[2]
        assert "spread them) (5 parts, not good: " in lines[2]
        assert "no part stands out from the background), no number" in lines[3]
    table = tmp_path / "out.csv"
    facts = [
        json.loads(line)
        for line in succeed(
            "predict", fitted, today, "--json", "--csv", table, "--out", tmp_path / "drawn"
        ).stdout.splitlines()
    ]
    assert [fact["verdict"] for fact in facts] == VERDICTS
    assert [len(fact.get("parts", ())) for fact in facts] == [6, 6, 5, 0, 5]
    assert facts[2]["doubt"] == "parts"
    (bad,) = (part for part in facts[1]["parts"] if part["verdict"] == "defect")
    (x, y, w, h), region = bad["box"], facts[1]["regions"][0]["box_xywh"]
    assert x <= region[0] + region[2] / 2 <= x + w
    assert y <= region[1] + region[3] / 2 <= y + h
    with table.open() as file:
        rows = list(csv.DictReader(file))
    assert json.loads(rows[1]["parts"])[0]["box"] == facts[1]["parts"][0]["box"]
    assert rows[3]["parts"] == ""
    assert len(list((tmp_path / "drawn").iterdir())) == 5


def test_a_stream_gives_every_picture_one_verdict(graph, today, tmp_path):
    log = tmp_path / "events.jsonl"
    options = ("--events", log, "--snapshots", tmp_path / "shots")
    succeed("stream", "--model", graph, "--source", today, *options, *STREAM)
    events = [json.loads(line) for line in log.read_text().splitlines()]
    frames = [event for event in events if event["event"] == "frame"]
    assert [frame["verdict"] for frame in frames] == VERDICTS
    assert [len(frame.get("parts", ())) for frame in frames] == [6, 6, 5, 0, 5]
    assert frames[2]["doubt"] == "parts"
    assert frames[3]["score"] is None
    assert all(frame["pose"] is None for frame in frames)


def test_the_threshold_of_this_computer_is_one_of_pictures(graph, tmp_path):
    good = write_trays(tmp_path / "good", good_trays(12, first=200))
    model = tmp_path / "here.onnx"
    for suffix in (".onnx", ".json"):
        model.with_suffix(suffix).write_bytes(graph.with_suffix(suffix).read_bytes())
    printed = succeed("calibrate", model, good, "--rate", 0.1, *STREAM)
    assert "12 good images" in printed.stdout
    with edgeseg.runtime.open(model, backend="cpu", allow_random_weights=True) as detector:
        assert detector.metadata.good_scores.count == 12
        assert detector.metadata.threshold.foreign is not None
        verdicts = [detector.predict(path).verdict for path in sorted(good.iterdir())]
    assert verdicts.count("good") >= 10
    write_trays(tmp_path / "good", [EMPTY])
    error = fail("calibrate", model, good, "--rate", 0.1, *STREAM, code=1)
    assert "000.png: not all parts of the picture can be judged" in error


def test_doors_that_look_at_one_part_refuse(fitted, graph, today, tmp_path):
    region = ("--region", "1,1,9,9")
    for model in (fitted, graph):
        assert "no place of the picture can be ignored" in fail("ignore", model, *region, code=2)
    assert "tiles have no fixed place" in fail(
        "stream", "--model", graph, "--source", today, "--tile", *STREAM, code=2
    )
    metadata = file_metadata(graph)
    with pytest.raises(EdgesegError, match="a server does not cut"):
        write_triton(graph, tmp_path / "served", metadata=metadata)
    with pytest.raises(EdgesegError, match="a project judges one part in a picture"):
        RegionSettings(locate="blobs")
    fit = ("fit", today, *FIT, "--out", tmp_path / "no.edgeseg", "--locate")
    error = fail(*fit, "blobs", "--roi", "0,0,99,99", code=2)
    assert "no place of the picture can be named; leave --roi out" in error
    error = fail(*fit, "blobs,8", code=2)
    assert "expected blobs or blobs,count=8" in error


def test_info_says_what_was_learned(fitted, graph):
    for model in (fitted, graph):
        assert "blobs" in succeed("info", model).stdout


def test_a_region_smaller_than_asked_for_does_not_decide(graph, today, tmp_path):
    log = tmp_path / "events.jsonl"
    options = ("--events", log, "--min-area", 5000)
    succeed("stream", "--model", graph, "--source", today, *options, *STREAM)
    events = [json.loads(line) for line in log.read_text().splitlines()]
    frames = [event for event in events if event["event"] == "frame"]
    assert [frame["verdict"] for frame in frames] == [
        "good",
        "good",
        "invalid",
        "invalid",
        "invalid",
    ]
