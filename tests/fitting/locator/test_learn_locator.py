"""Parts that move: where they are found, what is not found, and that nothing else changes."""

import json
import math
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

import edgeseg
from edgeseg.api import Model
from edgeseg.base.errors import UsageError
from edgeseg.config import FitConfig
from edgeseg.data.datasets import open_dataset
from edgeseg.fitting.fitting import fit
from edgeseg.fitting.locator import learn_locator
from edgeseg.fitting.locator.check_locator import move_part
from edgeseg.model.artefact import Artefact, save_artefact
from edgeseg.vision.anchor import parse_anchor
from edgeseg.vision.geometry import Geometry, Pose
from edgeseg.vision.images import write_image
from edgeseg.vision.pose import compose, wrap_degrees
from tests.support.commands import succeed
from tests.support.moving_parts import (
    ANCHOR,
    HOME,
    SIZE_HW,
    folder_of,
    geometry_of,
    part,
    scattered,
)
from tests.support.small_models import RANDOM, SMALL


@pytest.fixture(scope="module")
def blobs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder_of(tmp_path_factory.mktemp("blobs"), scattered(12))


@pytest.fixture(scope="module")
def anchors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder_of(tmp_path_factory.mktemp("anchors"), scattered(12, turn=9.0))


def corner_error(found: Pose, planted: Pose, start: Pose) -> float:
    """Farthest that a corner of the picture is from where a planted move should put it."""
    corners = np.array([[0, 0, 1], [160, 0, 1], [0, 120, 1], [160, 120, 1.0]])
    offset = corners @ found.matrix.T - corners @ compose(planted.matrix, start.matrix).T
    return float(np.hypot(*offset.T).max())


@pytest.mark.parametrize("defect", [False, True])
@pytest.mark.parametrize("locate", ["blob", ANCHOR])
def test_a_part_is_found_where_it_was_put(
    blobs: Path, anchors: Path, locate: str, defect: bool
) -> None:
    geometry = geometry_of(blobs if locate == "blob" else anchors, locate)
    start = geometry.find(part())
    assert start is not None
    assert start.pose is not None
    rng = np.random.default_rng(1)
    turn = 180.0 if locate == "blob" else 10.0
    for _ in range(10):
        x, y, degrees = rng.uniform(-1, 1, 3) * (12, 12, turn)
        planted = Pose(x=80 + x, y=60 + y, degrees=degrees, home_xy=HOME)
        found = geometry.find(part(80 + x, 60 + y, degrees, defect=defect))
        assert found is not None
        assert found.pose is not None
        assert found.ok or defect
        assert corner_error(found.pose, planted, start.pose) < 2.5


@pytest.mark.parametrize("locate", ["blob", ANCHOR])
def test_places_go_with_the_part_from_another_picture_too(
    blobs: Path, anchors: Path, tmp_path: Path, locate: str
) -> None:
    good = blobs if locate == "blob" else anchors
    geometry = geometry_of(good, locate)
    assert geometry_of(good, locate, reference=good / "000.png") == geometry
    moved_away = tmp_path / "elsewhere.png"  # and not among the good ones
    write_image(moved_away, part(86, 55))
    found = geometry_of(good, locate.replace("42,44", "48,39"), reference=moved_away)
    assert found.locator is not None
    pose = found.locator.find(part()).pose
    assert pose is not None
    assert np.abs(pose.matrix @ (86, 55, 1) - HOME).max() < 1


def test_a_picture_without_a_part_names_no_places(blobs: Path, tmp_path: Path) -> None:
    write_image(tmp_path / "empty.png", np.full((*SIZE_HW, 3), 90, np.uint8))
    with pytest.raises(UsageError, match=r"no part stands out in empty\.png"):
        geometry_of(blobs, "blob", reference=tmp_path / "empty.png")


def test_what_is_learned_is_said_in_words(blobs: Path, tmp_path: Path) -> None:
    said: list[str] = []
    geometry_of(blobs, "blob", said)
    assert said == [
        "parts are found by their outline in 12 of 12 good images; their angle is known from their "
        "axis and their ends",
        "what they lie on does not count, 63% of the picture; locate=blob,background=yes looks "
        "there too",
        "good images moved on purpose are found again to 0.5 pixels, 1 of 12 left out",
    ]
    discs, bars = [], []
    for number in range(8):
        disc = np.full((*SIZE_HW, 3), 200, np.uint8)
        cv2.circle(disc, (70 + number, 60), 25, (40, 40, 40), -1, cv2.LINE_AA)
        discs.append(disc)
        bar = np.full((*SIZE_HW, 3), 200, np.uint8)
        cv2.rectangle(bar, (40, 50 + number), (120, 66 + number), (40, 40, 40), -1)
        bars.append(bar)
    geometry_of(folder_of(tmp_path / "discs", discs), "blob", said)
    geometry_of(folder_of(tmp_path / "bars", bars), "blob", said)
    assert said[3].endswith("they are round or nearly so: their angle is left out")
    assert said[6].endswith("an angle and the opposite one are the same")


@pytest.mark.parametrize(("strays", "refused"), [(1, False), (2, True)])
def test_an_outline_that_is_another_one_now_and_then(
    tmp_path: Path, strays: int, refused: bool
) -> None:
    """In some images only a piece of the part stands out: what is followed is not the part."""
    images = []
    for number in range(16):
        image = part(80 + number % 3, 60)
        if number < strays:
            image[:, : 70 + number] = 205
        images.append(image)
    good = folder_of(tmp_path / "good", images)
    if not refused:
        assert geometry_of(good, "blob").locator is not None
        return
    with pytest.raises(UsageError, match="a much larger or smaller one in 2, areas vary by"):
        geometry_of(good, "blob")


def test_parts_that_fill_the_picture_may_be_cut_when_they_are_moved(tmp_path: Path) -> None:
    images = []
    for number in range(8):
        disc = np.full((*SIZE_HW, 3), 200, np.uint8)
        cv2.circle(disc, (79 + number % 2, 60), 57, (40, 40, 40), -1, cv2.LINE_AA)
        images.append(disc)
    assert geometry_of(folder_of(tmp_path / "discs", images), "blob").locator is not None


@pytest.mark.parametrize(("lost", "refused"), [(2, False), (3, True)])
def test_a_mark_that_some_parts_are_found_without(
    anchors: Path, monkeypatch: pytest.MonkeyPatch, lost: int, refused: bool
) -> None:
    errors = [math.inf] * lost + [0.5] * (40 - lost)
    monkeypatch.setattr(learn_locator, "follow_errors", lambda *_: errors)
    if not refused:
        said: list[str] = []
        geometry_of(anchors, ANCHOR, said)
        assert said[-1].endswith("are found again to 0.5 pixels, 2 of 40 left out")
        return
    with pytest.raises(UsageError, match="of 40 good images moved on purpose 3 were found inf pix"):
        geometry_of(anchors, ANCHOR)


def test_what_is_not_there_is_not_found(blobs: Path, anchors: Path) -> None:
    empty = np.full((*SIZE_HW, 3), 205, np.uint8)
    half = part(154, 60)
    small = cv2.resize(part(), None, fx=0.5, fy=0.5)
    padded = np.full((*SIZE_HW, 3), 205, np.uint8)
    padded[30:90, 40:120] = small
    for geometry in (geometry_of(blobs, "blob"), geometry_of(anchors, ANCHOR)):
        for picture in (empty, half, padded):
            found = geometry.find(picture)
            assert found is not None
            assert not found.ok
            assert found.reason


@pytest.fixture(scope="module")
def located(blobs: Path) -> Artefact:
    config = replace(SMALL, geometry=Geometry(locate="blob"))
    return fit(open_dataset(blobs), config, RANDOM)


@pytest.fixture(scope="module")
def graph(located: Artefact, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("graphs") / "part.onnx"
    return Model(located).export(path, allow_random_weights=True)


@pytest.mark.parametrize("backend", ["cpu", "openvino"])
def test_every_backend_follows_the_part_as_the_reference_does(
    located: Artefact, graph: Path, backend: str
) -> None:
    pytest.importorskip("openvino" if backend == "openvino" else "onnxruntime")
    reference = Model(located)
    with edgeseg.runtime.open(graph, backend=backend, allow_random_weights=True) as detector:
        for x, y, degrees in ((80, 60, 0), (88, 52, 140), (70, 66, -95)):
            frame = part(x, y, degrees, noise=3)
            wanted, result = reference.predict(frame), detector.predict(frame)
            assert result.verdict == wanted.verdict
            assert result.score == pytest.approx(wanted.score, rel=1e-3)
            assert result.pose == wanted.pose
            assert result.map_hw.shape == wanted.map_hw.shape
        nothing = detector.predict(np.full((*SIZE_HW, 3), 205, np.uint8))
    assert nothing.verdict == "not_found"
    assert nothing.anomalous


def test_a_part_scores_alike_wherever_it_lies_and_boxes_follow_it(located: Artefact) -> None:
    model = Model(located)
    at_rest = model.predict(part(noise=3)).score
    moved = [model.predict(part(x, y, a, noise=3)).score for x, y, a in ((86, 55, 60), (75, 64, 9))]
    assert moved == pytest.approx([at_rest, at_rest], rel=0.35)
    result = model.predict(part(86, 55, 90, defect=True))
    assert result.verdict == "defect"
    x, y, w, h = result.regions[0].box_xywh
    turned = Pose(x=86, y=55, degrees=90, home_xy=HOME).matrix @ (70.0, 65.0, 1.0)
    assert abs(x + w / 2 - turned[0]) < 14
    assert abs(y + h / 2 - turned[1]) < 14


def test_parts_beyond_the_picture_neither_score_nor_calibrate(located: Artefact) -> None:
    geometry = located.config.geometry
    found = geometry.find(part(88, 52, 140))
    assert found is not None
    inside = geometry.view(SIZE_HW, (96, 96), found.pose).inside(located.config.grid_hw)
    assert inside is not None, "the corners of the view lie beyond"
    grid = np.where(inside, 1.0, 99.0).astype(np.float32)
    map_hw, score = located.model().rule.judge(grid, inside)
    assert score == pytest.approx(1.0)
    assert map_hw.max() == pytest.approx(1.0, rel=1e-5)
    assert located.calibration.good.scores.max() < located.calibration.good.grids.max()  # type: ignore[union-attr]


def test_the_stream_says_the_pose_and_what_it_does_not_find(
    located: Artefact, graph: Path, tmp_path: Path
) -> None:
    frames = [part(88, 52, 140), np.full((*SIZE_HW, 3), 205, np.uint8)]
    source, log = folder_of(tmp_path / "in", frames), tmp_path / "events.jsonl"
    options = ("--backend", "cpu", "--threads", "1", "--allow-random-weights", "--snapshots")
    succeed(
        "stream", "--model", graph, "--source", source, "--events", log, *options, tmp_path / "out"
    )
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    first, second = (line for line in lines if line["event"] == "frame")
    wanted = located.config.geometry.find(frames[0])
    assert wanted is not None
    assert wanted.pose is not None
    assert first["pose"]["x"] == pytest.approx(wanted.pose.x, abs=0.01)
    assert first["pose"]["down"] == pytest.approx(wanted.pose.shift_xy[1], abs=0.01)
    at_rest = located.config.geometry.find(part())
    assert at_rest is not None
    assert at_rest.pose is not None
    assert abs(wrap_degrees(first["pose"]["degrees"] - at_rest.pose.degrees - 140)) < 2
    assert (second["verdict"], second["pose"], second["alarm"]) == ("not_found", None, True)


def test_evaluation_counts_what_is_not_found_as_an_alarm(located: Artefact, tmp_path: Path) -> None:
    folder_of(tmp_path / "train/good", scattered(3))
    folder_of(tmp_path / "test/good", [part(84, 58, 33, noise=7)])
    folder_of(tmp_path / "test/gone", [np.full((*SIZE_HW, 3), 205, np.uint8)])
    mask = np.zeros(SIZE_HW, np.uint8)
    mask[50:70, 60:90] = 255
    write_image(tmp_path / "ground_truth/gone/000_mask.png", mask)
    result = Model(located).evaluate(tmp_path)
    assert result.not_found == 1
    assert result.recall == 1.0


def test_the_exports_accuracy_is_of_parts_that_reach_beyond_their_picture_too(
    located: Artefact, tmp_path: Path
) -> None:
    folder_of(tmp_path / "train/good", scattered(3))
    folder_of(tmp_path / "test/good", [part(84, 58, 33, noise=7), part(88, 52, 140, noise=8)])
    folder_of(tmp_path / "test/spot", [part(86, 55, 90, defect=True)])
    turned = Pose(x=86, y=55, degrees=90, home_xy=HOME)
    mask = np.zeros(SIZE_HW, np.uint8)
    mask[62:68, 66:74] = 255
    write_image(tmp_path / "ground_truth/spot/000_mask.png", move_part(mask, turned, nearest=True))
    save_artefact(located, tmp_path / "part.edgeseg")
    arguments = ("export", tmp_path / "part.edgeseg", "--allow-random-weights", "--out")
    graph = tmp_path / "part.onnx"
    succeed(*arguments, graph, "--data", tmp_path)
    before = Model(located).evaluate(tmp_path)
    rows = json.loads(graph.with_suffix(".json").read_text())["accuracy"]
    assert [row["pro"] for row in rows] == pytest.approx([before.pro] * len(rows), abs=1e-3)
    assert rows


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("stamp", "locate='stamp': expected blob, blob,background=yes, anchor:x,y,w,h or anchor:"),
        ("anchor:1,2,3", "locate='anchor:1,2,3': expected blob, blob,background=yes"),
        ("anchor:1,2,3,4,angles=999", "locate='anchor:1,2,3,4,angles=999': expected blob"),
    ],
)
def test_other_ways_to_find_parts_are_refused(text: str, sentence: str) -> None:
    with pytest.raises(UsageError) as failure:
        parse_anchor(text)
    assert str(failure.value).startswith(sentence)


def test_angles_are_tried_in_steps_of_five_degrees() -> None:
    assert parse_anchor("anchor:1,2,30,40,angles=10")[1] == (-10.0, -5.0, 0.0, 5.0, 10.0)
    assert parse_anchor("anchor:1,2,30,40")[1] == (0.0,)


def test_textures_and_small_anchors_are_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    noise = [rng.integers(0, 256, (*SIZE_HW, 3), dtype=np.uint8) for _ in range(6)]
    folder = folder_of(tmp_path / "noise", noise)
    with pytest.raises(UsageError, match="the part does not stand out from what it lies on"):
        geometry_of(folder, "blob")
    with pytest.raises(UsageError, match="some good images have nothing like it"):
        geometry_of(folder, "anchor:42,44,34,32")
    with pytest.raises(UsageError, match="too small to be searched for in time; expected 4 pixels"):
        geometry_of(folder, "anchor:42,44,34,3")
    with pytest.raises(UsageError, match="does not lie within pictures of 160x120"):
        geometry_of(folder, "anchor:142,44,34,30")


def test_tiles_are_refused(blobs: Path) -> None:
    config = FitConfig(size_hw=(64, 64), frame_hw=(128, 128), geometry=Geometry(locate="blob"))
    with pytest.raises(UsageError, match="parts are followed as a whole, and tiles are not"):
        fit(open_dataset(blobs), config, RANDOM)
