"""What the list of collected pictures costs the station's process each time a page asks for it.

python -m edgeseg.bench.studies.teach.picture_lists --pictures 2000

first        the page opens: pictures are not looked at yet, and a thread begins to
unchanged    it asks again, and nothing has come
state        the other question of every page: counts, feedback, what runs
one more     it asks again after one more picture was kept
thumbnail    a small picture of the list, again
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np

from edgeseg.contract.images import write_image
from edgeseg.teach.project import Project
from edgeseg.teach.service import TeachService

_SIZE_HW = (240, 320)
_RESTED_S = 2.5  # after which a folder's time can be trusted
_AGAIN = 20


def processor_ms(ask: Callable[[], object], *, times: int) -> float:
    """Of the thread that answers."""
    begin = time.thread_time()
    for _ in range(times):
        ask()
    return 1000 * (time.thread_time() - begin) / times


def measured(folder: Path, pictures: int) -> dict[str, float]:
    """Milliseconds of processor by question."""
    project = Project.begun(folder / "line3")
    rng = np.random.default_rng(0)
    for index in range(pictures - 1):
        frame_hwc = rng.integers(0, 255, (*_SIZE_HW, 3), np.uint8)
        write_image(project.pictures("good") / f"{index:05d}.png", frame_hwc)
    service = TeachService(project)
    try:
        listing = service._pictures.list
        first = service.pictures("good")
        listing.settle()
        time.sleep(_RESTED_S)
        revision = service.pictures("good")["revision"]
        found = {
            "unchanged": processor_ms(
                lambda: service.pictures("good", revision=revision), times=_AGAIN
            ),
            "state": processor_ms(service.state, times=_AGAIN),
        }
        service._pictures.add(frame_hwc[::-1].copy(), kind="good", stem="more")
        found["one more"] = processor_ms(lambda: service.pictures("good"), times=1)
        name = first["items"][0]["name"]
        service.picture_jpeg("good", name, width=320)
        found["thumbnail"] = processor_ms(
            lambda: service.picture_jpeg("good", name, width=320), times=_AGAIN
        )
        again = TeachService(project)
        found["first"] = processor_ms(lambda: again.pictures("good"), times=1)
        again.close()
        return found
    finally:
        service.close()


@click.command()
@click.option("--pictures", default=2000, show_default=True, help="In the folder.")
def main(pictures: int) -> None:
    """Print the processor's milliseconds of each question."""
    with tempfile.TemporaryDirectory() as folder:
        for name, ms in measured(Path(folder), pictures).items():
            click.echo(f"{name:<10} {ms:8.2f} ms")


if __name__ == "__main__":
    main()
