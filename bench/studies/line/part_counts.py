"""How many parts `--trigger part` sees in the shared clips, against a count by hand.

    python -m edgeseg.bench.studies.line.part_counts SHARED/data/video --out bench/results/line

The hand counts were made on contact sheets: every 12th frame of the bottles, every 5th of the cars
and every 14th of the people, with their numbers, looked at one by one. A visit is from the first
frame in which something is in the view, or in the region of it, to the last; what stands there at
the start is one. Where two cars are in the whole view at once they are one visit and two cars.
"""

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import click
import cv2
import numpy as np

from edgeseg.bench.studies.line.loop_overhead import InstantSession
from edgeseg.bench.studies.line.rig import Rig
from edgeseg.files import write_json, write_text
from edgeseg.options import FOLDER, note
from edgeseg.runtime.capture.captures import Grab
from edgeseg.runtime.station.codes import ErrorCode
from edgeseg.tables import aligned


@dataclass(frozen=True, kw_only=True)
class Case:
    """One region of one clip; visits as first and last frame, by hand."""

    clip: str
    region: str
    roi: str | None
    visits: tuple[tuple[int, int], ...]
    parts: int  # where several come at once, more than visits
    empty_frame: int | None = None  # a frame without a part, where the clip begins with one


CARS, PEOPLE, BOTTLES = "car-detection", "one-by-one-person-detection", "bottle-detection"
# Clip, region, its ROI, visits, parts, and a frame of the empty place.
_ROWS: tuple[tuple[str, str, str | None, tuple[tuple[int, int], ...], int, int | None], ...] = (
    (CARS, "the whole view", None, ((57, 102), (179, 237), (314, 348)), 4, None),
    (CARS, "left lane", "0,0,270,432", ((179, 227), (314, 348)), 2, None),
    (CARS, "right lane", "290,0,478,432", ((57, 102), (188, 237)), 2, None),
    (
        *(PEOPLE, "the whole view", None),
        ((64, 200), (232, 450), (502, 705), (748, 870), (920, 1206), (1238, 1360)),
        *(6, None),
    ),
    (BOTTLES, "left place", "40,90,110,240", ((0, 214), (338, 530), (815, 1188)), 3, 270),
    (BOTTLES, "middle place", "260,90,110,240", ((0, 530), (661, 1188)), 2, 600),
    (BOTTLES, "right place", "480,90,110,240", ((0, 958), (1036, 1188)), 2, 1000),
)
CASES = tuple(
    Case(clip=clip, region=region, roi=roi, visits=visits, parts=parts, empty_frame=empty)
    for clip, region, roi, visits, parts, empty in _ROWS
)


class Clip:
    """A capture that hands out the frames of a video, each with its number."""

    def __init__(self, path: Path) -> None:
        self._video = cv2.VideoCapture(str(path))
        self.fps = 0.0

    def read(self) -> Grab | None:
        """The next frame."""
        good, image = self._video.read()
        if not good:
            return None
        return Grab(np.asarray(image, np.uint8), "bgr", time.monotonic_ns(), time.time())

    def close(self) -> None:
        """Release the file."""
        self._video.release()


def frame_of(path: Path, index: int) -> np.ndarray:
    """One frame by its number."""
    clip = Clip(path)
    for _ in range(index):
        clip.read()
    grab = clip.read()
    clip.close()
    assert grab is not None
    assert grab.image_hwc is not None
    return grab.image_hwc


def triggers(case: Case, folder: Path, scratch: Path) -> list[int]:
    """The frame of every part that the trigger saw."""
    path = folder / f"{case.clip}.mp4"
    values: dict[str, object] = {"trigger": "part", "roi": case.roi, "trigger_timeout": 60.0}
    if case.empty_frame is not None:
        empty = scratch / "empty.png"
        cv2.imwrite(str(empty), frame_of(path, case.empty_frame))
        values["part_empty"] = empty
    with Rig(InstantSession(), values, live=False, opener=lambda *_, **__: Clip(path)) as rig:
        while not rig.ended():
            time.sleep(0.01)
    results = [result for result in rig.results if result.error == ErrorCode.NONE]
    return [result.inspection.frame_index for result in results if result.inspection is not None]


@dataclass(frozen=True, kw_only=True)
class Count:
    """What came of one case."""

    case: Case
    frames: list[int]

    @property
    def hit(self) -> int:
        """Visits that have exactly one trigger in them."""
        inside = [
            sum(first <= frame <= last for frame in self.frames) for first, last in self.case.visits
        ]
        return sum(number == 1 for number in inside)

    @property
    def stray(self) -> int:
        """Triggers outside of every visit."""
        visits = self.case.visits
        return sum(
            not any(first <= frame <= last for first, last in visits) for frame in self.frames
        )


def report_text(counts: list[Count]) -> str:
    """As a table."""
    rows: list[tuple[str, ...]] = []
    rows.append(("clip", "region", "parts", "visits", "triggers", "one each", "stray", "frames"))
    for count in counts:
        case, seen = count.case, " ".join(map(str, count.frames))
        numbers = (case.parts, len(case.visits), len(count.frames), count.hit, count.stray)
        rows.append((case.clip, case.region, *map(str, numbers), seen))
    return "\n".join(aligned(rows)) + "\n"


@click.command(help=__doc__)
@click.argument("folder", type=FOLDER)
@click.option("--out", type=FOLDER, help="Where the report goes.")
def main(folder: Path, out: Path | None) -> None:
    """Count, and print."""
    counts = []
    with tempfile.TemporaryDirectory() as scratch:
        for case in CASES:
            counts.append(Count(case=case, frames=triggers(case, folder, Path(scratch))))
            note(f"{case.clip}, {case.region}: {counts[-1].frames}")
    text = report_text(counts)
    click.echo(text, nl=False)
    if out is not None:
        write_text(out / "parts.txt", text)
        write_json(
            out / "parts.json",
            [
                {**vars(count.case), "triggers": count.frames, "one_each": count.hit}
                for count in counts
            ],
        )


if __name__ == "__main__":
    main()
