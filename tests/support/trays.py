"""Pictures of trays with several parts, and folders of them."""

from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.data.samples import Sample
from edgeseg.fitting.locator.learn_parts import learn_parts
from edgeseg.vision.geometry import Geometry, Pose
from edgeseg.vision.images import write_image
from edgeseg.vision.pose import for_opencv

SIZE_HW = (240, 320)
_TABLE = 205
Place = tuple[float, float, float]  # x, y, degrees


def _wedge(*, defect: bool, size: float) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """A dark wedge with a bright mark at its thick end, and its pixels; its middle is at 40, 40."""
    picture, mask = np.full((80, 80, 3), _TABLE, np.uint8), np.zeros((80, 80), np.uint8)
    outline = np.array([[-28, -15], [32, -6], [32, 6], [-28, 15]]) * size + 40
    corners = np.rint(outline * 16 - 8).astype(np.int32)
    cv2.fillPoly(picture, [corners], (70, 80, 90), lineType=cv2.LINE_AA, shift=4)
    cv2.fillPoly(mask, [corners], 255, shift=4)
    cv2.rectangle(picture, (18, 35), (24, 40), (160, 60, 50), -1)
    cv2.circle(picture, (52, 40), 3, (30, 30, 30), -1, cv2.LINE_AA)
    if defect:
        picture[42:48, 34:42] = (240, 240, 60)
    return picture, mask


def tray(
    places: Sequence[Place],
    *,
    noise: int = 0,
    defects: Sequence[int] = (),
    sizes: Sequence[float] = (),
) -> NDArray[np.uint8]:
    """Wedges on a light table at these places; those numbered in `defects` have one."""
    picture = np.full((*SIZE_HW, 3), _TABLE, np.uint8)
    for number, (x, y, degrees) in enumerate(places):
        size = sizes[number] if sizes else 1.0
        wedge, mask = _wedge(defect=number in defects, size=size)
        pose = Pose(x=x, y=y, degrees=degrees, home_xy=(40.0, 40.0))
        matrix = for_opencv(pose.matrix)
        moved = cv2.warpAffine(wedge, matrix, SIZE_HW[::-1], borderMode=cv2.BORDER_REPLICATE)
        where = cv2.warpAffine(mask, matrix, SIZE_HW[::-1]) > 0
        picture[where] = moved[where]
    grain = np.random.default_rng(noise).normal(0, 2, picture.shape)
    return np.clip(picture + grain, 0, 255).astype(np.uint8)


def scattered_places(seed: int, *, count: int = 6) -> list[Place]:
    """Places that do not touch, by rows."""
    rng = np.random.default_rng([7, seed])
    cells = [(x, y) for y in (60, 180) for x in (54, 160, 266)][:count]
    return [
        (x + float(right), y + float(down), float(turn))
        for (x, y), (right, down, turn) in zip(
            cells, rng.uniform((-12, -15, -180), (12, 15, 180), (count, 3)), strict=True
        )
    ]


def good_trays(count: int, *, parts: int = 6, first: int = 0) -> list[NDArray[np.uint8]]:
    """Good trays, every one with parts at other places."""
    seeds = range(first, first + count)
    return [tray(scattered_places(seed, count=parts), noise=seed) for seed in seeds]


def write_trays(folder: Path, images: Sequence[NDArray[np.uint8]]) -> Path:
    """Write pictures in their order."""
    for number, image in enumerate(images):
        write_image(folder / f"{number:03}.png", image)
    return folder


def learn_trays(folder: Path, said: list[str] | None = None, *, locate: str = "blobs") -> Geometry:
    """What a fit would learn of the parts in the pictures of a folder."""
    return learn_parts(
        Geometry(camera_hw=SIZE_HW, locate=locate),
        [Sample(image=path) for path in sorted(folder.iterdir())],
        grid_hw=(12, 12),
        rate=0.1,
        note=(lambda _: None) if said is None else said.append,
    )
