"""How long it takes to find a part and to look at it, on one core at 1920x1080."""

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.bench.harness.tabular import column
from edgeseg.config import FitConfig
from edgeseg.contract.geometry import Geometry, Pose, View
from edgeseg.contract.images import write_image
from edgeseg.data.datasets import open_dataset
from edgeseg.errors import EdgesegError
from edgeseg.fitting.spaces import settle_geometry

_REPEATS = 200
_FULL_HW = (1080, 1920)
_MOVES = ((0, 0), (9, -14), (-12, 10), (4, 17))  # pixels that the images of a fit lie apart


@dataclass(frozen=True, kw_only=True)
class Step:
    """Processor time of one step on one core, on a picture of 1920x1080."""

    step: str = field(metadata=column("step, 1920x1080"))
    least: float = field(metadata=column("ms, least", digits=3))
    ms: float = field(metadata=column("ms, median", digits=3))


def steps(geometries: Mapping[str, Geometry], image: NDArray[np.uint8]) -> Iterator[Step]:
    """Locating, and the resampling with and without a pose, as thread time on one core."""
    cv2.setNumThreads(1)
    large = cv2.resize(image, _FULL_HW[::-1]).astype(np.uint8, copy=False)
    plain = View(frame_hw=_FULL_HW, size_hw=(256, 256))
    pose = Pose(x=970.0, y=530.0, degrees=7.0, home_xy=(960.0, 540.0))
    yield _timed("resize to 256x256", lambda: plain.picture(large))
    turned = replace(plain, pose=pose)
    yield _timed("pose and resize in one", lambda: turned.picture(large))
    for way, geometry in geometries.items():
        locate = _grown(geometry.locate, image.shape[:2])
        try:
            learned = _learned(locate, large)
        except EdgesegError:  # the table of accuracy says so
            continue
        yield _timed(f"find by {way}", partial(learned.find, np.roll(large, (7, -5), (0, 1))))


def _grown(locate: str, size_hw: tuple[int, int]) -> str:
    if not locate.startswith("anchor"):
        return locate
    box, _, angles = locate.removeprefix("anchor:").partition(",angles=")
    scale = (_FULL_HW[1] / size_hw[1], _FULL_HW[0] / size_hw[0]) * 2
    grown = [round(int(v) * s) for v, s in zip(box.split(","), scale, strict=True)]
    return f"anchor:{','.join(map(str, grown))},angles={angles}"


def _learned(locate: str, large: NDArray[np.uint8]) -> Geometry:
    with tempfile.TemporaryDirectory(prefix="edgeseg-") as folder:
        for number, move in enumerate(_MOVES):
            write_image(Path(folder) / f"{number}.png", np.roll(large, move, (0, 1)))
        config = FitConfig(geometry=Geometry(locate=locate))
        return settle_geometry(config, open_dataset(Path(folder))).geometry


def _timed(name: str, run: Callable[[], object]) -> Step:
    """The thread's own time: others may use the machine."""
    taken = []
    for _ in range(_REPEATS):
        begin = time.thread_time()
        run()
        taken.append(1e3 * (time.thread_time() - begin))
    return Step(step=name, least=min(taken), ms=float(np.median(taken)))
