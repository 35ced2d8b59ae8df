"""The page of a stream in a browser, with a thread that scores frames as a pipeline would."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from edgeseg.decision.prediction import Region
from edgeseg.decision.why import Why
from edgeseg.runtime.drift.sink import DriftSink
from edgeseg.runtime.station.station import Station
from edgeseg.runtime.web.page_sink import PageSink
from tests.doubles.chromium import Browser, Tab
from tests.support.brightness_model import brightness_metadata
from tests.support.page_site import unsaved
from tests.support.scored_frames import FakeView, make_result, passing_part

PHONE, DESK, HALL = (390, 844), (1280, 800), (1920, 1080)
TOLD = "document.documentElement.dataset.ready && $('part-view').querySelector('img')"
REGION = Region(
    box_xywh=(20, 10, 12, 9), area_px=80, peak=20.0, why=Why(layer="texture", share=0.41)
)


class FakeRecorder:
    active = False

    def start(self) -> None:
        self.active = True

    def stop(self) -> None:
        self.active = False


class Run:
    """A page over a line: every `every`th part is bad, and `paused` stops the line."""

    def __init__(
        self,
        *,
        sources: int = 1,
        token: str | None = None,
        every: int = 50,
        coded: bool = False,  # the colour of a part says which it is
    ) -> None:
        self.view, self.recorder = FakeView(sources), FakeRecorder()
        self.view.names[0] = "camera <b>0</b>"  # a name is text, never markup
        self.view.alarm = True
        self.distance, self.errors = 100.0, []
        self.station = Station()
        metadata = replace(brightness_metadata(), name="bottle")
        self.counters = unsaved(lambda name, text: self.errors.append((name, text)))
        self.drift = DriftSink(
            metadata,
            window=32,
            publish=lambda change: self.page.on_event(change),
        )
        self.page = PageSink(
            metadata=metadata,
            view=self.view,
            counters=self.counters,
            on_error=lambda name, text: self.errors.append((name, text)),
            host="127.0.0.1",
            port=0,
            stale_after_s=10.0,
            token=token,
            title="Line 3",
            drift=self.drift,
            recorder=self.recorder,
            station=self.station,
            recipes=("bottle",),
        )
        self.paused, self._round, self._stop = False, threading.Lock(), threading.Event()
        self._sources, self._every, self._coded, self._index = sources, every, coded, 0
        self._thread = threading.Thread(target=self._score)
        self._thread.start()

    def _score(self) -> None:
        while not self._stop.wait(0.01):
            with self._round:
                if not self.paused:
                    self._pass(bad=self._index % self._every == self._every - 1)

    def part(self, *, bad: bool) -> None:
        """Let one part pass while the line is paused."""
        with self._round:
            self._pass(bad=bad)

    def _pass(self, *, bad: bool) -> None:
        index = self._index
        heat_hw = np.zeros((32, 32), np.float32)
        heat_hw[8:14, 10:18] = 20.0
        for source in range(self._sources):
            result = make_result(
                score=20.0 if bad else 5.0,
                p_value=0.0125,
                frame_hwc=coded_part(index, bad=bad) if self._coded else passing_part(index),
                map_hw=heat_hw if bad and not self._coded else None,
                grid_hw=np.full((4, 6), self.distance, np.float32),
                regions=(REGION,) if bad else (),
                alarm_started=bad,
                source_index=source,
                frame_index=index,
            )
            self.drift.on_frame(result)
            self.counters.on_frame(result)
            self.page.on_frame(result)
        self.view.last_scored_s = time.monotonic()
        self._index += 1

    def pause(self, *, last_scored_s: float | None = None) -> None:
        """Score nothing more, as if the last frame was scored then."""
        with self._round:  # no round is under way
            self.paused = True
            if last_scored_s is not None:
                self.view.last_scored_s = last_scored_s

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self.page.close()


def coded_part(index: int, *, bad: bool) -> np.ndarray:
    """A frame of one colour, from which `CODE` reads its number and whether it is bad."""
    colour = (25 * (index % 10), 25 * (index // 10 % 10), 200 if bad else 60)
    return np.full((48, 64, 3), colour, np.uint8)


# The two last digits of a shown picture's number, and whether its part is bad.
CODE = """image => {
    const one = Object.assign(document.createElement('canvas'), {width: 1, height: 1});
    const pen = one.getContext('2d'), x = .03 * image.naturalWidth, y = .5 * image.naturalHeight;
    pen.drawImage(image, x, y, 1, 1, 0, 0, 1, 1);
    const [red, green, blue] = pen.getImageData(0, 0, 1, 1).data;
    return [10 * Math.round(green / 25) + Math.round(red / 25), blue > 130];
}"""


def keep(tab: Tab, name: str, tmp_path: Path) -> None:
    """Save a picture where EDGESEG_SCREENSHOTS says, for people to judge."""
    folder = Path(os.environ.get("EDGESEG_SCREENSHOTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    tab.screenshot(folder / f"{name}.png")


def speaking(language: str) -> str:
    """A script that lets a page begin in a language."""
    return f"localStorage.setItem('edgeseg.language', '{language}')"


@contextmanager
def line(browser: Browser, **about: object) -> Iterator[Run]:
    """A run that is closed again; nothing may have gone wrong on its page or behind it."""
    started = Run(**about)  # type: ignore[arg-type]
    try:
        yield started
        assert browser.problems() == []
    finally:
        started.close()
    assert started.errors == []
