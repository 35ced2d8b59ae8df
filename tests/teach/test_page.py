"""The teaching page in a real browser: what a person sees, presses and is told."""

from pathlib import Path

import numpy as np
import pytest

from edgeseg.base.messages import Message
from edgeseg.teach.marks import SeenCard
from edgeseg.vision.images import write_image
from tests.doubles.chromium import Browser
from tests.doubles.fakes import wait
from tests.support.teach_site import DESK, HALL, HAND, PHONE, TABLET, TABS, Site, keep

OPERATOR, SUPERVISOR = "an-operators-token-0", "a-supervisors-token-0"


@pytest.mark.parametrize("size_wh", [PHONE, HAND, TABLET, DESK, HALL])
def test_every_tab_fits_its_screen_in_both_languages(
    site: Site, size_wh: tuple[int, int], tmp_path: Path
) -> None:
    site.fill()
    tab = site.open("collect", size_wh)
    for language in ("en", "de"):
        tab.evaluate(f"speak('{language}')")
        for name in TABS:
            tab.click(f"#tab-{name}")
            tab.wait_for(f"!document.getElementById('{name}').hidden")
            if name == "judge":
                tab.wait_for("document.querySelectorAll('#judge .cards li').length === 11")
            elif name == "run":
                tab.wait_for("document.querySelectorAll('#alarms li').length === 3")
                tab.wait_for("['part', 'held'].every(id => $(id + '-view').querySelector('img'))")
            else:
                tab.wait_for("!document.getElementById('live').hidden")
            keep(tab, f"{name}-{size_wh[0]}-{language}", tmp_path)
            assert tab.evaluate("document.documentElement.scrollWidth") <= size_wh[0]
            cut = tab.evaluate(
                "[...document.querySelectorAll('button, label, .pill, #verdict-word')].filter(e =>"
                " e.getClientRects().length && e.scrollWidth > e.clientWidth + 1 && e.clientWidth)"
                ".map(e => e.outerHTML.slice(0, 99))"
            )
            assert cut == []


def test_nothing_is_said_outside_the_table(site: Site) -> None:
    site.fill()
    site.fake.mark("alarm-002", "good", who="operator", name="Ann")
    tab = site.open("collect")
    for part in ("texts", "sentences"):
        english, german = f"LANGUAGES.en.{part}", f"LANGUAGES.de.{part}"
        tab.evaluate(f"for (const key in {german}) {german}[key] = '⟦' + {english}[key] + '⟧'")
    tab.evaluate("speak('de')")
    outside = """(() => {
        const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];
        while (walker.nextNode()) {
          const node = walker.currentNode, text = node.textContent.trim();
          if (!/[a-z]/i.test(text) || node.parentElement.closest('.said, script, style')) continue;
          if (!/^([⚠✓✕?!] )?⟦/.test(text)) found.push(text);
        }
        for (const e of document.querySelectorAll('[aria-label], [alt]'))
          for (const text of [e.getAttribute('aria-label'), e.getAttribute('alt')])
            if (text && !/⟦|^(good|bad|alarm)-\\d+(.png)?$/.test(text)) found.push(text);
        return found; })()"""
    for name in TABS:
        tab.click(f"#tab-{name}")
        tab.wait_for(f"!document.getElementById('{name}').hidden")
        if name == "judge":
            tab.wait_for("document.querySelectorAll('#judge .cards li').length === 11")
        if name == "run":
            tab.wait_for("document.querySelectorAll('#alarms li').length === 3")
            tab.click("#history summary")
            tab.wait_for("document.querySelector('#history li')")
            tab.click("#learn-preview")
            tab.wait_for("!document.getElementById('preview').hidden")
        times = [text for text in tab.evaluate(outside) if "⟦" not in text and ":" not in text]
        assert times == []  # the time of an event is written by the browser


@pytest.mark.parametrize("size_wh", [PHONE, DESK])
def test_the_layout_does_not_jump_when_the_first_picture_comes(
    site: Site, size_wh: tuple[int, int]
) -> None:
    site.fake.camera_ok = False
    tab = site.open("fit", size_wh)
    boxes = "['stage', 'fit'].map(id => JSON.stringify($(id).getBoundingClientRect()))"
    tab.wait_for("document.getElementById('waiting').innerText === 'The camera is gone'")
    before = tab.evaluate(boxes)
    site.fake.camera_ok = True
    tab.wait_for("document.getElementById('live').naturalWidth && !$('live').hidden")
    assert tab.evaluate(boxes) == before


@pytest.mark.parametrize("size_wh", [PHONE, DESK])
def test_the_layout_does_not_jump_when_parts_and_alarms_come(
    site: Site, size_wh: tuple[int, int]
) -> None:
    site.fill()
    alarms, site.fake.alarm_ids = site.fake.alarm_ids, []
    tab = site.open("run", size_wh)
    tab.wait_for("!$('no-alarms').hidden && $('part-view').querySelector('img')")
    tops = (
        "['part-card', 'held', 'counters', 'alarms-card', 'learn-preview'].map("
        "id => $(id).getBoundingClientRect().top + scrollY)"
    )
    before = tab.evaluate(tops)
    site.fake.alarm_ids, site.fake.verdict = alarms, "defect"
    tab.wait_for("document.querySelectorAll('#alarms li').length === 3")
    tab.wait_for("$('held-view').querySelector('img') && $('verdict').matches('.bad')")
    assert tab.evaluate(tops) == before


def test_collect_capture_remove_and_undo(site: Site) -> None:
    tab = site.open("collect")
    tab.wait_for("$('no-pictures').innerText.startsWith('No good parts yet')")
    for count in (1, 2):
        tab.click("#capture")
        tab.wait_for(f"document.querySelectorAll('#thumbnails li').length === {count}")
    for _ in range(4):  # pressed faster than the station answers
        tab.evaluate("$('capture-bad').click()")
    wait(lambda: site.fake.calls.count(("capture", "bad")) == 4, "a press was lost")
    tab.wait_for("document.getElementById('kind-bad').innerText === 'Bad 4'")
    tab.click("#thumbnails li:last-child .actions button")  # the newest comes first
    tab.wait_for("document.querySelectorAll('#thumbnails li').length === 1")
    tab.click("#toast-undo")
    tab.wait_for("document.querySelectorAll('#thumbnails li').length === 2")
    site.called("restore", "good-0001.png")
    tab.click("input[name=auto][value=parts]")
    site.called("auto_capture", "parts")
    tab.reload()
    tab.wait_for("document.querySelector('input[name=auto][value=parts]')?.checked")
    assert tab.text("#meters").split() == ["Focus", "sharp", "Light", "good", "Motion", "still"]


def test_pictures_come_by_button_and_by_drop(site: Site, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("Foto 1 ä.png", "b.png")]
    for path in files:
        write_image(path, np.full((20, 30, 3), 90, np.uint8))
    tab = site.open("collect")
    tab.call("DOM.enable")
    root = tab.call("DOM.getDocument")["root"]["nodeId"]
    node = tab.call("DOM.querySelector", nodeId=root, selector="#upload-files")["nodeId"]
    tab.call("DOM.setFileInputFiles", files=[str(path) for path in files], nodeId=node)
    tab.wait_for("document.querySelectorAll('#thumbnails li').length === 2")
    assert site.fake.kept["good"] == ["Foto_1_a_.png", "b.png"]
    tab.wait_for("$('uploading').innerText === '2 pictures of good parts were added.'")
    tab.click("input[name=kind][value=bad]")
    tab.evaluate(
        "(() => { const data = new DataTransfer(); data.items.add(new File(['x'], 'c.png'));"
        " $('pictures').dispatchEvent(new DragEvent('drop', {dataTransfer: data, bubbles: true}));"
        "})()"
    )
    site.called("upload", "c.png", 1, "bad")


def test_fit_runs_ends_and_can_be_cancelled(site: Site) -> None:
    tab = site.open("fit")
    tab.wait_for("$('fit-start').disabled")
    assert "Collect some first" in tab.text("#fit-what")
    site.fake.capture()
    tab.click("#fit-start")
    tab.wait_for("$('fit-end').innerText === 'Fitting, 40 % done.'")
    assert tab.evaluate("$('fit-bar').getAttribute('aria-valuenow')") == "40"
    shown = site.fake.frames
    wait(lambda: site.fake.frames > shown + 2, "the live picture stands still")
    tab.click("#fit-cancel")
    tab.wait_for("$('fit-end').innerText.startsWith('Cancelled.')")
    tab.click("#fit-start")
    tab.wait_for("$('fit-start').disabled")
    site.fake.fit = {"state": "failed", "share": 0.4, "sentence": "a.png: cannot be read"}
    tab.wait_for("$('fit-end').innerText === 'The fit failed.'")
    assert tab.text("#fit .failed") == "a.png: cannot be read"
    site.fake.end_fit()
    tab.click("#fit-next")
    tab.wait_for("location.hash === '#judge' && !$('judged').hidden")


def test_judge_moves_the_threshold(site: Site) -> None:
    site.fill()
    tab = site.open("judge")
    tab.wait_for("document.querySelectorAll('#look li').length === 2")
    assert tab.text("#rate-words") == "2 false alarms in a thousand good parts"
    assert "60 good pictures" in tab.evaluate("$('histogram').textContent")
    tab.evaluate("$('rate').focus()")
    line = "document.querySelector('#histogram .limit').getAttribute('x1') * 1"
    before = tab.evaluate(line)
    tab.press("ArrowRight")
    tab.wait_for("$('rate-words').innerText.startsWith('5 false')")
    assert tab.evaluate(line) < before
    site.called("choose", 5, "")


def test_run_shows_the_verdict_and_takes_marks(site: Site) -> None:
    site.fill()
    site.fake.running = "stopped"
    tab = site.open("run", HALL)
    tab.click("#run-start")
    tab.wait_for("$('verdict-word').innerText === '✓ GOOD'")
    assert tab.evaluate("parseFloat(getComputedStyle($('verdict-word')).fontSize)") > 150
    assert tab.text("#verdict-part").startswith("SN 4711")
    site.fake.verdict = "defect"
    tab.wait_for("$('verdict-word').innerText === '✕ DEFECT' && $('verdict').matches('.bad')")
    assert tab.text("#verdict-do") == "Take the part out"
    assert "1,240" in tab.text("#counters")
    assert tab.text("#counters").startswith("Yield\n99.3 %")
    tab.click("#figures summary")
    tab.wait_for("$('figures').innerText.includes('12.4')")
    tab.click("#alarms li:first-child .actions button:nth-child(1)")
    tab.wait_for("document.activeElement === $('person')")
    assert "Say who you are" in tab.text("#alarms-card .problem")
    tab.call("Input.insertText", text="Ann")
    tab.click("#alarms li:first-child .actions button:nth-child(1)")
    site.called("mark", "alarm-003", "good", "supervisor", "Ann")
    assert site.fake.card == SeenCard(id="alarm-003", part="SN 003")
    tab.wait_for("$('alarms').innerText.includes('Marked: Was good (Ann, supervisor)')")
    tab.click("#alarms li:nth-child(2) .actions button:nth-child(3)")
    site.called("mark", "alarm-002", "ignore", "supervisor", "Ann")
    tab.evaluate("window.confirm = () => true")
    tab.click("#shift-begin")
    site.called("begin_shift")
    tab.click("#run-stop")
    tab.wait_for("$('verdict-word').innerText === 'Stopped'")


def test_learning_is_shown_before_it_is_done(site: Site) -> None:
    site.fill()
    site.fake.mark("alarm-002", "good", who="operator", name="Ann")
    tab = site.open("run")
    tab.wait_for(
        "$('learn-waiting').innerText === 'Marks that wait: 1. Agreed: 0.'"
        " && $('learn-start').disabled"
    )
    tab.click("#learn-preview")
    tab.wait_for("!$('preview').hidden")
    for part in (
        "Threshold now\n6",
        "Threshold then\n6.4",
        "4 of 4",
        "Would be learned: 1\n\nmarked",
    ):
        assert part in tab.text("#preview")
    assert "One mark, expected two" in tab.text("#preview")
    tab.wait_for("document.querySelector('#preview img').naturalWidth")
    tab.click("#learn-start")
    site.called("learn", "supervisor", "", "shown")
    tab.wait_for("$('learn-state').innerText === 'Version 2 runs.'")
    tab.evaluate("window.confirm = () => true")
    tab.click("#rollback")
    site.called("rollback", "supervisor")
    tab.click("#history summary")
    tab.wait_for("$('history').innerText.includes('threshold 6')")


def test_a_refusal_stands_where_the_person_looks(site: Site) -> None:
    tab = site.open("collect")
    tab.wait_for("!$('capture').disabled")
    site.fake.refusal = "the disk is full, expected 10 MB; delete what is not needed"
    tab.click("#capture")
    tab.wait_for("document.querySelector('#collect .problem').innerText.startsWith('The disk is')")
    below = "document.querySelector('#collect .problem').getBoundingClientRect().top - "
    assert 0 < tab.evaluate(below + "$('capture').getBoundingClientRect().bottom") < 80
    site.fake.refusal = ""
    tab.click("#capture")
    tab.wait_for("document.querySelector('#collect .problem').hidden")
    site.browser.events.clear()  # the browser logs a refusal


def test_a_lost_connection_is_said_and_ends(site: Site) -> None:
    tab = site.open("collect")
    offline = {"latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
    tab.call("Network.emulateNetworkConditions", offline=True, **offline)
    tab.wait_for("!$('offline').hidden")
    assert "No connection" in tab.text("#offline")
    online = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    tab.call("Network.emulateNetworkConditions", offline=False, **online)
    tab.wait_for("$('offline').hidden && !$('live').hidden")
    site.browser.events.clear()  # the browser logs what it could not load


def test_an_operator_is_told_and_a_supervisor_takes_over(browser: Browser) -> None:
    site = Site(browser, token=OPERATOR, supervisor_token=SUPERVISOR)
    try:
        site.fill()
        tab = site.open("run", token=OPERATOR)
        tab.wait_for("location.search === '' && $('run-stop').disabled")
        assert "Only a supervisor" in tab.text("#run .needs")
        tab.evaluate("$('person').value = 'Ann'")
        tab.click("#alarms li:first-child .actions button:nth-child(1)")
        site.called("mark", "alarm-003", "good", "operator", "Ann")
        tab.click("#unlock")
        for token, then in (("wrong", "!$('unlock-box').querySelector('.problem').hidden"),):
            tab.evaluate(f"$('unlock-token').value = '{token}'")
            tab.click("#unlock-form .main")
            tab.wait_for(then)
        tab.evaluate(f"$('unlock-token').value = '{SUPERVISOR}'")
        tab.click("#unlock-form .main")
        tab.wait_for("isSupervisor() && !$('run-stop').disabled && tab === 'run'")
        tab.click("#unlock")
        tab.wait_for("state.role === 'operator' && $('run-stop').disabled")
        site.browser.events.clear()  # the browser logs the wrong token
    finally:
        site.close()


def test_tabs_work_with_keys_and_say_what_they_are(site: Site) -> None:
    tab = site.open("collect")
    tab.evaluate("$('tab-collect').focus()")
    for key, expected in (("ArrowRight", "region"), ("End", "run"), ("ArrowRight", "collect")):
        tab.press(key)
        tab.wait_for(f"tab === '{expected}' && document.activeElement.id === 'tab-{expected}'")
        assert tab.evaluate("document.querySelectorAll('[aria-selected=true]').length") == 1
    unnamed = tab.evaluate(
        "[...document.querySelectorAll('button, input, select, img, meter, [role]')].filter(e =>"
        " e.getClientRects().length && !(e.ariaLabel || e.innerText || e.alt || e.title"
        " || e.labels?.length && e.labels[0].innerText || e.getAttribute('aria-labelledby')"
        " || e.getAttribute('role') === 'status')).map(e => e.outerHTML)"
    )
    assert unnamed == []


def test_a_refusal_is_german_on_the_german_page_where_it_can_be(site: Site) -> None:
    tab = site.open("collect")
    tab.wait_for("!$('capture').disabled")
    tab.evaluate("speak('de')")
    problem = "(e => [e.innerText, e.lang])(document.querySelector('#collect .problem'))"
    for refusal, words, lang in (
        (Message("pictures_full", kind=Message("word_good"), n=2000), "Es gibt schon 2.000", "de"),
        ("the disk is full, expected 10 MB", "The disk is full, expected 10 MB", "en"),
    ):
        site.fake.refusal = refusal
        tab.click("#capture")
        tab.wait_for(f"{problem}[0].startsWith('{words}')")
        assert tab.evaluate(problem)[1] == lang
    site.browser.events.clear()  # the browser logs a refusal


def test_what_was_refused_is_not_shown_as_chosen(site: Site) -> None:
    tab = site.open("collect")
    tab.wait_for("document.querySelector('input[name=auto][value=off]').checked")
    site.fake.refusal = "runs freely, so nothing triggers it"
    tab.click("input[name=auto][value=trigger]")
    tab.wait_for("!document.querySelector('#collect .problem').hidden")
    tab.wait_for("document.querySelector('input[name=auto][value=off]').checked")
    site.browser.events.clear()  # the browser logs a refusal
