"""Frames to maps and scores in numpy, and how the tiles of a frame become one frame again."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgeseg.config import FitConfig
from edgeseg.contract.foreign import map_floor
from edgeseg.contract.tiles import Tiling
from edgeseg.data.samples import frames_at_once
from edgeseg.model.reference import Insides, ReferenceModel

Maps = NDArray[np.float32]


# uint8 frames (N, H, W, 3) to maps (N, H, W) and scores (N,). That of parts that are followed
# also takes `insides`: which cells of each frame the camera saw.
Predictor = Callable[..., tuple[Maps, Maps]]


def torch_predictor(model: ReferenceModel) -> Predictor:
    """The reference forward as a predictor of numpy arrays."""

    @torch.no_grad()
    def predict(frames: NDArray[np.uint8], insides: Insides = ()) -> tuple[Maps, Maps]:
        image_map, score, grid = model(torch.from_numpy(frames))
        if any(inside_hw is not None for inside_hw in insides):
            image_map, score = model.to_image(grid, insides)
        return image_map.numpy(), score.numpy()

    return predict


def frame_predictor(predict: Predictor, config: FitConfig) -> Predictor:
    """A predictor of frames from one of the model's input.

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
    """What maps and scores say of whole frames, (N,) each."""

    score: Tensor
    peak: Tensor  # highest value of the map
    floor: Tensor  # what three quarters of the map exceed


def frame_scores(image_map: Tensor, score: Tensor, *, tiling: Tiling | None) -> FrameScores:
    """Of frames, whose tiles go in: maps (N T, H, W) and scores (N T,).

    A frame is judged by its worst tile, so its threshold is one of frames, not of tiles.
    """
    if tiling is None:
        maps, worst = list(image_map.numpy()), score
    else:
        maps, worst = _blended(image_map, score, tiling)
    return FrameScores(
        score=worst,
        peak=torch.tensor([float(map_hw.max()) for map_hw in maps]),
        floor=torch.tensor([map_floor(map_hw) for map_hw in maps]),
    )


def _blended(
    image_map: Tensor, score: Tensor, tiling: Tiling
) -> tuple[list[NDArray[np.float32]], Tensor]:
    tiles = len(tiling.corners_yx())
    frames = zip(torch.split(image_map, tiles), torch.split(score, tiles), strict=True)
    blended = [tiling.blend(list(maps.numpy()), scores.tolist()) for maps, scores in frames]
    return [map_hw for map_hw, _ in blended], torch.tensor([worst for _, worst in blended])
