"""Predictors from frames to maps and scores in numpy, also for frames in tiles."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from edgeseg.config import FitConfig
from edgeseg.data.samples import frames_at_once
from edgeseg.decision.foreign import map_floor
from edgeseg.model.gaussian_head import Insides, Maps, judge_inside
from edgeseg.vision.tiles import Tiling

if TYPE_CHECKING:
    from edgeseg.model.reference import ReferenceModel


# uint8 frames (N, H, W, 3) to maps (N, H, W) and scores (N,). That of parts that are followed
# also takes `insides`: which cells of each frame the camera saw.
Predictor = Callable[..., tuple[Maps, Maps]]
# Inputs (N, H, W, 3) to their embeddings (N, k, P), or images to those of their tiles.
Embedder = Callable[[NDArray[np.uint8]], NDArray[np.float32]]


def torch_predictor(model: "ReferenceModel") -> Predictor:
    """Return the reference forward as a predictor of numpy arrays."""
    import torch

    kept_hw = None if model.kept is None else model.kept.numpy()

    @torch.no_grad()
    def predict(frames: NDArray[np.uint8], insides: Insides = ()) -> tuple[Maps, Maps]:
        maps, scores, grid = (values.numpy() for values in model(torch.from_numpy(frames)))
        judge_inside(model.rule, kept_hw, grid, insides, maps, scores)
        return maps, scores

    return predict


def frame_predictor(predict: Predictor, config: FitConfig) -> Predictor:
    """Return a predictor of frames from one of the model's input.

    Where the model was fitted on tiles, frames are cut and maps blended as the runtime does it.
    """
    tiling = config.tiling
    if tiling is None:
        return predict
    step = frames_at_once(config.size_hw, most=16)

    def predict_frames(
        frames: NDArray[np.uint8], insides: Insides = ()
    ) -> tuple[Maps, Maps]:  # parts on tiles are not followed: all cells count
        maps, scores = [], []
        for frame in frames:
            tiles = tiling.cut(frame)
            parts = [
                predict(np.stack(tiles[start : start + step]))
                for start in range(0, len(tiles), step)
            ]
            tile_maps, tile_scores = (np.concatenate(part) for part in zip(*parts, strict=True))
            map_hw, score = tiling.blend(list(tile_maps), tile_scores.tolist())
            maps.append(map_hw)
            scores.append(score)
        return np.stack(maps), np.asarray(scores, np.float32)

    return predict_frames


@dataclass(frozen=True, kw_only=True)
class FrameScores:
    """Values of whole frames from their maps and scores, (N,) each."""

    score: Maps
    peak: Maps  # highest value of the map
    floor: Maps  # what three quarters of the map exceed


def frame_scores(image_map: Maps, score: Maps, *, tiling: Tiling | None) -> FrameScores:
    """Compute the values of frames from maps (N T, H, W) and scores (N T,) of their tiles.

    A frame is judged by its worst tile, so its threshold is one of frames, not of tiles.
    """
    maps, worst = list(image_map), score
    if tiling is not None:
        maps, worst = _blend_tiles(image_map, score, tiling)
    return FrameScores(
        score=worst,
        peak=np.array([map_hw.max() for map_hw in maps], np.float32),
        floor=np.array([map_floor(map_hw) for map_hw in maps], np.float32),
    )


def _blend_tiles(image_map: Maps, score: Maps, tiling: Tiling) -> tuple[list[Maps], Maps]:
    tiles = len(tiling.corners_yx())
    blended = [
        tiling.blend(list(image_map[start : start + tiles]), score[start : start + tiles].tolist())
        for start in range(0, len(score), tiles)
    ]
    worst = np.array([frame_score for _, frame_score in blended], np.float32)
    return [map_hw for map_hw, _ in blended], worst
