"""A data set with moved, turned and dimmed copies of its good images beside them.

python -m edgeseg.bench.studies.decide.augmented mvtec_ad/cable augmented/cable --copies 2
python -m edgeseg.bench.studies.decide.choices augmented --setting copies: --out choices

Whether a fit gains by light augmentation: compare PRO and image AUROC with those of the data as it
is. Thresholds of such a fit mean nothing, because copies of an image stand on both sides of a fold.
"""

from pathlib import Path

import click
import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.contract.images import read_image, resize_image, write_image
from edgeseg.data.datasets import open_dataset
from edgeseg.errors import UsageError
from edgeseg.options import FOLDER, note


def write_augmented(source: Path, out: Path, *, copies: int, size: int, seed: int = 0) -> int:
    """Good images, `copies` changed ones of each, and links to all else; how many are fitted."""
    if out.exists():
        raise UsageError(f"{out}: exists; expected the name of a new folder")
    rng = np.random.default_rng(seed)
    train = open_dataset(source).train
    for number, sample in enumerate(train):
        image = resize_image(read_image(sample.image), (size, size))
        write_image(out / "train" / "good" / f"{number:04}.png", image)
        for copy in range(copies):
            changed = _changed(image, rng)
            write_image(out / "train" / "good" / f"{number:04}_{copy}.png", changed)
    for part in ("test", "ground_truth"):
        (out / part).symlink_to((source / part).resolve())
    return len(train) * (1 + copies)


def _changed(image_hwc: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.uint8]:
    """Up to two degrees, a hundredth of the side, and five percent of the light."""
    side = image_hwc.shape[0]
    turn, right, down = rng.uniform(-1, 1, 3) * (2.0, 0.01 * side, 0.01 * side)
    matrix = cv2.getRotationMatrix2D((side / 2, side / 2), turn, 1.0)
    matrix[:, 2] += (right, down)
    moved = cv2.warpAffine(image_hwc, matrix, (side, side), borderMode=cv2.BORDER_REPLICATE)
    lit = moved.astype(np.float32) * rng.uniform(0.95, 1.05)
    changed: NDArray[np.uint8] = np.clip(np.rint(lit), 0, 255).astype(np.uint8)
    return changed


@click.command()
@click.argument("source", type=FOLDER)
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--copies", default=2, show_default=True, help="Of every good image.")
@click.option("--size", default=512, show_default=True, help="Pixels of a side.")
@click.option("--seed", default=0, show_default=True)
def main(source: Path, out: Path, copies: int, size: int, seed: int) -> None:
    """Write SOURCE with changed copies of its good images to OUT, a new folder."""
    count = write_augmented(source, out, copies=copies, size=size, seed=seed)
    note(f"{out}: {count} images to fit on")


if __name__ == "__main__":
    main()
