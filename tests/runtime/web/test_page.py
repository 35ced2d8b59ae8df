"""The page of a stream in a real browser: what a person would see, on a desk and on a phone."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgeseg.runtime.events.codes import Check
from tests.doubles.axe import serious_findings
from tests.doubles.chromium import Browser
from tests.support.live_site import DESK, HALL, PHONE, TOLD, Run, keep, line, speaking
from tests.support.scored_frames import THRESHOLD

TOKEN = "a-token-of-the-test-0123456789"


@pytest.fixture
def run() -> Iterator[Run]:
    started = Run()
    yield started
    started.close()


@pytest.mark.parametrize("language", ["en", "de"])
@pytest.mark.parametrize(("size_wh", "dark"), [(DESK, False), (PHONE, True), (HALL, True)])
def test_shows_everything_and_nothing_serious_is_found(
    browser: Browser, run: Run, size_wh: tuple[int, int], dark: bool, language: str, tmp_path: Path
) -> None:
    tab = browser.open(run.page.url, size_wh=size_wh, dark=dark, first=speaking(language))
    tab.wait_for(TOLD)
    # Real pictures: the frame of 64x48 enlarged by whole factors.
    tab.wait_for("$('part-view').querySelector('img').naturalWidth === 512")
    tab.wait_for("$('held-view').querySelector('img')?.naturalWidth === 512")
    tab.wait_for("document.querySelector('#alarms img')?.naturalWidth === 448")
    keep(tab, f"stream-{size_wh[0]}-{language}", tmp_path)
    tab.click("#figures summary")
    tab.wait_for("$('drift-picture').naturalWidth === 64 && $('event-list').children.length")
    text = tab.evaluate("document.body.innerText")
    for part in ("Line 3", "onnxruntime cpu", "PRO 0", "camera <b>0</b>", "overwritten"):
        assert part in text
    assert ("Take the part out" if language == "en" else "Teil aussortieren") in text
    why = "Texture, 41 %" if language == "en" else "Textur, zu 41 %"
    assert why in tab.text("#alarms li")
    assert tab.evaluate("document.documentElement.scrollWidth") <= size_wh[0]
    cut = tab.evaluate(
        "[...document.querySelectorAll('button, .pill, #verdict-word, #verdict-do')].filter(e =>"
        " e.getClientRects().length && e.scrollWidth > e.clientWidth + 1 && e.clientWidth)"
        ".map(e => e.outerHTML.slice(0, 99))"
    )
    assert cut == []
    background = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(16, 19, 23)" if dark else "rgb(243, 244, 246)")
    run.pause(last_scored_s=time.monotonic())  # what is looked at stands still
    assert serious_findings(tab) == []
    assert browser.problems() == []
    tab.close()


def test_the_verdict_is_read_from_three_metres_and_the_rest_without_scrolling(
    browser: Browser, run: Run
) -> None:
    tab = browser.open(run.page.url, size_wh=HALL)
    tab.wait_for(TOLD)
    assert tab.evaluate("parseFloat(getComputedStyle($('verdict-word')).fontSize)") > 180
    for place in ("verdict", "part-view", "held", "shift"):
        assert tab.evaluate(f"$('{place}').getBoundingClientRect().bottom") <= HALL[1], place
    tab.close()


def test_chart_draws_scores_and_threshold(browser: Browser, run: Run) -> None:
    tab = browser.open(run.page.url, size_wh=DESK)
    tab.wait_for(TOLD)
    tab.click("#figures summary")
    tab.wait_for("scores.some(point => point[2]) && scores.length > 4")
    drawn = """(() => { drawScores(); const c = $('chart'), seen = new Set();
        const data = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
        for (let i = 0; i < data.length; i += 4)
            if (data[i + 3] === 255) seen.add([data[i], data[i + 1], data[i + 2]].join());
        return [...seen]; })()"""
    colours = tab.evaluate(drawn)
    assert "26,95,208" in colours  # --mark: the line
    assert "192,28,40" in colours  # --bad: defects and the threshold
    assert max(point[1] for point in tab.evaluate("scores")) == 20.0 > THRESHOLD
    tab.close()


def test_record_button_starts_and_stops(browser: Browser, run: Run) -> None:
    tab = browser.open(run.page.url, size_wh=PHONE)
    tab.wait_for("!$('record').hidden")
    for expected in (True, False):
        tab.evaluate("$('record').click()")
        tab.wait_for(f"$('record').ariaPressed === '{str(expected).lower()}'")
        assert run.recorder.active is expected
    tab.call("Page.close")


def test_drift_is_announced(browser: Browser, run: Run, tmp_path: Path) -> None:
    tab = browser.open(run.page.url, size_wh=PHONE)
    tab.wait_for(TOLD)
    tab.click("#figures summary")
    lost = "{...state.sources[0].drift, level: 'lost', message: 'not known: the camera is lost'}"
    said = f"(showDrift({lost}), [$('drift-body').hidden, $('drift-message').textContent])"
    assert tab.evaluate(said) == [True, "Not known: the camera is lost"]
    # Only what has been seen good can be told from what is seen now.
    tab.wait_for("state.sources[0].drift.brightness !== null")
    assert tab.evaluate("$('notice').textContent") == ""
    run.distance = 130.0
    tab.wait_for("$('notice').textContent.startsWith('The camera or the parts have moved: check')")
    tab.wait_for("$('event-list').innerText.includes('drift warning')")
    keep(tab, "stream-drift", tmp_path)
    run.distance = 100.0
    tab.wait_for("$('notice').textContent === ''")
    tab.close()


def test_says_when_frames_stop_and_recovers(browser: Browser, run: Run) -> None:
    tab = browser.open(run.page.url, size_wh=DESK)
    tab.wait_for("$('status').textContent === 'running'")
    run.pause(last_scored_s=time.monotonic() - 60)
    tab.wait_for("$('notice').textContent.startsWith('No part for ')")
    assert tab.evaluate("$('screen').matches('.old')")
    run.paused = False
    tab.wait_for("$('status').textContent === 'running' && !$('screen').matches('.old')")
    run.view.connected = False
    tab.wait_for("$('status').textContent === 'no camera' && $('screen').matches('.old')")
    tab.close()


def test_a_station_without_an_approved_model_shows_no_good_part(
    browser: Browser, run: Run, tmp_path: Path
) -> None:
    station, asked = run.station, []
    station.start()
    station.attach_check(lambda: asked.append(True) or station.begin_check() is None)
    tab = browser.open(run.page.url, size_wh=PHONE)
    tab.wait_for("$('check').textContent === 'Check' && $('part-view').querySelector('img')")
    tab.evaluate("window.confirm = () => true")
    tab.click("#check")
    tab.wait_for("$('check').textContent === 'Checking …'")
    station.set_check(Check.FAILED, "good/1.png: judged defect")
    tab.wait_for("$('check').textContent === 'Check failed'")
    tab.wait_for("$('verdict-word').textContent === '! NOT INSPECTED'")
    assert tab.text("#verdict-do").startswith("Golden check not passed: let no part pass")
    other = "whatToDo({why: 'timeout', verdict: 'no_inspection'})"
    assert tab.evaluate(other) == "Nothing is inspected: let no part pass"
    assert not tab.evaluate("$('part-view').querySelector('img')")  # nor the picture of a part
    tab.wait_for("$('notice').textContent.includes('good/1.png: judged defect')")
    assert tab.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
    keep(tab, "stream-no-inspection", tmp_path)
    station.set_check(Check.PASSED)
    tab.wait_for("$('check').textContent === 'Check ✓'")
    tab.wait_for("['✓ GOOD', '✕ DEFECT'].includes($('verdict-word').textContent)")
    assert asked == [True]
    tab.close()


def test_two_sources_have_a_screen_each(browser: Browser) -> None:
    with line(browser, sources=2) as run:
        tab = browser.open(run.page.url, size_wh=PHONE)
        tab.wait_for("document.querySelectorAll('#sources button').length === 2")
        tab.wait_for(TOLD)
        assert not tab.evaluate("$('part-view').dataset.part.endsWith('-1')")
        tab.click("#sources button:nth-child(2)")
        tab.wait_for("$('part-view').dataset.part.endsWith('-1')")
        tab.wait_for("$('verdict').dataset.part.endsWith('-1')")
        tab.close()


def test_token_opens_the_page_and_leaves_the_address_bar(browser: Browser) -> None:
    run = Run(token=TOKEN)
    try:
        tab = browser.open(run.page.url, size_wh=PHONE)
        tab.wait_for("document.body.innerText.includes('needs a token')")
        tab.evaluate("document.querySelector('input').value = 'wrong'")
        tab.evaluate("document.querySelector('form').submit()")
        tab.wait_for("location.pathname === '/login' && document.querySelector('form')")
        tab.call("Page.navigate", url=f"{run.page.url}?token={TOKEN}")
        tab.wait_for(TOLD)
        assert tab.evaluate("location.search") == ""
        everything = tab.evaluate("document.documentElement.outerHTML + document.cookie")
        assert TOKEN not in everything
        tab.close()
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
