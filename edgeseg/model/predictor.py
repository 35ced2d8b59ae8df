"""Frames to maps and scores in numpy, and how the tiles of a frame become one frame again."""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgeseg.config import FitConfig
from edgeseg.contract.tiles import Tiling
from edgeseg.data.samples import frames_at_once
from edgeseg.model.reference import ReferenceModel

# uint8 frames (N, H, W, 3) to maps (N, H, W) and scores (N,)
Predictor = Callable[[NDArray[np.uint8]], tuple[NDArray[np.float32], NDArray[np.float32]]]


def torch_predictor(model: ReferenceModel) -> Predictor:
    """The reference forward as a predictor of numpy arrays."""

    @torch.no_grad()
    def predict(
        frames: NDArray[np.uint8],
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        image_map, score, _ = model(torch.from_numpy(frames))
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
        frames: NDArray[np.uint8],
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
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


def frame_scores(
    image_map: Tensor, score: Tensor, *, tiling: Tiling | None
) -> tuple[Tensor, Tensor]:
    """Score and highest value of the map (N,) of frames, whose tiles go in: (N T, H, W), (N T,).

    A frame is judged by its worst tile, so its threshold is one of frames, not of tiles.
    """
    if tiling is None:
        return score, image_map.flatten(1).amax(dim=1)
    tiles = len(tiling.corners_yx())
    frames = zip(torch.split(image_map, tiles), torch.split(score, tiles), strict=True)
    blended = [tiling.blend(list(maps.numpy()), scores.tolist()) for maps, scores in frames]
    return (
        torch.tensor([worst for _, worst in blended]),
        torch.tensor([float(map_hw.max()) for map_hw, _ in blended]),
    )
