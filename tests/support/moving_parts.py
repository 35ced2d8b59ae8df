"""Pictures of a part that lies anywhere, and folders of them."""

from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.data.datasets import open_dataset
from edgeseg.data.samples import Sample
from edgeseg.fitting.locator.learn_locator import learn_locator
from edgeseg.vision.geometry import Geometry, Pose
from edgeseg.vision.images import write_image
from edgeseg.vision.pose import for_opencv

SIZE_HW = (120, 160)
HOME = (80.0, 60.0)
ANCHOR = "anchor:42,44,34,32,angles=10"


def part(
    x: float = 80.0, y: float = 60.0, degrees: float = 0.0, *, noise: int = 0, defect: bool = False
) -> NDArray[np.uint8]:
    """A dark wedge with a hole and a mark at its thick end, on a light table."""
    picture = np.full((*SIZE_HW, 3), 205, np.uint8)
    outline = np.array([[45, 45], [118, 55], [118, 65], [45, 75]], np.int32)
    cv2.fillPoly(picture, [outline * 16 - 8], (70, 80, 90), lineType=cv2.LINE_AA, shift=4)
    cv2.rectangle(picture, (50, 52), (58, 58), (160, 60, 50), -1)
    cv2.circle(picture, (90, 60), 3, (30, 30, 30), -1, cv2.LINE_AA)
    if defect:
        picture[62:68, 66:74] = (240, 240, 60)
    pose = Pose(x=x, y=y, degrees=degrees, home_xy=HOME)
    moved = cv2.warpAffine(
        picture, for_opencv(pose.matrix), SIZE_HW[::-1], borderMode=cv2.BORDER_REPLICATE
    )
    grain = np.random.default_rng(noise).normal(0, 2, moved.shape)
    return np.clip(moved + grain, 0, 255).astype(np.uint8)


def scattered(count: int, *, turn: float = 180.0, shift: float = 12.0) -> list[NDArray[np.uint8]]:
    """Parts within so many degrees and pixels; the first lies at home."""
    rng = np.random.default_rng(5)
    draws = [(0.0, 0.0, 0.0), *rng.uniform(-1, 1, (count - 1, 3)).tolist()]
    return [
        part(80 + shift * x, 60 + shift * y, turn * angle, noise=number)
        for number, (x, y, angle) in enumerate(draws)
    ]


def folder_of(folder: Path, images: list[NDArray[np.uint8]]) -> Path:
    """Write pictures in their order."""
    for number, image in enumerate(images):
        write_image(folder / f"{number:03}.png", image)
    return folder


def geometry_of(
    folder: Path,
    locate: str,
    said: list[str] | None = None,
    *,
    grid_hw: tuple[int, int] = (12, 12),
    reference: Path | None = None,
) -> Geometry:
    """What a fit would learn of where the parts of a folder lie."""
    note = (lambda _: None) if said is None else said.append
    return learn_locator(
        Geometry(camera_hw=SIZE_HW, locate=locate),
        open_dataset(folder).train,
        grid_hw=grid_hw,
        rate=0.1,
        note=note,
        reference=None if reference is None else Sample(image=reference),
    )
