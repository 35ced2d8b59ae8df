"""The operator's screen: one part at a time, a reject that is held, and lists that stand still."""

import json
import shutil
from pathlib import Path

import pytest

from edgeseg.base.language_files import FOLDER, languages
from edgeseg.runtime.web import page_files
from tests.doubles.chromium import Browser, Tab
from tests.doubles.fakes import wait
from tests.support.live_site import CODE, DESK, HALL, PHONE, TOLD, Run, keep, line

# Looks at every frame that the browser draws: the number in the picture, and that in the words.
WATCH = f"""(() => {{
    const code = {CODE}, number = id => Number(id.split('-')[1]) % 100;
    window.looked = {{pairs: 0, parts: new Set(), wrong: []}};
    const look = () => {{
        for (const [view, words, word] of [['part-view', 'verdict', 'verdict-word'],
                                           ['held-view', 'held', 'held-word']]) {{
            const image = $(view).querySelector('img'), id = $(words).dataset.part;
            if (!image || !id) continue;
            const [shown, bad] = code(image), said = [number(id), /DEFECT/.test($(word).innerText)];
            looked.pairs += 1;
            looked.parts.add(id);
            if (shown !== said[0] || bad !== said[1] || id !== $(view).dataset.part)
                looked.wrong.push([view, shown, bad, ...said]);
        }}
        requestAnimationFrame(look);
    }};
    look();
}})()"""
SLOW = {"offline": False, "latency": 150, "downloadThroughput": 60_000, "uploadThroughput": 60_000}
CARDS = "[...$('alarms').children].map(e => [e.dataset.part, e.getBoundingClientRect().toJSON()])"


@pytest.mark.parametrize("slow", [False, True])
def test_picture_and_verdict_are_of_one_part_however_fast_parts_come(
    browser: Browser, slow: bool
) -> None:
    with line(browser, every=2, coded=True) as run:  # good, bad, good ... a hundred a second
        tab = browser.open(run.page.url, size_wh=DESK)
        tab.wait_for(TOLD)
        if slow:
            tab.call("Network.emulateNetworkConditions", **SLOW)
        tab.evaluate(WATCH)
        tab.wait_for("looked.parts.size > 24 && looked.pairs > 100")
        assert tab.evaluate("looked.wrong") == []
        tab.close()


def test_the_watch_sees_a_picture_of_another_part(browser: Browser) -> None:
    with line(browser, every=2, coded=True) as run:
        tab = browser.open(run.page.url, size_wh=DESK)
        tab.wait_for(TOLD)
        tab.evaluate("showPart = (show => part => part && setTimeout(show, 100, part))(showPart)")
        tab.evaluate("partPlaces.part = partPlace($('part-view'), showPart)")
        tab.evaluate(WATCH)
        tab.wait_for("looked.wrong.length")
        tab.close()


def test_the_last_reject_is_held_until_the_next_one_or_a_key(
    browser: Browser, tmp_path: Path
) -> None:
    with line(browser) as run:
        run.pause()
        run.part(bad=True)
        tab = browser.open(run.page.url, size_wh=PHONE)
        tab.wait_for("$('held-view').querySelector('img')")
        first = tab.evaluate("$('held').dataset.part")
        for _ in range(3):
            run.part(bad=False)
        tab.wait_for("$('verdict-word').innerText === '✓ GOOD'")
        assert tab.evaluate("$('held').dataset.part") == first
        keep(tab, "stream-held", tmp_path)
        run.part(bad=True)
        tab.wait_for(f"$('held').dataset.part > '{first}'")
        second = tab.evaluate("$('held').dataset.part")
        tab.press("Escape")
        tab.wait_for("$('held-word').innerText === 'No reject' && $('held-seen').disabled")
        tab.reload()
        tab.wait_for(TOLD)
        assert tab.text("#held-word") == "No reject"
        run.part(bad=True)
        tab.wait_for(f"$('held').dataset.part > '{second}'")
        tab.click("#held-seen")
        tab.wait_for("$('held').dataset.part === ''")
        tab.close()


def test_what_was_seen_of_one_camera_brings_nothing_back_of_another(browser: Browser) -> None:
    with line(browser, sources=2) as run:
        run.pause()
        run.part(bad=True)
        tab = browser.open(run.page.url, size_wh=DESK)
        tab.wait_for("$('sources').children.length === 2")
        for source in (0, 1):
            tab.evaluate(f"$('sources').children[{source}].click()")
            tab.wait_for("$('held').dataset.part !== '' && $('held-view').querySelector('img')")
            tab.click("#held-seen")
            tab.wait_for("$('held').dataset.part === ''")
        tab.evaluate("$('sources').children[0].click()")
        tab.evaluate(
            "looked = 0; const before = showScreen;"
            "showScreen = answer => { before(answer); looked += 1; }"
        )
        tab.wait_for("looked > 2")
        assert tab.evaluate("source === 0 && $('held').dataset.part === ''")
        tab.close()


def test_an_alarm_is_announced_and_takes_no_focus(browser: Browser) -> None:
    with line(browser) as run:
        run.pause()
        run.part(bad=True)
        tab = browser.open(run.page.url, size_wh=DESK)
        tab.wait_for("$('alarms').children.length === 1 && $('held-view').querySelector('img')")
        for place in ("#alarms .look", "#held-seen", "#language"):
            before = tab.evaluate("$('held').dataset.part")
            tab.evaluate(f"document.querySelector('{place}').focus()")
            tab.evaluate("$('announced').textContent = ''")
            run.part(bad=True)
            run.part(bad=False)
            tab.wait_for(f"$('held').dataset.part > '{before}' && $('rejects-new').innerText")
            tab.wait_for("$('announced').innerText.startsWith('Alarm: DEFECT')")
            focused = f"document.activeElement === document.querySelector('{place}')"
            assert tab.evaluate(focused), place
        assert tab.evaluate("$('announced').ariaLive") == "polite"
        tab.close()


def reject(run: Run, count: int) -> None:
    """Bad parts, as fast as their pictures are drawn."""
    for _ in range(count):
        known = len(run.page._rejects.ids())
        run.part(bad=True)
        wait(lambda known=known: len(run.page._rejects.ids()) > known, "a reject is listed")


def shown(tab: Tab) -> list[str]:
    return tab.evaluate("[...$('alarms').children].map(e => e.dataset.part)")


def test_rejects_stand_still_while_they_are_read_and_have_pages(browser: Browser) -> None:
    with line(browser) as run:
        run.pause()
        reject(run, 15)
        tab = browser.open(run.page.url, size_wh=DESK)
        tab.wait_for("$('alarms').children.length === 12")
        cards, ids = tab.evaluate(CARDS), shown(tab)
        assert ids == sorted(ids, reverse=True)
        reject(run, 3)
        tab.wait_for("$('rejects-new').innerText === '3 new'")
        assert tab.evaluate(CARDS) == cards
        tab.click("#rejects-older")
        tab.wait_for("$('alarms').children.length === 3 && $('rejects-older').disabled")
        oldest = shown(tab)
        assert max(oldest) < min(ids)
        reject(run, 1)
        tab.wait_for("$('rejects-new').innerText === '4 new'")
        assert shown(tab) == oldest
        tab.click("#rejects-new")
        tab.wait_for("$('rejects-new').disabled && $('rejects-newer').disabled")
        newest = shown(tab)
        assert newest[4:] == ids[:8]
        tab.click("#rejects-older")
        tab.wait_for(f"$('alarms').children[0].dataset.part < '{min(newest)}'")
        tab.click("#rejects-newer")
        tab.wait_for("$('rejects-newer').disabled")
        assert shown(tab) == newest
        tab.click("#alarms li:nth-child(3) .look")
        tab.wait_for(f"$('large-picture').src.includes('{newest[2]}')")
        tab.close()


def test_a_new_shift_begins_at_nought(browser: Browser) -> None:
    with line(browser) as run:
        run.pause()
        before = run.counters.counts.total.all.parts
        for bad in (False, False, False, True):
            run.part(bad=bad)
        tab = browser.open(run.page.url, size_wh=HALL)
        tab.wait_for(f"$('counters').innerText.includes('Parts\\n{before + 4}')")
        tab.evaluate("window.confirm = () => false")
        tab.click("#shift-begin")
        tab.evaluate("window.confirm = () => true")
        assert run.counters.counts.shift.all.parts == before + 4
        tab.click("#shift-begin")
        tab.wait_for("$('counters').innerText.includes('Parts\\n0')")
        run.part(bad=False)
        tab.wait_for("$('counters').innerText.startsWith('Yield\\n100 %')")
        tab.wait_for(f"$('trend-words').innerText.includes('{before + 5} parts in all')")
        tab.close()


def test_a_third_language_is_one_file(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shutil.copytree(FOLDER, tmp_path / "languages")
    texts = {"verdict_good": "BON", "do_good": "La pièce peut passer"}
    french = {"name": "Français", "short": "FR", "sentences": {}, "texts": texts}
    (folder / "fr.json").write_text(json.dumps(french), encoding="utf-8")
    monkeypatch.setattr(page_files, "languages", lambda: languages(folder))
    with line(browser) as run:
        run.pause()
        run.part(bad=False)
        tab = browser.open(run.page.url, size_wh=PHONE)
        tab.wait_for(TOLD)
        assert tab.evaluate("[...$('language').options].map(o => o.text)") == ["EN", "DE", "FR"]
        tab.evaluate("$('language').value = 'fr'; $('language').onchange()")
        tab.wait_for("$('verdict-word').innerText === '✓ BON' && $('verdict-do').innerText")
        assert tab.text("#verdict-do") == "La pièce peut passer"
        assert tab.text("#held-word") == "No reject"  # not translated yet
        assert tab.evaluate("document.documentElement.lang") == "fr"
        tab.close()
