"""Large pictures out of small real ones: boards of many parts, some of them defective.

`python -m edgeseg.bench.studies.scale.boards mvtec_ad/screw OUT --size 2160x3840` writes a data
set that `edgeseg fit` reads. Every place of a board holds one part, which moves a little and
changes its brightness from board to board, as on a tray under a camera.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import click
import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.contract.images import resize_image, resize_mask, write_image
from edgeseg.data.datasets import open_dataset
from edgeseg.data.samples import Sample, read_sample, sample_size
from edgeseg.errors import DatasetError, EdgesegError
from edgeseg.options import FOLDER, SIZE, note

_PART = 270  # pixels of a part: 8 x 14 of them on 2160x3840, near the size of the originals
_SHIFT = 3  # pixels that a part may move each way
_BRIGHTNESS = 0.06  # share by which it may be lighter or darker


@dataclass(frozen=True, kw_only=True)
class BoardPlan:
    """How many boards of what size."""

    size_hw: tuple[int, int] = (2160, 3840)
    train: int = 8
    test_good: int = 2
    test_defective: int = 2
    defects: int = 2  # defective parts on a defective board
    seed: int = 0


def write_boards(source: Path, out: Path, plan: BoardPlan) -> Path:
    """Write a data set in the layout of MVTec AD; the same plan gives the same pictures."""
    dataset = open_dataset(source)
    defective = [sample for sample in dataset.test if sample.label]
    if not defective:
        raise DatasetError(f"{source}: no defective test images; boards need some, and their masks")
    rng = np.random.default_rng(plan.seed)
    # Boards to fit on and boards to test on share no picture.
    half = max(1, len(dataset.train) * plan.train // (plan.train + plan.test_good + 1))
    fitted, unseen = dataset.train[:half], dataset.train[half:] or dataset.train
    for number in range(plan.train):
        board, _ = _board(fitted, (), plan, rng)
        write_image(out / "train" / "good" / f"{number:03}.png", board)
    for number in range(plan.test_good):
        board, _ = _board(unseen, (), plan, rng)
        write_image(out / "test" / "good" / f"{number:03}.png", board)
    for number in range(plan.test_defective):
        board, mask_hw = _board(unseen, defective, plan, rng)
        write_image(out / "test" / "defective" / f"{number:03}.png", board)
        mask = np.where(mask_hw, 255, 0).astype(np.uint8)
        write_image(out / "ground_truth" / "defective" / f"{number:03}_mask.png", mask)
    return out


def _board(
    good: tuple[Sample, ...] | list[Sample],
    defective: tuple[Sample, ...] | list[Sample],
    plan: BoardPlan,
    rng: np.random.Generator,
) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """A board (H, W, 3) and where it is wrong (H, W)."""
    height, width = plan.size_hw
    tops, lefts = (_edges(side) for side in plan.size_hw)
    cells = [(row, column) for row in range(len(tops) - 1) for column in range(len(lefts) - 1)]
    bad = set(rng.permutation(len(cells))[: plan.defects].tolist()) if defective else set()
    board, mask_hw = np.zeros((height, width, 3), np.uint8), np.zeros((height, width), np.bool_)
    for number, (row, column) in enumerate(cells):
        samples = defective if number in bad else good
        sample = samples[int(rng.integers(len(samples)))]
        place = slice(tops[row], tops[row + 1]), slice(lefts[column], lefts[column + 1])
        size_hw = tops[row + 1] - tops[row], lefts[column + 1] - lefts[column]
        board[place], mask_hw[place] = _varied(
            *read_sample(sample, sample_size(sample)), size_hw, rng
        )
    return board, mask_hw


def _varied(
    image_hwc: NDArray[np.uint8],
    mask_hw: NDArray[np.bool_],
    size_hw: tuple[int, int],
    rng: np.random.Generator,
) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """A part at its place's size, moved and lit a little differently."""
    dy, dx = (int(step) for step in rng.integers(-_SHIFT, _SHIFT + 1, 2))
    light = 1 + rng.uniform(-_BRIGHTNESS, _BRIGHTNESS)
    matrix = np.array([[1, 0, dx], [0, 1, dy]], np.float32)
    size_wh = size_hw[::-1]
    image, mask = resize_image(image_hwc, size_hw), resize_mask(mask_hw, size_hw)
    moved = cv2.warpAffine(image, matrix, size_wh, borderMode=cv2.BORDER_REPLICATE)
    moved_mask = cv2.warpAffine(mask.astype(np.uint8), matrix, size_wh, flags=cv2.INTER_NEAREST)
    lit = np.clip(np.rint(moved * light), 0, 255).astype(np.uint8)
    return lit, moved_mask != 0


def _edges(side: int) -> list[int]:
    return [int(edge) for edge in np.linspace(0, side, max(1, round(side / _PART)) + 1).round()]


@click.command(context_settings={"show_default": True})
@click.argument("source", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.argument("out", type=FOLDER)
@click.option("--size", type=SIZE, default=SIZE.text(BoardPlan.size_hw))
@click.option("--train", type=click.IntRange(1), default=BoardPlan.train, help="Boards to fit on.")
@click.option(
    "--seed", type=click.IntRange(0), default=BoardPlan.seed, help="Another seed, other boards."
)
def boards(source: Path, out: Path, size: tuple[int, int], train: int, seed: int) -> None:
    """Make large boards of the parts in SOURCE, a category of MVTec AD.

    \b
    python -m edgeseg.bench.studies.scale.boards mvtec_ad/screw boards --size 2160x3840
    """
    write_boards(source, out, BoardPlan(size_hw=size, train=train, seed=seed))
    note(f"wrote {out}; next: edgeseg fit {out} --size {SIZE.text(size)} --share 6")


if __name__ == "__main__":
    try:
        boards()
    except EdgesegError as error:
        sys.exit(f"Error: {error}")
