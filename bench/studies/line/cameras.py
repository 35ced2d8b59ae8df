"""Cameras as they behave: triggers, lost packets, loss and return, and what GStreamer's pipe costs.

python -m edgeseg.bench.studies.line.cameras --triggers 200

Against aravis' fake camera on loopback and GStreamer's test picture; needs aravis-tools,
libaravis-0.8-0, gstreamer1.0-tools and gstreamer1.0-plugins-bad.
"""

import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import click
import numpy as np

from edgeseg.errors import EdgesegError, RuntimeFailure
from edgeseg.runtime.capture.aravis.camera import AravisCamera, open_camera
from edgeseg.runtime.capture.aravis.discovery import discover
from edgeseg.runtime.capture.frame_buffer import FrameBuffer
from edgeseg.runtime.capture.gstreamer_process import open_gstreamer
from edgeseg.runtime.capture.reader import Reader
from edgeseg.runtime.capture.sources import parse_source
from edgeseg.runtime.records import SourceEvent
from edgeseg.tables import markdown

PROGRAM = "arv-fake-gv-camera-0.8"
Rows = list[tuple[str, str]]


@contextmanager
def fake_camera(*, lost_per_thousand: int = 0) -> Iterator["subprocess.Popen[bytes]"]:
    """On loopback, until the end of the block."""
    command = [PROGRAM, "-i", "127.0.0.1", "-s", "GV01", "-r", str(lost_per_thousand)]
    try:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    except FileNotFoundError:
        raise EdgesegError(
            f"{PROGRAM} is not installed; try: sudo apt install aravis-tools"
        ) from None
    try:
        while not discover():  # which takes a second
            pass
        yield process
    finally:
        process.kill()
        process.wait()


def _open(text: str) -> AravisCamera:
    return open_camera(text, wait=lambda seconds: False, timeout_s=10.0)


def triggers(count: int) -> Rows:
    """Frames for software triggers, one after the other."""
    with fake_camera():
        camera = _open("aravis:GV01,trigger=software,fps=100")
        ids, waits_ms = [], []
        for _ in range(count):
            begin_s = time.monotonic()
            camera.fire()
            grab = camera.read()
            waits_ms.append((time.monotonic() - begin_s) * 1000)
            ids.append(grab.frame_id if grab is not None and grab.image_hwc is not None else None)
        camera.close()
    p50, p99 = np.percentile(waits_ms, (50, 99))
    whole = [number for number in ids if number is not None]
    return [
        ("software triggers", str(count)),
        ("whole frames for them, all different", str(len(set(whole)))),
        ("trigger to frame, ms", f"p50 {p50:.1f}, p99 {p99:.1f}"),
    ]


def lost_packets(frames: int) -> Rows:
    """How many frames arrive whole when one packet of a hundred is lost."""
    with fake_camera(lost_per_thousand=10):
        camera = _open("aravis:GV01,packet_size=1400,fps=50")
        grabs = [camera.read() for _ in range(frames)]
        camera.close()
    whole = sum(grab is not None and grab.image_hwc is not None for grab in grabs)
    return [("frames with 1 % of packets lost", f"{whole} whole, {frames - whole} incomplete")]


def loss_and_return(text: str) -> Rows:
    """Seconds until a killed camera counts as lost, and until it is back after its return."""
    stop, events = threading.Event(), list[SourceEvent]()
    buffer = FrameBuffer(["latest"], queue_size=8)
    reader = Reader(
        parse_source(text), 0, buffer=buffer, stop=stop, on_event=events.append, stall_timeout_s=2.0
    )

    def until(kind: str) -> float:
        while kind not in [event.kind for event in list(events)]:
            reader.check_stall(time.monotonic())
            time.sleep(0.01)
        return next(event.monotonic_s for event in events if event.kind == kind)

    with fake_camera():
        reader.start()
        until("source_open")
    killed_s = time.monotonic()
    lost_s = until("source_lost") - killed_s
    with fake_camera():
        started_s = time.monotonic()
        back_s = until("source_back") - started_s
        stop.set()
        reader.join(timeout_s=20)
    return [(f"killed, {text}", f"lost after {lost_s:.1f} s, back {back_s:.1f} s after it answers")]


def pipe(width: int, height: int, frames: int) -> Rows:
    """Frames a second through the pipe, with nothing else to do."""
    size = f"video/x-raw,format=BGR,width={width},height={height}"
    capture = open_gstreamer(
        f"videotestsrc pattern=black ! {size} ! appsink",
        live=False,
        wait=lambda seconds: False,
        timeout_s=10.0,
    )
    capture.read()
    begin_s = time.perf_counter()
    for _ in range(frames):
        if capture.read() is None:
            raise RuntimeFailure("the pipeline ended")
    rate = frames / (time.perf_counter() - begin_s)
    capture.close()
    return [(f"GStreamer, {width}x{height}", f"{rate:.0f} frames a second, {1000 / rate:.1f} ms")]


@click.command()
@click.option("--triggers", "count", default=200, show_default=True, help="Software triggers.")
@click.option("--frames", default=200, show_default=True, help="Of every other part.")
def main(count: int, frames: int) -> None:
    """Print one table."""
    rows = triggers(count) + lost_packets(frames)
    for text in ("aravis:GV01", "aravis:GV01,trigger=software"):
        rows += loss_and_return(text)
    for width, height in ((640, 480), (1280, 720), (1920, 1080)):
        rows += pipe(width, height, frames)
    click.echo("\n".join(markdown(("what", "measured"), rows)))


if __name__ == "__main__":
    main()
