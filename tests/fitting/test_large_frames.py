"""Frames too large for one Gaussian a cell: block moments and tiles, from fit to stream."""

import json
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from edgeseg.base.errors import EdgesegError, UsageError
from edgeseg.config import FitConfig
from edgeseg.data.datasets import load_batches, open_dataset, split_holdout
from edgeseg.export.calibration_frames import calibration_frames
from edgeseg.fitting import memory
from edgeseg.fitting.feature_space import FeatureSpace
from edgeseg.fitting.fitting import fit
from edgeseg.fitting.held_out import permutation
from edgeseg.fitting.options import Changes
from edgeseg.fitting.update import update
from edgeseg.model.artefact import Artefact, load_artefact, save_artefact
from edgeseg.model.factors import Factors
from edgeseg.model.gaussian_head import GaussianHead
from edgeseg.model.predictor import frame_predictor, torch_predictor
from tests.support.commands import FIT, fail, succeed
from tests.support.small_models import RANDOM, SMALL, fit_small, write_plate

FRAME_HW = (96, 160)
TILED = replace(SMALL, size_hw=(64, 64), frame_hw=FRAME_HW, overlap=16)


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_plate(tmp_path_factory.mktemp("data") / "board", size_hw=FRAME_HW)


@pytest.fixture(scope="module")
def tiled(board: Path) -> Artefact:
    return fit_small(board, config=TILED)


@pytest.fixture
def no_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if moments of cells were too large."""
    monkeypatch.setattr(memory, "MOST_BYTES_OF_CELLS", 0)


def good_frames(board: Path) -> np.ndarray:
    batches = load_batches(open_dataset(board).train, size_hw=FRAME_HW, batch_size=10)
    return next(batches).frames


def assert_same_model(found: Artefact, wanted: Artefact) -> None:
    np.testing.assert_allclose(found.factors.mean, wanted.factors.mean, rtol=1e-5, atol=1e-5)
    ours, theirs = (one.factors.factor for one in (found, wanted))
    # Eigenvectors have no sign: compare what they measure.
    products = [factor @ factor.swapaxes(1, 2) for factor in (ours, theirs)]
    np.testing.assert_allclose(*products, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(
        found.calibration.good.scores, wanted.calibration.good.scores, rtol=1e-3
    )


@pytest.mark.parametrize(
    "changes",
    [{}, {"share": 3, "pool": 1}, {"calibration": "holdout"}, {"covariance": "global"}],
    ids=str,
)
def test_block_moments_give_the_model_of_cell_moments(
    plate: Path, no_cells: None, monkeypatch: pytest.MonkeyPatch, changes: dict[str, object]
) -> None:
    config = SMALL.with_options(changes)
    of_blocks = fit_small(plate, config=config)
    monkeypatch.undo()
    of_cells = fit_small(plate, config=config)
    assert (of_blocks.config.moments, of_cells.config.moments) == ("blocks", "cells")
    assert_same_model(of_blocks, of_cells)
    assert of_blocks.data == of_cells.data
    calibration = of_blocks.calibration
    assert calibration.measured_d2 == pytest.approx(calibration.expected_d2, rel=1e-3)


def test_a_file_says_what_its_moments_are_of(plate: Path, no_cells: None, tmp_path: Path) -> None:
    made, path = fit_small(plate), tmp_path / "blocks.edgeseg"
    save_artefact(made, path)
    loaded = load_artefact(path)
    assert loaded.header()["config"]["moments"] == "blocks"
    assert loaded.moments is not None
    assert made.moments is not None
    assert loaded.moments.scatter.shape == (36, 16, 16)  # 6 x 6 blocks of 2 x 2 cells
    np.testing.assert_allclose(loaded.moments.scatter, made.moments.scatter, rtol=1e-7, atol=1e-9)
    assert loaded.moments.images == 10


def test_windows_that_are_cells_stay_cells(no_cells: None) -> None:
    alike = replace(SMALL, pool=1, share=1)
    assert memory.with_moments(alike).moments == "cells"


def test_unsound_numerics_are_noticed_with_block_moments(
    plate: Path, no_cells: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = FeatureSpace.head

    def wrong(self: FeatureSpace, factors: Factors) -> GaussianHead:
        return head(self, replace(factors, factor=factors.factor * 1.1))

    monkeypatch.setattr(FeatureSpace, "head", wrong)
    with pytest.raises(EdgesegError, match="the fit is numerically unsound: mean d"):
        fit_small(plate)


def test_the_score_of_a_frame_is_that_of_its_worst_tile(board: Path, tiled: Artefact) -> None:
    frame = good_frames(board)[:1]
    tiling = tiled.config.tiling
    assert tiling is not None
    predict = torch_predictor(tiled.model())
    maps, scores = predict(np.stack(tiling.cut(frame[0])))
    whole, score = frame_predictor(predict, tiled.config)(frame)
    assert whole.shape == (1, *FRAME_HW)
    assert score[0] == scores.max()
    np.testing.assert_allclose(whole[0, :8, :8], maps[0, :8, :8], rtol=1e-5)  # one tile alone


def test_moments_of_tiles_count_frames(tiled: Artefact) -> None:
    assert tiled.moments is not None
    assert tiled.moments.images == 10
    assert tiled.data["fitted"] == 10
    assert tiled.calibration.good.count == 10
    assert tiled.calibration.good.d2_mean.shape == (8, 8)
    calibration = tiled.calibration
    assert calibration.measured_d2 == pytest.approx(calibration.expected_d2, rel=1e-2)


def test_the_threshold_is_one_of_frames(board: Path) -> None:
    """Tiles of a frame are not exchangeable with frames: a threshold of tiles alarms too often."""
    config = replace(TILED, calibration="holdout", holdout=0.5, false_alarm_rate=0.2)
    artefact = fit(open_dataset(board), config, RANDOM)
    good = artefact.calibration.good
    assert good.count == 5
    _, held_out = split_holdout(open_dataset(board).train, fraction=0.5, seed=config.seed)
    frames = next(load_batches(held_out, size_hw=FRAME_HW, batch_size=5)).frames
    predict = torch_predictor(artefact.model())
    maps, scores = frame_predictor(predict, config)(frames)
    np.testing.assert_allclose(np.sort(good.scores), np.sort(scores), rtol=1e-4)
    np.testing.assert_allclose(np.sort(good.peaks), np.sort(maps.max(axis=(1, 2))), rtol=1e-4)
    assert artefact.calibration.score_threshold == pytest.approx(scores.max(), rel=1e-4)
    # The threshold that the tiles by themselves would give flags more of these frames.
    tiling = config.tiling
    assert tiling is not None
    tile_scores = predict(np.concatenate([np.stack(tiling.cut(one)) for one in frames]))[1]
    assert np.quantile(tile_scores, 0.8) < np.sort(scores)[-2]


def test_folds_are_of_frames(board: Path, tiled: Artefact) -> None:
    """All tiles of a frame leave together: its score is that of a fit without the frame."""
    order = permutation(10, TILED.seed)
    fold = sorted(order[0::3])  # the first of three folds
    dataset = open_dataset(board)
    kept = tuple(one for place, one in enumerate(dataset.train) if place not in fold)
    without = fit(replace(dataset, train=kept), TILED, RANDOM)
    predict = frame_predictor(torch_predictor(without.model()), TILED)
    _, scores = predict(good_frames(board)[fold])
    np.testing.assert_allclose(tiled.calibration.good.scores[: len(fold)], scores, rtol=1e-3)


def test_refused_before_anything_is_allocated(plate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgeseg.fitting.feature_space.machine_bytes", lambda: 6_000_000_000)
    config = replace(SMALL, backbone="mobilenet_v3_small", size_hw=(2160, 3840), k=150)
    with pytest.raises(UsageError) as caught:
        fit_small(plate, config=config)
    assert str(caught.value) == (
        "size 2160x3840 with stride 8, share 2 and k=150 needs about 18.88 GB of memory, this "
        "machine has 6.00 GB; try share=5 (4.01 GB) or tiles of 512x512"
    )


@pytest.mark.parametrize(
    ("text", "limit"), [("1000000\n", 1_000_000), ("max\n", None), (None, None)]
)
def test_a_container_may_have_less_than_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, limit: int | None
) -> None:
    path = tmp_path / "memory.max"
    monkeypatch.setattr(memory, "_CGROUP_LIMIT", path)
    whole = memory.machine_bytes()
    if text is not None:
        path.write_text(text)
    assert memory.machine_bytes() == (limit or whole)
    assert whole > 100_000_000


def test_a_4k_frame_fits_into_6_gb() -> None:
    config = memory.with_moments(replace(SMALL, size_hw=(2160, 3840), share=6, k=150, rank=0.64))
    assert config.moments == "blocks"
    assert memory.fit_memory(config).moments == 3600 * 150 * 150 * 8
    assert memory.fit_memory(config).peak < 6e9


def test_from_fit_to_stream(board: Path, tmp_path: Path) -> None:
    """`fit --tile`, `export`, `stream`: the scores of `predict`, without a word about tiles."""
    model, graph = tmp_path / "board.edgeseg", tmp_path / "board.onnx"
    settings = [item for item in FIT if item not in {"--size", "96"}]
    succeed("fit", board, "--out", model, *settings, "--tile", "64", "--overlap", "16")
    config = load_artefact(model).config
    assert (config.size_hw, config.frame_hw, config.overlap) == ((64, 64), FRAME_HW, 16)
    succeed("export", model, "--out", graph, "--allow-random-weights", "--no-verify")
    shown = json.loads(succeed("info", graph, "--json").stdout)
    assert shown["metadata"]["tiles"] == {"frame_hw": [96, 160], "overlap": 16}
    photos = tmp_path / "photos"
    photos.mkdir()
    sources = sorted((board / "test").rglob("*.png"))[:3]
    for number, path in enumerate(sources):
        cv2.imwrite(str(photos / f"{number}.png"), cv2.imread(str(path)))
    predicted = succeed(
        "predict", model, *sorted(photos.iterdir()), "--out", tmp_path / "out", "--json"
    )
    events = tmp_path / "events.jsonl"
    said = succeed(
        "stream", "--model", graph, "--source", photos, "--events", events, "--backend", "cpu",
        "--allow-random-weights", "--threads", "1",
    )  # fmt: skip
    assert "frames of 160x96 are scored as 6 tiles each" in said.output
    rows = [json.loads(line) for line in events.read_text().splitlines()]
    streamed = [row["score"] for row in rows if row["event"] == "frame"]
    wanted = [json.loads(line)["score"] for line in predicted.stdout.splitlines()]
    np.testing.assert_allclose(streamed, wanted, rtol=1e-3)
    assert fail(
        "stream", "--model", graph, "--source", photos, "--tile", "--allow-random-weights", code=2
    ) == (
        "--tile: model board was fitted on tiles of 64x64 with an overlap of 16 pixels, cut from "
        "frames of 96x160, and always runs so; leave it out"
    )


def test_calibration_frames_are_tiles_from_all_over(board: Path) -> None:
    found = calibration_frames(open_dataset(board), TILED)
    assert found.shape == (60, 64, 64, 3)  # all six tiles of ten frames: fewer than 64
    tiling = TILED.tiling
    assert tiling is not None
    tiles = {tile.tobytes() for frame in good_frames(board) for tile in tiling.cut(frame)}
    assert {one.tobytes() for one in found} == tiles


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--overlap", "8"], "are settings of tiles; add --tile, such as 512"),
        (
            ["--tile", "64", "--tiles", "own", "--size", "96x160"],
            "--tiles own: a Gaussian for every place of the image is what a fit without --tile "
            "has, without seams and overlaps; leave --tile out and give --size 96x160 with a "
            "--share that fits into memory",
        ),
        (["--tile", "128"], "a frame of 96x160 is smaller than a tile of 128x128"),
        (["--tile", "72"], "both sides must be multiples of 16"),
    ],
)
def test_tiles_that_cannot_be_meant(
    board: Path, tmp_path: Path, options: list[str], sentence: str
) -> None:
    settings = ["--backbone", "mobilenet_v3_small", "--weights", "random"]
    assert sentence in fail("fit", board, "--out", tmp_path / "m", *settings, *options, code=2)


@pytest.mark.parametrize(
    "config", [TILED, replace(SMALL, size_hw=FRAME_HW)], ids=["tiles", "blocks"]
)
def test_such_models_learn_and_forget(
    board: Path, monkeypatch: pytest.MonkeyPatch, config: FitConfig
) -> None:
    monkeypatch.setattr(memory, "MOST_BYTES_OF_CELLS", 0)
    dataset = open_dataset(board)
    parts = [replace(dataset, train=part) for part in (dataset.train[:6], dataset.train[6:])]
    whole, first = (fit(one, config, RANDOM) for one in (dataset, parts[0]))
    grown = update(first, Changes(more=parts[1]), RANDOM)
    assert_same_moments(grown, whole)
    assert_same_moments(update(grown, Changes(forget=parts[1]), RANDOM), first)


def assert_same_moments(found: Artefact, wanted: Artefact) -> None:
    assert found.moments is not None
    assert wanted.moments is not None
    assert found.moments.images == wanted.moments.images
    np.testing.assert_allclose(found.moments.mean, wanted.moments.mean, rtol=1e-4, atol=1e-4)
    scatters = found.moments.scatter, wanted.moments.scatter
    scale = float(np.abs(wanted.moments.scatter).max())
    np.testing.assert_allclose(*scatters, rtol=1e-3, atol=1e-5 * scale)
