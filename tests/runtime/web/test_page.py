"""The page in a real browser: what a person would see, on a desk and on a phone."""

import os
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgeseg.decision.prediction import Region
from edgeseg.runtime.drift.sink import DriftSink
from edgeseg.runtime.events.codes import Check
from edgeseg.runtime.station.station import Station
from edgeseg.runtime.web.page_sink import PageSink
from tests.doubles.chromium import Browser
from tests.support.brightness_model import brightness_metadata
from tests.support.scored_frames import THRESHOLD, FakeView, make_result, passing_part

TOKEN = "a-token-of-the-test-0123456789"
PHONE, DESK = (390, 844), (1400, 1000)
ODD = "one good part in 80 looks this odd"


class FakeRecorder:
    active = False

    def start(self) -> None:
        self.active = True

    def stop(self) -> None:
        self.active = False


class Run:
    """A page with a thread that scores a frame every few milliseconds, as a pipeline would."""

    def __init__(self, *, sources: int = 1, token: str | None = None) -> None:
        self.view, self.recorder = FakeView(sources), FakeRecorder()
        self.view.names[0] = "camera <b>0</b>"  # a name is text, never markup
        self.view.alarm = True
        self.distance, self.errors = 100.0, []
        self.station = Station()
        metadata = replace(brightness_metadata(), name="bottle")
        self.drift = DriftSink(
            metadata,
            window=32,
            publish=lambda change: self.page.on_event(change),
        )
        self.page = PageSink(
            metadata=metadata,
            view=self.view,
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
        self._sources = sources
        self._thread = threading.Thread(target=self._score)
        self._thread.start()

    def _score(self) -> None:
        region = Region(box_xywh=(20, 10, 12, 9), area_px=80, peak=20.0)
        heat_hw = np.zeros((32, 32), np.float32)
        heat_hw[8:14, 10:18] = 20.0
        index = 0
        while not self._stop.wait(0.01):
            with self._round:
                if self.paused:
                    continue
                bad = index % 50 == 49
                for source in range(self._sources):
                    result = make_result(
                        score=20.0 if bad else 5.0,
                        p_value=0.0125,
                        frame_hwc=passing_part(index),
                        map_hw=heat_hw if bad else None,
                        grid_hw=np.full((4, 6), self.distance, np.float32),
                        regions=(region,) if bad else (),
                        alarm_started=bad,
                        source_index=source,
                        frame_index=index,
                    )
                    self.drift.on_frame(result)
                    self.page.on_frame(result)
                self.view.last_scored_s = time.monotonic()
                index += 1

    def pause(self, *, last_scored_s: float) -> None:
        """Score nothing more, as if the last frame was scored then."""
        with self._round:  # no round is under way
            self.paused, self.view.last_scored_s = True, last_scored_s

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self.page.close()


@pytest.fixture
def run() -> Iterator[Run]:
    started = Run()
    yield started
    started.close()


def _keep(browser_tab, name: str, tmp_path: Path) -> None:
    """Save a picture where EDGESEG_SCREENSHOTS says, for people to judge."""
    folder = Path(os.environ.get("EDGESEG_SCREENSHOTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    browser_tab.screenshot(folder / f"{name}.png")


@pytest.mark.parametrize(("size_wh", "dark"), [(DESK, False), (PHONE, False), (PHONE, True)])
def test_shows_everything_without_sideways_scrolling(
    browser: Browser, run: Run, size_wh: tuple[int, int], dark: bool, tmp_path: Path
) -> None:
    tab = browser.open(run.page.url, size_wh=size_wh, dark=dark)
    tab.wait_for("document.documentElement.dataset.ready")
    # Real pictures: the frame of 64x48 enlarged by whole factors.
    tab.wait_for("document.getElementById('picture').naturalWidth === 512")
    tab.wait_for("document.querySelector('#alarm-list img')?.naturalWidth === 448")
    tab.wait_for("document.getElementById('drift-picture').naturalWidth === 64")
    text = tab.evaluate("document.body.innerText")
    for part in ("Line 3", "onnxruntime cpu", "12.3", "29.8", "overwritten", "PRO 0.950", ODD):
        assert part in text
    assert "camera <b>0</b>" in text
    assert tab.evaluate("document.getElementById('threshold').textContent") == "10.0"
    assert tab.evaluate("document.documentElement.scrollWidth") <= size_wh[0]
    background = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(16, 19, 23)" if dark else "rgb(243, 244, 246)")
    _keep(tab, f"page-{size_wh[0]}{'-dark' if dark else ''}", tmp_path)
    assert browser.problems() == []
    tab.call("Page.close")


def test_chart_draws_scores_and_threshold(browser: Browser, run: Run) -> None:
    tab = browser.open(run.page.url, size_wh=DESK)
    tab.wait_for("scores.some(point => point[2]) && scores.length > 4")
    drawn = """(() => { const c = document.getElementById('chart'), seen = new Set();
        const data = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
        for (let i = 0; i < data.length; i += 4)
            if (data[i + 3] === 255) seen.add([data[i], data[i + 1], data[i + 2]].join());
        return [...seen]; })()"""
    colours = tab.evaluate(drawn)
    assert "31,111,235" in colours  # --mark: the line
    assert "207,34,46" in colours  # --bad: defects and the threshold
    assert max(point[1] for point in tab.evaluate("scores")) == 20.0 > THRESHOLD
    tab.call("Page.close")


def test_record_button_starts_and_stops(browser: Browser, run: Run) -> None:
    tab = browser.open(run.page.url, size_wh=PHONE)
    tab.wait_for("!document.getElementById('record').hidden")
    for expected in (True, False):
        tab.evaluate("document.getElementById('record').click()")
        tab.wait_for(f"document.getElementById('record').ariaPressed === '{str(expected).lower()}'")
        assert run.recorder.active is expected
    tab.call("Page.close")


def test_drift_is_announced(browser: Browser, run: Run, tmp_path: Path) -> None:
    tab = browser.open(run.page.url, size_wh=PHONE)
    tab.wait_for("document.getElementById('drift-level').textContent === 'none'")
    lost = "{...state.sources[0].drift, level: 'lost', message: 'not known: the camera is lost'}"
    texts = "['drift-level', 'drift-message'].map(id => document.getElementById(id).textContent)"
    assert tab.evaluate(f"(showDrift({lost}), {texts})") == [
        "not known",
        "Not known: the camera is lost.",
    ]
    # Only what has been seen good can be told from what is seen now.
    tab.wait_for("state.sources[0].drift.brightness !== null")
    run.distance = 130.0
    tab.wait_for("document.getElementById('drift-level').classList.contains('warn')")
    moved = "Drift: the camera or the parts have moved; check"
    tab.wait_for(f"document.getElementById('banner').textContent.startsWith('{moved}')")
    tab.wait_for("document.getElementById('event-list').innerText.includes('drift warning')")
    _keep(tab, "page-drift", tmp_path)
    run.distance = 100.0
    tab.wait_for("document.getElementById('drift-level').textContent === 'none'")
    tab.call("Page.close")


def test_says_when_frames_stop_and_recovers(browser: Browser, run: Run) -> None:
    tab = browser.open(run.page.url, size_wh=DESK)
    tab.wait_for("document.getElementById('status').textContent === 'live'")
    run.pause(last_scored_s=time.monotonic() - 60)
    tab.wait_for("document.getElementById('banner').textContent.startsWith('No frame scored')")
    run.paused = False
    tab.wait_for("document.getElementById('status').textContent === 'live'")
    run.view.connected = False
    tab.wait_for("document.getElementById('status').textContent === 'camera lost'")
    tab.call("Page.close")


@pytest.mark.parametrize(("peak", "shown"), [(11.0, "DEFECT (minor)"), (20.0, "DEFECT (major)")])
def test_a_defect_says_how_bad_it_is(browser: Browser, run: Run, peak: float, shown: str) -> None:
    region = Region(box_xywh=(20, 10, 4, 4), area_px=12, peak=peak)  # small: the peak decides
    run.pause(last_scored_s=time.monotonic())
    run.page.on_frame(make_result(score=20.0, regions=(region,)))
    tab = browser.open(run.page.url, size_wh=PHONE)
    tab.wait_for(f"document.getElementById('verdict').textContent === '{shown}'")
    run.page.on_frame(make_result(score=5.0, regions=(region,)))  # what is good has no grade
    tab.wait_for("document.getElementById('verdict').textContent === 'GOOD'")
    tab.call("Page.close")


def test_a_station_without_an_approved_model_shows_no_good_part(
    browser: Browser, run: Run, tmp_path: Path
) -> None:
    station, asked = run.station, []
    station.start()
    station.attach_check(lambda: asked.append(True) or station.begin_check() is None)
    tab = browser.open(run.page.url, size_wh=PHONE)
    tab.wait_for("document.getElementById('check').textContent === 'Check'")
    tab.evaluate("window.confirm = () => true")
    tab.evaluate("document.getElementById('check').click()")
    tab.wait_for("document.getElementById('check').textContent === 'Checking …'")
    station.set_check(Check.FAILED, "good/1.png: judged defect")
    tab.wait_for("document.getElementById('check').textContent === 'Check failed'")
    tab.wait_for("document.getElementById('verdict').textContent === 'NO INSPECTION'")
    shown = tab.evaluate("document.getElementById('banner').textContent")
    assert shown == "No inspection: good/1.png: judged defect."
    assert tab.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
    _keep(tab, "page-no-inspection", tmp_path)
    station.set_check(Check.PASSED)
    tab.wait_for("document.getElementById('check').textContent === 'Check ✓'")
    tab.wait_for("document.getElementById('verdict').textContent !== 'NO INSPECTION'")
    assert asked == [True]
    tab.call("Page.close")


def test_two_sources_have_tabs(browser: Browser) -> None:
    run = Run(sources=2)
    try:
        tab = browser.open(run.page.url, size_wh=PHONE)
        tab.wait_for("document.querySelectorAll('#tabs button').length === 2")
        tab.evaluate("document.querySelectorAll('#tabs button')[1].click()")
        tab.wait_for("document.getElementById('where').textContent.startsWith('camera 1')")
        tab.wait_for("document.getElementById('picture').src.includes('source=1')")
        tab.wait_for("document.getElementById('picture').naturalWidth === 512")
        tab.call("Page.close")
    finally:
        run.close()


def test_token_opens_the_page_and_leaves_the_address_bar(browser: Browser) -> None:
    run = Run(token=TOKEN)
    try:
        tab = browser.open(run.page.url, size_wh=PHONE)
        tab.wait_for("document.body.innerText.includes('needs a token')")
        tab.evaluate("document.querySelector('input').value = 'wrong'")
        tab.evaluate("document.querySelector('form').submit()")
        tab.wait_for("location.pathname === '/login' && document.querySelector('form')")
        tab.call("Page.navigate", url=f"{run.page.url}?token={TOKEN}")
        tab.wait_for("document.documentElement.dataset.ready")
        assert tab.evaluate("location.search") == ""
        tab.wait_for("document.getElementById('picture').naturalWidth === 512")
        everything = tab.evaluate("document.documentElement.outerHTML + document.cookie")
        assert TOKEN not in everything
        tab.call("Page.close")
    finally:
        run.close()


def test_another_site_can_neither_read_nor_act(browser: Browser, run: Run) -> None:
    # The same page under another name is another site, as an attacker's page would be.
    other = run.page.url.replace("127.0.0.1", "localhost")
    tab = browser.open(other, size_wh=DESK)
    tab.wait_for("document.documentElement.dataset.ready")
    tab.call("Page.setBypassCSP", enabled=True)
    tab.reload()
    tab.wait_for("document.documentElement.dataset.ready")
    refused = "fetch('{}', {}).then(() => 'read', () => 'refused')"
    options = "{method: 'POST', headers: {'X-Edgeseg': 'page'}, body: '{\"active\": true}'}"
    assert tab.evaluate(refused.format(run.page.url + "recording", options)) == "refused"
    assert tab.evaluate(refused.format(run.page.url + "state", "{}")) == "refused"
    # Without our header no preflight is made, so such a request does arrive: it must do nothing.
    simple = "{method: 'POST', mode: 'no-cors', body: '{\"active\": true}'}"
    tab.evaluate(refused.format(run.page.url + "recording", simple))
    assert run.recorder.active is False
    tab.call("Page.close")
