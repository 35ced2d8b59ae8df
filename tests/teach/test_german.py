"""The German page from collecting to learning: no sentence of the service is left in English."""

import re
from pathlib import Path
from string import Formatter

from edgeseg.base.messages import sentences
from edgeseg.vision.images import write_image
from tests.doubles.chromium import Browser, Tab
from tests.doubles.fake_teach import scene
from tests.doubles.person import DESK, LONG_S, collect, fit, judge, look_at_rejects, run
from tests.support.teach_site import keep, taught

# Every line that was ever shown, after each answer of the service.
LISTEN = """
    window.heard = new Set();
    window.listen = () => {
        for (const line of document.body.innerText.split('\\n')) heard.add(line.trim());
        heard.add($('camera').title);
    };
    jobs.push(listen);
    new MutationObserver(listen).observe(document.body, {subtree: true, childList: true});
"""


def pattern_of(english: str) -> re.Pattern[str]:
    """Any text stands for a value, and numbers for a number."""
    pattern = ""
    for words, name, _, _ in Formatter().parse(english):
        value = "" if name is None else r"[-+.e0-9]+" if re.match("n(_|$)", name) else ".+"
        pattern += re.escape(words) + value
    return re.compile(pattern)


ENGLISH = [pattern_of(english) for english in sentences().values()]


def is_english(line: str) -> bool:
    """A sentence of the service as it stands in the table, with or without a capital."""
    words = (line, line[:1].lower() + line[1:])
    return any(pattern.fullmatch(each) for pattern in ENGLISH for each in words)


def heard(tab: Tab) -> list[str]:
    tab.evaluate("listen()")
    return sorted(filter(None, tab.evaluate("[...heard]")))


def stopped(tab: Tab, picture: Path, place_yx: tuple[slice, slice]) -> None:
    """A part that is too bright in a place comes by, once more than before."""
    before = tab.evaluate("alarms[0]?.id ?? ''")
    bad_hwc = scene(50)
    bad_hwc[place_yx] = 250
    write_image(picture, bad_hwc)
    look_at_rejects(tab, f"alarms[0]?.id > {before!r}")
    picture.unlink()
    tab.wait_for("document.querySelector('#alarms li img').naturalWidth")


def test_english_would_be_heard() -> None:
    assert is_english("Fitted on 6 good pictures")
    assert is_english("camera: connected")
    for text in sentences("de").values():
        assert not is_english(text), text


def test_nothing_is_said_in_english_on_the_german_page(browser: Browser, tmp_path: Path) -> None:
    for index in range(8):
        picture_hwc = scene(5 * index)
        picture_hwc[100:140, 150:200] = 195 + index
        write_image(tmp_path / "camera" / f"{index}.png", picture_hwc)
    with taught(tmp_path / "line3", str(tmp_path / "camera")) as (_, url):
        tab = browser.open(url, size_wh=DESK)
        tab.wait_for("document.documentElement.dataset.ready")
        tab.evaluate("speak('de')")
        tab.evaluate(LISTEN)
        collect(tab, 6)
        fit(tab)
        tab.wait_for("$('fit-sentence').innerText === 'Auf 6 guten Bildern angelernt'")
        judge(tab)
        tab.wait_for("$('promise').innerText.startsWith('6 gute Bilder tragen nur die Zusage')")
        assert tab.text("#judge-sentence").startswith("Nicht exakt (cross conformal)")
        keep(tab, "german-judge", tmp_path)
        tab.click("#tab-run")
        tab.click("#learn-preview")
        tab.wait_for("$('learn').innerText.includes('Noch läuft nichts, das lernen könnte')")
        browser.events.clear()  # the browser logs a refusal
        tab.click("#tab-judge")
        run(tab)
        tab.evaluate("$('person').value = 'Ann'")
        camera = tmp_path / "camera"
        stopped(tab, camera / "scratch.png", (slice(100, 140), slice(150, 200)))
        tab.click("#alarms li:first-child .actions button:nth-child(2)")
        tab.wait_for("$('alarms').innerText.includes('Gekennzeichnet: Bestätigen')")
        stopped(tab, camera / "serial.png", (slice(20, 50), slice(20, 50)))
        tab.click("#alarms li:first-child .actions button:nth-child(3)")
        tab.wait_for("$('alarms').innerText.includes('Gekennzeichnet: Hier nicht beachten')")
        tab.click("#learn-preview")
        tab.wait_for("!$('preview').hidden", timeout_s=LONG_S)
        preview = tab.text("#preview")
        assert "Ein bestätigter Fehler: die nächste Version" in preview
        assert "Lernt 0 der gekennzeichneten Alarme und beachtet bei 1 die Stelle nicht" in preview
        assert "nicht beachten, sagt: Ann (Aufsicht)" in preview
        keep(tab, "german-run", tmp_path)
        tab.click("#run-stop")
        tab.wait_for("state.run.state === 'stopped' && state.camera.ok")
        lines = heard(tab)
        assert any(line.endswith(": verbunden") for line in lines)
        assert [line for line in lines if is_english(line)] == []
        assert browser.problems() == []
        tab.close()
