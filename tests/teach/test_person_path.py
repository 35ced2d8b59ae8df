"""A person's path through teaching where things go wrong: a defective part among the good ones, a
wrong mark, and one that is withdrawn.

The camera, the child process, the golden check and the station are real; the score of the model is
the brightest pixel, so that what happens is known.
"""

from pathlib import Path

import numpy as np
import pytest

from edgeseg.teach.service import TeachService
from edgeseg.vision.images import write_image
from tests.doubles.chromium import Browser, Tab
from tests.doubles.fake_teach import HEIGHT, WIDTH
from tests.doubles.fakes import wait
from tests.doubles.person import LONG_S, fit, keep_all, mark, run
from tests.support.teach_site import DESK, HAND, keep, taught

GOOD, SLIPPED = 14, 200  # parts; the score of the defective one among them
WORDS = {
    "en": {
        "copies": "15 pictures of 14 different parts.",
        "look": "Look at these 3 pictures first: is each part good?",
        "weak": "Only 25% of the planted defects would be found",
        "removed": "One picture was removed since this fit",
    },
    "de": {
        "copies": "15 Bilder von 14 verschiedenen Teilen.",
        "look": "Sehen Sie zuerst diese 3 Bilder an: Ist jedes Teil gut?",
        "weak": "Nur 25\u00a0% der künstlichen Fehler würden gefunden",
        "removed": "Ein Bild wurde seit diesem Anlernen entfernt",
    },
}


def part(number: int, score: int) -> np.ndarray:
    """A part with a pattern of its own, none of it as bright as its score."""
    coarse = np.random.default_rng(number).integers(20, 90, (HEIGHT // 8, WIDTH // 8, 3))
    picture = np.kron(coarse, np.ones((8, 8, 1))).astype(np.uint8)
    picture[100:140, 150:200] = score
    return picture


def upload(tab: Tab, folder: Path) -> None:
    """Send the pictures of a folder, in the order of their names."""
    tab.call("DOM.enable")
    root = tab.call("DOM.getDocument")["root"]["nodeId"]
    node = tab.call("DOM.querySelector", nodeId=root, selector="#upload-files")["nodeId"]
    files = sorted(folder.iterdir())
    tab.call("DOM.setFileInputFiles", files=[str(path) for path in files], nodeId=node)
    tab.wait_for(f"state.good === {len(files)}", timeout_s=LONG_S)


def stopped(service: TeachService, picture: Path, score: int) -> str:
    """A part comes by and is stopped; its alarm."""
    known = {alarm["id"] for alarm in service.alarms()}
    write_image(picture, part(70, score))
    found: list[str] = []

    def seen() -> bool:
        found[:] = [
            alarm["id"]
            for alarm in service.alarms()
            if alarm["score"] == score and alarm["id"] not in known
        ]
        return bool(found)

    wait(seen, f"an alarm of {score}")
    picture.unlink()
    return found[0]


@pytest.mark.parametrize(("language", "size_wh"), [("en", DESK), ("de", HAND)])
def test_a_defective_part_and_wrong_marks_are_seen_and_undone(
    browser: Browser, tmp_path: Path, language: str, size_wh: tuple[int, int]
) -> None:
    words = WORDS[language]
    for number in range(GOOD - 1):
        write_image(tmp_path / "photos" / f"p{number:02d}.png", part(number, 100 + number))
        write_image(tmp_path / "camera" / f"c{number:02d}.png", part(number, 100 + number))
    write_image(tmp_path / "photos" / "p05b.png", part(5, 105))  # one part twice
    write_image(tmp_path / "photos" / "p99.png", part(99, SLIPPED))  # and one that is not good
    with taught(tmp_path / "line3", str(tmp_path / "camera")) as (service, url):
        tab = browser.open(url, size_wh=size_wh)
        tab.wait_for("document.documentElement.dataset.ready")
        tab.evaluate(f"speak({language!r})")
        upload(tab, tmp_path / "photos")
        tab.wait_for(f"$('parts-count').innerText.startsWith({words['copies']!r})")

        fit(tab)  # the slipped-in part sets the threshold
        tab.wait_for("$('look-badge').innerText === '3'")
        tab.click("#fit-next")
        tab.wait_for(f"$('look-title').innerText === {words['look']!r}")
        assert tab.text("#look li").startswith("p99.png")
        assert tab.text("#weak").startswith(words["weak"])
        assert "p99.png" in tab.text("#weak")
        tab.wait_for("document.querySelector('#look img')?.naturalWidth")
        keep(tab, f"path-judge-{size_wh[0]}-{language}", tmp_path)
        tab.click("#judge-next")  # which leads nowhere before somebody has looked
        tab.wait_for("tab === 'judge' && !document.querySelector('#look-card .problem').hidden")
        tab.click("#look .actions button:nth-child(2)")
        tab.wait_for("document.querySelectorAll('#look li').length === 2")
        assert tab.text("#changed-words").startswith(words["removed"])
        tab.click("#fit-again")

        fit(tab)
        tab.click("#fit-next")
        tab.wait_for("judged?.threshold < 120 && document.querySelector('#look .asks')")
        assert tab.evaluate("$('weak').hidden || !$('weak').innerText.includes('p99')")
        keep_all(tab)
        run(tab)
        assert tab.evaluate("$('rollback').hidden")  # there is no version of before
        threshold = service.state()["model"]["threshold"]

        tab.evaluate("$('person').value = 'Ann'; $('person').oninput()")
        wrong = stopped(service, tmp_path / "camera" / "scratch.png", 180)
        mark(tab, wrong, "good")  # it was not
        tab.click("#learn-preview")
        tab.wait_for("!$('preview').hidden", timeout_s=LONG_S)
        assert tab.evaluate("preview.threshold_new") == 180
        assert tab.evaluate("preview.loss.asks")  # one person alone cannot let so much pass
        keep(tab, f"path-learn-{size_wh[0]}-{language}", tmp_path)
        tab.click("#preview .cards .actions button")  # so it is withdrawn, where it stands
        tab.wait_for("$('preview').hidden && state.feedback.waiting + state.feedback.agreed === 0")
        assert service.marks() == []
        mark(tab, wrong, "defect")
        near = stopped(service, tmp_path / "camera" / "serial.png", 190)
        mark(tab, near, "good")
        tab.wait_for("state.feedback.agreed === 2")
        tab.click("#learn-preview")
        tab.wait_for("!$('preview').hidden", timeout_s=LONG_S)
        guards = tab.evaluate("preview.guards")
        assert guards == [{"name": wrong, "kind": "mark"}]  # it scores like a confirmed defect
        assert tab.evaluate("$('learn-start').disabled")
        assert service.state()["model"]["threshold"] == threshold
        events = [line["event"] for line in service.history()]
        assert events == [
            *("mark", "mark", "withdraw", "mark", "run", "keep", "keep", "keep"),
            *("fit", "fit"),
        ]
        tab.click("#run-stop")
        tab.wait_for("state.run.state === 'stopped' && state.camera.ok", timeout_s=LONG_S)
        assert browser.problems() == []
        tab.close()
