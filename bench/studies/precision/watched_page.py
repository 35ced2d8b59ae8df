"""The live page with a viewer, beside a session that is timed.

The viewer asks for what a browser asks for; it is a thread of this process, and shows nothing.
"""

import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from edgeseg.contract.metadata import ModelMetadata
from edgeseg.contract.prediction import Prediction
from edgeseg.errors import RuntimeFailure
from edgeseg.runtime.records import (
    STAGES,
    FrameResult,
    PipelineSnapshot,
    SourceState,
    StageSummary,
    StageTimes,
)
from edgeseg.runtime.web.page_sink import PageSink

_NAME = "camera"
_POLL_S = 0.5  # between two looks of the page at its numbers
_BEGIN_S = 10.0  # until the viewer looks; then something is wrong


class _Numbers:
    """What the page shows beside the picture; they do not change."""

    def snapshot(self) -> PipelineSnapshot:
        none = StageSummary(count=0, mean=0.0, p50=0.0, p95=0.0, p99=0.0, max=0.0)
        source = SourceState(
            name=_NAME,
            live=True,
            connected=True,
            ended=False,
            frames_in=0,
            scored=0,
            dropped={},
            verdicts={},
            reconnects=0,
            alarm=False,
        )
        return PipelineSnapshot(
            model="",
            backend="",
            threshold_score=0.0,
            uptime_s=0.0,
            fps_in=0.0,
            fps_out=0.0,
            sources=(source,),
            stages=dict.fromkeys(STAGES, none),
        )


@contextmanager
def watched_page(
    metadata: ModelMetadata, picture_hwc: NDArray[np.uint8]
) -> Iterator[Callable[[Prediction], None]]:
    """A page that somebody looks at; the function shows it what was said of the picture."""
    faults: list[str] = []
    page = PageSink(
        metadata=metadata,
        view=_Numbers(),
        on_error=lambda _, reason: faults.append(reason),
        host="127.0.0.1",
        port=0,
        stale_after_s=60.0,
    )
    stop = threading.Event()
    viewer = threading.Thread(target=_look, args=(page.url, stop), daemon=True)
    viewer.start()
    try:
        _wait_for_viewer(page)
        yield lambda prediction: page.on_frame(_result(prediction, metadata, picture_hwc))
    finally:
        stop.set()
        page.close()
        viewer.join()
    if faults:
        raise RuntimeFailure(f"the live page failed: {faults[0]}; its times mean nothing")


def _look(url: str, stop: threading.Event) -> None:
    """What a browser asks for: the pictures, and the numbers now and then."""
    polled_s = time.monotonic()
    with urllib.request.urlopen(f"{url}stream.mjpg?source=0", timeout=30) as pictures:
        while not stop.is_set() and pictures.read1(1 << 16):
            if time.monotonic() - polled_s > _POLL_S:
                polled_s = time.monotonic()
                with urllib.request.urlopen(f"{url}state?source=0&after=0", timeout=30) as state:
                    state.read()


def _wait_for_viewer(page: PageSink) -> None:
    ends_s = time.monotonic() + _BEGIN_S
    while not page.state(source_index=0, after=0)["viewers"]:
        if time.monotonic() > ends_s:
            raise RuntimeFailure("nobody could open the live page on 127.0.0.1")
        time.sleep(0.005)


def _result(
    prediction: Prediction, metadata: ModelMetadata, picture_hwc: NDArray[np.uint8]
) -> FrameResult:
    return FrameResult(
        source=_NAME,
        source_index=0,
        frame_index=0,
        frame_name="",
        wall_s=time.time(),
        monotonic_s=time.monotonic(),
        frame_hwc=picture_hwc,
        roi_xy=(0, 0),
        prediction=prediction,
        threshold_score=metadata.threshold.score,
        threshold_pixel=metadata.threshold.pixel,
        verdict="good",
        regions=(),
        region_count=0,
        times=StageTimes(*(0.0 for _ in STAGES)),
    )
