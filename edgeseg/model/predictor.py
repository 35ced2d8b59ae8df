"""Predictors from frames to maps and scores in numpy, also for frames in tiles."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgeseg.config import FitConfig
from edgeseg.data.samples import frames_at_once
from edgeseg.decision.foreign import map_floor
from edgeseg.decision.prediction import Prediction, blend_tiles
from edgeseg.model.gaussian_head import Cells, Insides, Maps, Variants, judge_inside
from edgeseg.vision.tiles import Tiling

if TYPE_CHECKING:
    from edgeseg.model.reference import ReferenceModel


# uint8 frames (N, H, W, 3) to maps (N, H, W) and scores (N,). That of parts that are followed
# also takes `insides`: which cells of each frame the camera saw.
Predictor = Callable[..., tuple[Maps, Maps]]
# Inputs (N, H, W, 3) to their embeddings (N, k, P), or images to those of their tiles.
Embedder = Callable[[NDArray[np.uint8]], NDArray[np.float32]]
# A frame (H, W, 3), and which of its cells the camera saw, if not all, to its prediction.
FrameScorer = Callable[[NDArray[np.uint8], NDArray[np.bool_] | None], Prediction]


class VariantScores(NamedTuple):
    """Maps and scores of frames, and the variants of the product that they show."""

    maps: Maps  # (N, H, W)
    scores: Maps  # (N,)
    variants: Variants | None = None  # (N,); None: there is one product


# A predictor that may name variants, or one that does not.
VariantPredictor = Callable[..., VariantScores | tuple[Maps, Maps]]


def variant_scores(values: VariantScores | tuple[Maps, Maps]) -> VariantScores:
    """Return the result of either kind of predictor."""
    return values if isinstance(values, VariantScores) else VariantScores(*values)


def torch_predictor(model: "ReferenceModel") -> Predictor:
    """Return the reference forward as a predictor of numpy arrays."""
    forward = _forward(model)

    def predict(frames: NDArray[np.uint8], insides: Insides = ()) -> tuple[Maps, Maps]:
        maps, scores, *_ = forward(frames, insides)
        return maps, scores

    return predict


def variant_predictor(model: "ReferenceModel") -> Callable[..., VariantScores]:
    """Return the reference forward as a predictor that also names variants by their numbers."""
    forward = _forward(model)

    def predict(frames: NDArray[np.uint8], insides: Insides = ()) -> VariantScores:
        maps, scores, cells, _ = forward(frames, insides)
        return VariantScores(maps, scores, cells.variants)

    return predict


def torch_scorer(model: "ReferenceModel", config: FitConfig) -> FrameScorer:
    """Return the reference forward as a function from one frame to its prediction."""
    forward, tiling, own = _forward(model), config.tiling, "map_grid" in model.outputs
    step = frames_at_once(config.size_hw, most=16)

    def score(frame_hwc: NDArray[np.uint8], inside: NDArray[np.bool_] | None = None) -> Prediction:
        inputs = [frame_hwc] if tiling is None else tiling.cut(frame_hwc)
        parts: list[Prediction] = []
        for start in range(0, len(inputs), step):
            frames = np.stack(inputs[start : start + step])
            maps, scores, cells, apart = forward(frames, (inside,))
            if inside is not None:
                cells = cells._replace(score=cells.score * inside, shown=cells.shown * inside)
            variants = cells.variants
            parts += [
                Prediction(
                    map_hw=maps[index],
                    score=float(scores[index]),
                    grid_hw=cells.score[index],
                    map_grid_hw=cells.shown[index] if own else None,
                    variant=None if variants is None else config.variants[variants[index]],
                    apart_pk=None if apart is None else apart[index],
                )
                for index in range(len(maps))
            ]
        return parts[0] if tiling is None else blend_tiles(parts, tiling)

    return score


def _forward(model: "ReferenceModel") -> Callable[..., tuple[Maps, Maps, Cells, Maps | None]]:
    """Return the reference forward in numpy, with parts that reach beyond their picture judged."""
    import torch

    kept_hw = None if model.kept is None else model.kept.numpy()

    @torch.no_grad()
    def run(frames: NDArray[np.uint8], insides: Insides) -> tuple[Maps, Maps, Cells, Maps | None]:
        values = (value.numpy() for value in model(torch.from_numpy(frames)))
        outputs = dict(zip(model.outputs, values, strict=True))
        maps, scores, grid = (outputs[name] for name in ("map", "score", "grid"))
        cells = Cells(grid, outputs.get("map_grid", grid), outputs.get("variant"))
        judge_inside(model.rule, kept_hw, cells, insides, maps, scores)
        return maps, scores, cells, outputs.get("apart")

    return run


def frame_predictor(predict: VariantPredictor, config: FitConfig) -> VariantPredictor:
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
                variant_scores(predict(np.stack(tiles[start : start + step])))[:2]
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
